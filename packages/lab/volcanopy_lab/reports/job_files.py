"""The jobs of all runs as a CSV file, a row each."""

import csv
from collections.abc import Sequence
from pathlib import Path

from volcanopy.client.errors import CommandError
from volcanopy_lab.simulate.measures import bounded_slowdown
from volcanopy_lab.simulate.outcome import JobOutcome, Outcome

COLUMNS = ("configuration", "seed", *JobOutcome._fields, "bounded_slowdown")


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the jobs. Raises CommandError."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for outcome in outcomes:
                for job in outcome.jobs:
                    slowdown = bounded_slowdown(job) if job.end >= 0 and job.run_time >= 0 else None
                    writer.writerow((outcome.configuration, outcome.seed, *job, slowdown))
    except OSError as error:
        raise CommandError(f"--jobs: cannot write {path}: {error.strerror}", 2) from None
