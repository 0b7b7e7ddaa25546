"""How jobs are shown in a table: where each stands, how many of its pods are up, and why it waits."""

from datetime import datetime

from volcanopy.cli.framework.kinds import JOBS, spec_of, status_of
from volcanopy.cli.framework.tables import AGE, NAME, Column, View, phase_style, wait_style
from volcanopy.kube.client.kinds import Json

_UNTROUBLED = frozenset({"Running", "Completed"})
"""Phases in which nobody asks why."""


def phase(job: Json) -> str:
    """Where a job stands; one that no controller has looked at yet is pending."""
    return (status_of(job).get("state") or {}).get("phase") or "Pending"


def message(job: Json) -> str:
    """Why it stands there, in a sentence."""
    return (status_of(job).get("state") or {}).get("message") or ""


def why(job: Json) -> str:
    """The sentence for a job that does not run, empty for one that does or did well."""
    if not status_of(job).get("state"):
        return "no controller has looked at it yet"
    return "" if phase(job) in _UNTROUBLED else " ".join(message(job).split())


def total(job: Json) -> int:
    """How many pods the job has when it is whole."""
    return sum(task.get("replicas", 1) for task in spec_of(job).get("tasks") or ())


def ready(job: Json) -> int:
    """How many of them run, or have ended well."""
    status = status_of(job)
    return int(status.get("running", 0)) + int(status.get("succeeded", 0))


def needed(job: Json) -> int:
    """How many of them must be able to run at once."""
    said = status_of(job).get("minAvailable") or spec_of(job).get("minAvailable")
    if said:
        return int(said)
    tasks = spec_of(job).get("tasks") or ()
    return sum(task.get("minAvailable", task.get("replicas", 1)) for task in tasks)


def queue(job: Json) -> str:
    """The queue that it waits in."""
    return spec_of(job).get("queue") or "default"


def _count(field: str, heading: str) -> Column:
    def cell(job: Json, _: datetime) -> str:
        return str(status_of(job).get(field, 0))

    return Column(heading, cell, wide=True)


VIEW = View(
    JOBS,
    (
        NAME,
        Column("PHASE", lambda job, _: phase(job), style=phase_style),
        Column("READY", lambda job, _: str(ready(job))),
        Column("MIN", lambda job, _: str(needed(job))),
        Column("TOTAL", lambda job, _: str(total(job))),
        Column("QUEUE", lambda job, _: queue(job)),
        AGE,
        _count("pending", "PENDING"),
        _count("running", "RUNNING"),
        _count("succeeded", "SUCCEEDED"),
        _count("failed", "FAILED"),
        _count("retryCount", "RETRIES"),
        Column("WHY", lambda job, _: why(job), style=wait_style, sentence=True),
    ),
)
"""``volcanopy job list``."""
