"""Jobs as Slurm's programs show them."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs import status

STATES = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Restarting": "REQUEUED",
    "Aborting": "PREEMPTED",
    "Aborted": "PREEMPTED",
    "Suspended": "PREEMPTED",
    "Completing": "COMPLETING",
    "Completed": "COMPLETED",
    "Terminating": "COMPLETING",
    "Terminated": "CANCELLED",
    "Failed": "FAILED",
}
"""Slurm's states by phases of jobs."""
_SHORT = {
    "PENDING": "PD",
    "RUNNING": "R",
    "REQUEUED": "RQ",
    "PREEMPTED": "PR",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
}
USUAL_FORMAT = "%.10i %.9P %.30j %.2t %.10M %.6D %R"
_FIELD = re.compile(r"%(?P<right>\.)?(?P<width>\d+)?(?P<letter>[A-Za-z])")


def table(jobs: Iterable[BatchJob], form: str, now: datetime, *, heads: bool) -> list[str]:
    """Return the lines of squeue in a format such as ``%.10i %t``. Raises CommandError for a field that jobs lack."""
    for field in _FIELD.finditer(form):
        if field["letter"] not in _FIELDS:
            raise CommandError(
                f"--format: {field[0]}: use the fields {', '.join(f'%{letter}' for letter in _FIELDS)}", 2
            )
    lines = [_FIELD.sub(lambda field: _cell(field, _FIELDS[field["letter"]][0]), form)] if heads else []
    return lines + [_line(job, form, now) for job in jobs]


def _line(job: BatchJob, form: str, now: datetime) -> str:
    return _FIELD.sub(lambda field: _cell(field, _FIELDS[field["letter"]][1](job, now)), form)


def _cell(field: re.Match[str], text: str) -> str:
    width = int(field["width"] or 0)
    text = text[:width] if width else text
    return text.rjust(width) if field["right"] else text.ljust(width)


def _number(job: BatchJob, _: datetime) -> str:
    return job.metadata.labels.get(names.SLURM_ID, "")


def _state(job: BatchJob, _: datetime) -> str:
    return STATES[status.shown_phase(job)]


def _time(job: BatchJob, now: datetime) -> str:
    created = job.metadata.creation_timestamp or now
    minutes, seconds = divmod(int((now - created).total_seconds()), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


_FIELDS: dict[str, tuple[str, Callable[[BatchJob, datetime], str]]] = {
    "i": ("JOBID", _number),
    "A": ("JOBID", _number),
    "P": ("PARTITION", lambda job, _: status.queue(job)),
    "j": ("NAME", lambda job, _: job.metadata.name),
    "u": ("USER", lambda job, _: job.metadata.annotations.get(names.SUBMITTED_BY, "")),
    "t": ("ST", lambda job, now: _SHORT[_state(job, now)]),
    "T": ("STATE", _state),
    "M": ("TIME", _time),
    "D": ("NODES", lambda job, _: str(status.total(job))),
    "R": ("REASON", lambda job, _: status.reason(job)),
    "r": ("REASON", lambda job, _: status.reason(job)),
}
"""The head of a column of squeue and its text, by the letter of the format. The time is that since the submission."""
