"""The jobs of all runs as a file: CSV or JSON lines, a row each."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from volcanopy.client.errors import CommandError
from volcanopy.lab.simulate.measures import bounded_slowdown
from volcanopy.lab.simulate.outcome import JobOutcome, Outcome

SUFFIXES = (".csv", ".json", ".jsonl")
COLUMNS = ("configuration", "seed", *JobOutcome._fields, "bounded_slowdown")


def check(path: Path) -> None:
    """Raise CommandError if jobs cannot be written to such a file."""
    if path.suffix not in SUFFIXES:
        raise CommandError(f"--jobs: the name of the file must end with {', '.join(SUFFIXES)}, not {path.name!r}", 2)


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the jobs. Raises CommandError."""
    check(path)
    try:
        if path.suffix == ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows(_rows(outcomes))
        else:
            with path.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in _rows(outcomes))
    except OSError as error:
        raise CommandError(f"--jobs: cannot write {path}: {error.strerror}", 2) from None


def _rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[Any, ...]]:
    for outcome in outcomes:
        for job in outcome.jobs:
            slowdown = bounded_slowdown(job) if job.end >= 0 and job.run_time >= 0 else None
            yield (outcome.configuration, outcome.seed, *job, slowdown)
