"""``python -m bench [case ...] [options]``: run the cases, compare with bench/limits.toml; exit status 1 if one is missed.

Options are those of the last case, such as ``python -m bench live --shape 10x500 --tenth``. Without a case all run but those that
take hours.
"""

import importlib.util
import sys
import tomllib
from pathlib import Path
from typing import Any

from bench.calibration import unit

LIMITS = Path(__file__).with_name("limits.toml")
LONG = frozenset({"beside", "soak"})
"""The cases that run only if they are named: they take minutes, or hours."""


def main(arguments: list[str]) -> int:
    """Print a line for each measure; 1 if a limit was missed."""
    first = next((number for number, text in enumerate(arguments) if text.startswith("-")), len(arguments))
    cases, options = arguments[:first], arguments[first:]
    limits: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(LIMITS.read_text())
    if not cases and options:
        print(f"{__doc__}\nCases: {', '.join(limits)}.")
        return 0 if options[0] in ("-h", "--help") else 2
    for case in cases:
        if importlib.util.find_spec(f"bench.{case}") is None:
            print(f"unknown case {case!r}: use {', '.join(limits)}")
            return 2
    missed = 0
    for case in cases or [case for case in limits if case not in LONG]:
        before = unit()
        measures: dict[str, float] = importlib.import_module(f"bench.{case}").run(
            *([options] if options and case == cases[-1] else [])
        )
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
