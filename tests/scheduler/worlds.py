"""Property tests over many random worlds: ``python -m tests.scheduler.worlds --count 100000 --seed 1 --shard 1/2``.

Every property is checked in every world. A failing world is shrunk by removing lines and tokens, and printed with its
seed. The exit code is 0 if all properties hold.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Iterator
from random import Random

from tests.scheduler.properties import PROPERTIES
from tests.scheduler.random_cases import Case, case

PATIENCE = 30
"""For how many seconds a failing world is made smaller."""


def problems(name: str, case: Case, seed: int) -> list[str]:
    """Return the violations of a case; exceptions included."""
    try:
        return PROPERTIES[name](case, Random(seed))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{type(error).__name__} at {place.filename}:{place.lineno}: {error}"]


def smaller(case: Case) -> Iterator[Case]:
    """Yield the case without a line, a group of tasks, a token, a plugin or an action."""
    lines = case.world.splitlines()
    for at in range(len(lines)):
        yield Case("\n".join(lines[:at] + lines[at + 1 :]), case.document)
    for at, line in enumerate(lines):
        for shorter in _shorter(line):
            yield Case("\n".join([*lines[:at], shorter, *lines[at + 1 :]]), case.document)
    document = json.loads(case.document)
    actions = document["actions"].split(", ")
    for at in range(len(actions)):
        if len(actions) > 1:
            yield Case(case.world, json.dumps({**document, "actions": ", ".join(actions[:at] + actions[at + 1 :])}))
    for number, tier in enumerate(document["tiers"]):
        for at, entry in enumerate(tier["plugins"]):
            for fewer in ([], *([{k: v for k, v in entry.items() if k != key}] for key in entry if key != "name")):
                plugins = [*tier["plugins"][:at], *fewer, *tier["plugins"][at + 1 :]]
                tiers = [*document["tiers"][:number], {"plugins": plugins}, *document["tiers"][number + 1 :]]
                yield Case(case.world, json.dumps({**document, "tiers": tiers}))


def _shorter(line: str) -> Iterator[str]:
    head, colon, tasks = line.partition(": ")
    words = head.split()
    for at in range(2, len(words)):
        yield " ".join(words[:at] + words[at + 1 :]) + colon + tasks
    parts = tasks.split(", ") if tasks else []
    for at, part in enumerate(parts):
        if len(parts) > 1:
            yield head + colon + ", ".join(parts[:at] + parts[at + 1 :])
        count, _, rest = part.partition(" x ")
        if int(count) > 1:
            yield head + colon + ", ".join([*parts[:at], f"{int(count) - 1} x {rest}", *parts[at + 1 :]])
        for word in rest.split():
            fewer = " ".join(other for other in rest.split() if other != word)
            if fewer:
                yield head + colon + ", ".join([*parts[:at], f"{count} x {fewer}", *parts[at + 1 :]])


def shrunk(name: str, case: Case, seed: int) -> Case:
    """Return the smallest case with the same kind of violation."""
    kind = _kind(problems(name, case, seed))
    progress, began = True, time.monotonic()
    while progress and time.monotonic() - began < PATIENCE:
        progress = False
        for less in smaller(case):
            try:
                less.config()
            except Exception:  # a world or a configuration that cannot be read is no smaller case
                continue
            wrong = problems(name, less, seed)
            if wrong and _kind(wrong) == kind:
                case, progress = less, True
                break
    return case


def _kind(wrong: list[str]) -> str:
    """Problems of one kind differ in names and numbers only."""
    if not wrong:
        return ""
    return " ".join(word for word in wrong[0].split() if word.isalpha())[:60]


def run(count: int, seed: int, shard: tuple[int, int], names: list[str], most: int) -> int:
    """Check the worlds of a shard; return the number of failures."""
    failed, looked, began = 0, 0, time.monotonic()
    kinds: dict[str, int] = {}
    for number in range(seed + shard[0], seed + count, shard[1]):
        element = case(Random(number))
        looked += 1
        for name in names:
            wrong = problems(name, element, number)
            if not wrong:
                continue
            failed += 1
            kind = f"{name}: {_kind(wrong)}"
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= most:
                small = shrunk(name, element, number)
                lines = "\n".join(problems(name, small, number))
                print(f"== {name} fails in world {number}\n{lines}\n-- world\n{small}\n", flush=True)
        if looked % 1000 == 0:
            print(f"{looked} worlds, {failed} failures, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{looked} worlds, {len(names)} properties each, {failed} failures, {time.monotonic() - began:.0f} s")
    for kind, times in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"  {times} x {kind}")
    return failed


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.scheduler.worlds", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many worlds, over all shards")
    parser.add_argument("--seed", type=int, default=1, help="the number of the first world; others follow it")
    parser.add_argument("--shard", default="1/1", help="which part of the worlds, such as 1/2")
    parser.add_argument("--only", default="", help="properties, separated by commas; all if none is named")
    parser.add_argument("--most", type=int, default=1, help="how many failures of one kind are printed in full")
    arguments = parser.parse_args()
    part, parts = (int(number) for number in arguments.shard.split("/"))
    names = [name for name in arguments.only.split(",") if name] or list(PROPERTIES)
    return 1 if run(arguments.count, arguments.seed, (part - 1, parts), names, arguments.most) else 0


if __name__ == "__main__":
    sys.exit(main())
