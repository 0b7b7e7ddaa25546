"""``python -m tests.scheduler.long_run [--cycles N] [--seed N] [part of a case's name ...]``: print the table of long runs.

``--cycles 10000`` takes one to five minutes of processor time for each case. A row is printed as soon as its case is done.
"""

import argparse
import time
from collections.abc import Iterable

from tests.scheduler.long_run.cases import CASES
from tests.scheduler.long_run.measures import Measures, measure

HEADINGS = (
    "case",
    "expected shares",
    "shares",
    "error",
    "utilisation %",
    "points above first fit",
    "above one that keeps to shares",
    "idle while a job fits, % of cycles",
    "started",
    "evicted per 1,000 starts",
    "evicted again in the cooldown",
    "partly evicted",
    "most evictions of a job",
    "work lost %",
    "cpu-hours lost",
    "worst wait",
    "of its bound",
    "waits of single jobs",
    "cpu s",
)


def row(name: str, measures: Measures, fair: float | None, seconds: float) -> str:
    """Return the measures of a case as a line of the table. Waits are in cycles.

    ``fair`` is the utilisation of a first fit that keeps to shares.
    """
    waits = (f"{job} {'for ever' if wait is None else wait}" for job, wait in measures.waits.items())
    return line(
        (
            name,
            _shares(measures.expected.values()),
            _shares(measures.shares.values()),
            f"{measures.error:.1f}",
            f"{measures.utilisation:.1f}",
            f"{measures.beside_first_fit:+.1f}",
            "" if fair is None else f"{measures.utilisation - fair:+.1f}",
            f"{measures.idle:.0f}",
            str(measures.starts),
            f"{measures.evictions_per_thousand:.0f}",
            str(measures.thrash),
            str(measures.partly_evicted),
            str(measures.most_repeated),
            f"{measures.lost:.1f}",
            f"{measures.lost_hours:.1f}",
            str(measures.worst_wait),
            f"{measures.slowest:.1f}",
            ", ".join(waits),
            f"{seconds:.0f}",
        )
    )


def line(cells: Iterable[str]) -> str:
    """Return cells as a line of a table."""
    return f"| {' | '.join(cells)} |"


def _shares(shares: Iterable[float]) -> str:
    return " / ".join(f"{share:.1f}" for share in shares)


def main() -> None:
    """Run the named cases, by default all."""
    parser = argparse.ArgumentParser(prog="python -m tests.scheduler.long_run")
    parser.add_argument("names", nargs="*", help="Parts of the names of cases. Defaults to all.")
    parser.add_argument("--cycles", type=int, help="Number of cycles of each case. Defaults to that of the tests.")
    parser.add_argument("--seed", type=int, default=3, help="Seed of the arrivals. Defaults to 3.")
    options = parser.parse_args()
    print(f"{line(HEADINGS)}\n{line('---' for _ in HEADINGS)}")
    for name, case in CASES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        begun = time.process_time()
        measures = measure(case, options.cycles, options.seed)
        seconds = time.process_time() - begun
        fair = case.first_fit(options.cycles, options.seed, keeps_shares=True) if case.expected else None
        print(row(name, measures, None if fair is None else fair.utilisation, seconds), flush=True)


if __name__ == "__main__":
    main()
