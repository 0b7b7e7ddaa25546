"""Run seeds of the simulation: ``python -m tests.simulation FIRST [LAST] [--also N,N] [--without N,N] [--minimise] [--steps] [--trace]``.

Prints a line for each broken rule and the command that replays the seed; ends with 1 if there was one. The hash seed of
Python is fixed, so that the same seed gives the same events in each process.
"""

import argparse
import gc
import os
import sys
from collections.abc import Sequence

from tests.simulation.run import Outcome, run
from tests.simulation.scenario import Scenario, scenario

HASH_SEED = "0"
COLLECTED = 200
"""After so many seeds, garbage is collected."""


def outcome_of(life: Scenario) -> Outcome:
    """Run a scenario; a crash of the run itself is a broken rule."""
    try:
        return run(life)
    except Exception as error:
        return Outcome([f"the run failed: {type(error).__name__}: {error}"], 0.0)


def minimised(life: Scenario) -> list[int]:
    """Return the numbers of the steps without which the scenario still fails: each of the others is needed."""
    left_out: list[int] = []
    for number in reversed(range(len(life.steps))):
        if outcome_of(life.without([*left_out, number])).faults:
            left_out.append(number)
    return sorted(left_out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?", help="the seed after the last one")
    parser.add_argument("--also", default="", help="more seeds, separated by commas")
    parser.add_argument("--without", default="", help="numbers of steps to leave out, separated by commas")
    parser.add_argument("--minimise", action="store_true", help="leave out the steps that a failure does not need")
    parser.add_argument("--steps", action="store_true", help="print the steps of each scenario")
    parser.add_argument("--trace", action="store_true", help="print every write of the API server")
    parser.add_argument("--progress", action="store_true", help="print a line for each seed")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the seeds; return the exit code."""
    options = _parser().parse_args(arguments)
    without, also = ([int(number) for number in text.split(",") if number] for text in (options.without, options.also))
    seeds = [*range(options.first, options.last or options.first + 1), *also]
    failed = 0
    gc.disable()  # a seed leaves 4 MiB behind; to look for garbage in each is a twelfth of its time
    for number, seed in enumerate(seeds, 1):
        if number % COLLECTED == 0:
            gc.collect()
        life = scenario(seed).without(without)
        if options.steps:
            print(f"seed {seed}: nodes {dict(life.nodes)}, delay {life.delay}, history {life.history}")
            print(*(f"  {number:2} {step}" for number, step in enumerate(life.steps)), sep="\n")
        outcome = outcome_of(life)
        if options.trace:
            print(*outcome.trace, sep="\n")
        if options.progress:
            print(f"seed {seed}: {outcome.seconds:.0f} s, {outcome.writes.total()} writes, jobs {outcome.phases}")
        if outcome.faults:
            failed += 1
            left_out = [*without, *minimised(life)] if options.minimise and not without else without
            print(f"seed {seed}:", *outcome.faults, sep="\n  ")
            more = f" --without {','.join(map(str, left_out))}" if left_out else ""
            print(f"  replay: python -m tests.simulation {seed} --steps{more}", flush=True)
    print(f"{len(seeds)} seeds run, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": HASH_SEED},
        )
    sys.exit(main(sys.argv[1:]))
