"""``python -m bench [case ...] [options]``: run the cases, compare with bench/limits.toml; exit status 1 if one is missed.

Options are those of the last case, such as ``python -m bench live --shape 10x500 --tenth``. Without a case all run but those that
take hours.
"""

import importlib.util
import inspect
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.calibration import unit

Run = Callable[..., dict[str, float]]
"""Measures a case, some with options."""
LIMITS = Path(__file__).with_name("limits.toml")
LONG = frozenset({"beside", "many_pods", "soak", "starving"})
"""The cases that run only if they are named: they take minutes, or hours."""


def main(arguments: list[str]) -> int:
    """Print a line for each measure; 1 if a limit was missed."""
    first = next((number for number, text in enumerate(arguments) if text.startswith("-")), len(arguments))
    cases, options = arguments[:first], arguments[first:]
    limits: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(LIMITS.read_text())
    short = [case for case in limits if case not in LONG]
    if not cases and options:
        print(f"{__doc__}\nCases: {', '.join(limits)}.")
        return 0 if options[0] in ("-h", "--help") else 2
    for case in cases:
        if importlib.util.find_spec(f"bench.{case}") is None:
            print(f"unknown case {case!r}: use {', '.join(limits)}")
            return 2
    runs: dict[str, Run] = {case: importlib.import_module(f"bench.{case}").run for case in cases or short}
    is_help = not {"-h", "--help"}.isdisjoint(options)
    if options and "options" not in inspect.signature(runs[cases[-1]]).parameters:
        text = inspect.getdoc(sys.modules[f"bench.{cases[-1]}"]) if is_help else f"unknown option {options[0]!r}:"
        print(f"{text}\n{cases[-1]} takes no options")
        return 0 if is_help else 2
    if is_help:
        runs[cases[-1]](options)  # its parser exits
    missed = 0
    for case, run in runs.items():
        before = unit()
        measures = run(options) if options and case == cases[-1] else run()
        fixed = min(before, unit())
        print(f"{case}: one unit is {fixed * 1000:.1f} ms of processor time on this machine now")
        for name, limit in limits.get(case, {}).items():
            if name not in measures:
                continue  # of a shape that was not measured
            value = measures[name]
            compared = value / fixed if limit["per"] == "unit" else value
            good = compared <= limit["limit"] if limit["at"] == "most" else compared >= limit["limit"]
            missed += not good
            shown = f"{value:.4g}" if limit["per"] != "unit" else f"{value:.4g} s = {compared:.3g} units"
            print(f"  {'ok    ' if good else 'MISSED'} {name}: {shown}, at {limit['at']} {limit['limit']}")
        for name, value in measures.items():
            if name not in limits.get(case, {}):
                print(f"         {name}: {value:.4g}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
