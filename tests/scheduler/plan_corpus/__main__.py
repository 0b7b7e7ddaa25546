"""Record the plans of the corpus, compare them with recorded ones, and show one: ``python -m tests.scheduler.plan_corpus``.

``compare`` prints the number of differing plans and the first one: the world, the configuration and the plan. With ``--base``,
a checkout with the code from before, it prints the lines in which the two plans differ. ``record`` is for a change that is meant
to change plans, or that adds worlds.
"""

import argparse
import difflib
import gc
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.scheduler.plan_corpus import configurations, corpus_worlds, hashes


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.scheduler.plan_corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="write the hashes of all plans")
    record.add_argument("file", nargs="?", type=Path, default=hashes.RECORDED)
    comparison = commands.add_parser("compare", help="compare the plans with recorded hashes")
    comparison.add_argument("file", nargs="?", type=Path, default=hashes.RECORDED)
    comparison.add_argument("--worlds", type=int, default=hashes.WORLDS, help="how many worlds, evenly spread")
    comparison.add_argument("--decisions", action="store_true", help="do not compare messages and statuses")
    comparison.add_argument(
        "--base", type=Path, help="a checkout with the code from before: print how the plans differ"
    )
    show = commands.add_parser("show", help="print a world, a configuration and the plan")
    show.add_argument("seed", type=int)
    show.add_argument("config", choices=configurations.NAMES)
    arguments = parser.parse_args()
    gc.set_threshold(50_000)
    match arguments.command:
        case "record":
            _record(arguments.file)
            return 0
        case "show":
            print("\n".join(shown(arguments.seed, arguments.config)))
            return 0
    recorded = arguments.file.read_text().splitlines()
    seeds = range(0, len(recorded), max(1, len(recorded) // arguments.worlds))
    return 1 if compare(recorded, seeds, arguments.base, not arguments.decisions) else 0


def shown(seed: int, name: str) -> list[str]:
    """Return the lines of a world, of a configuration and of the plans."""
    lines = [f"# world {seed}", *corpus_worlds.text(seed).splitlines()]
    lines += [f"# configuration {name}", configurations.document(name, seed)]
    for cycle, plan in enumerate(hashes.plans(seed, name), 1):
        lines += [f"# plan of cycle {cycle}", *str(plan).splitlines()]
        lines += [f"# as written in cycle {cycle}", *hashes.texts(plan).splitlines()]
    return lines


def _record(file: Path) -> None:
    """Write the hashes of all plans, and print how many differ from those that were recorded."""
    former = file.read_text().splitlines() if file.exists() else []
    lines = [hashes.line(seed) for seed in range(hashes.WORLDS)]
    file.write_text("\n".join([*lines, ""]))
    pairs = [
        (before[1:], after[1:])
        for old, new in zip(former, lines, strict=False)
        for before, after in zip(hashes.entries(old), hashes.entries(new), strict=True)
    ]
    decisions = sum(before[0] != after[0] for before, after in pairs)
    texts = sum(before != after for before, after in pairs) - decisions
    print(f"of {len(pairs)} plans {decisions} differ from before in decisions, {texts} in messages or statuses alone")


def compare(recorded: Sequence[str], seeds: Iterable[int], base: Path | None = None, written: bool = True) -> int:
    """Compare the plans of worlds with recorded lines and print the first that differs; return the number of those that do.

    Without ``written`` only decisions are compared.
    """
    decisions, texts = Counter[str](), Counter[str]()
    for seed in seeds:
        current = hashes.line(seed)
        if current == recorded[seed]:
            continue
        if current[: hashes.DIGITS] != recorded[seed][: hashes.DIGITS]:
            print(f"world {seed} is another than the recorded one, since a generator changed: record on the base again")
            return 1
        pairs = zip(hashes.entries(current), hashes.entries(recorded[seed]), strict=True)
        for (name, decision, text), (_, old_decision, old_text) in pairs:
            if decision != old_decision:
                if not decisions:
                    _print_difference(seed, name, "decisions", base)
                decisions[name] += 1
            elif written and text != old_text:
                if not texts and not decisions:
                    _print_difference(seed, name, "messages or statuses alone", base)
                texts[name] += 1
    for title, counts in (("decisions", decisions), ("messages or statuses alone", texts)):
        parts = ", ".join(f"{name} {count}" for name, count in counts.items())
        print(f"plans that differ in {title}: {counts.total()}{f' ({parts})' if parts else ''}")
    return decisions.total() + texts.total()


def _print_difference(seed: int, name: str, kind: str, base: Path | None) -> None:
    print(f"== world {seed} with configuration {name} differs in {kind}")
    current = shown(seed, name)
    if base is None:
        print("\n".join(current), flush=True)
        print(f"-- the plan from before: python -m tests.scheduler.plan_corpus show {seed} {name}, in a checkout of it")
        return
    command = [sys.executable, "-m", "tests.scheduler.plan_corpus", "show", str(seed), name]
    before = subprocess.run(command, cwd=base, capture_output=True, text=True, check=True).stdout.splitlines()
    print("\n".join(current[: current.index("# plan of cycle 1")]))
    print("\n".join(difflib.unified_diff(before, current, "before", "after", lineterm="", n=0)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
