"""``python -m tests.scheduler.long_run [--cycles N] [--seed N] [part of a case's name ...]``: print the table of long runs."""

import argparse
import time

from tests.scheduler.long_run.cases import CASES
from tests.scheduler.long_run.measures import Measures, measure


def row(measures: Measures) -> str:
    """Return the measures of a case as a line."""
    shares = " / ".join(f"{share:.1f}" for share in measures.shares.values())
    parts = [f"shares {shares}, error {measures.error:.1f}"] if shares else []
    parts += [f"{name} waited {'for ever' if wait is None else wait}" for name, wait in measures.waits.items()]
    parts += [f"utilisation {measures.utilisation:.1f}", f"started {measures.starts}"]
    if measures.evictions:
        parts.append(
            f"evicted {measures.evictions} ({measures.evictions_per_thousand:.0f} per 1,000 starts), pods evicted again "
            f"{measures.repeated}, within the cooldown {measures.thrash}, partly {measures.partly_evicted}, "
            f"work lost {measures.lost:.1f} %"
        )
    return ", ".join([*parts, f"worst wait {measures.worst_wait}, {measures.slowest:.1f} of the bound"])


def main() -> None:
    """Run the named cases, by default all."""
    parser = argparse.ArgumentParser(prog="python -m tests.scheduler.long_run")
    parser.add_argument("names", nargs="*", help="Parts of the names of cases. Defaults to all.")
    parser.add_argument("--cycles", type=int, help="Number of cycles of each case.")
    parser.add_argument("--seed", type=int, default=3, help="Seed of the arrivals. Defaults to 3.")
    options = parser.parse_args()
    for name, case in CASES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        begun = time.process_time()
        measures = measure(case, options.cycles, options.seed)
        print(f"{name}: {row(measures)}, cpu {time.process_time() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
