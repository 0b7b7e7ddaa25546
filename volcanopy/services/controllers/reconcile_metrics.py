"""A controller's look at an object: measured, and named in every line of the log that is written meanwhile."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import structlog

from volcanopy.api import names
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.metrics import registry
from volcanopy.kube.metrics.metric_types import Labels
from volcanopy.services.controllers.job_cache import JobCache


class ReconcileRun:
    """What came of it: done, outdated, failed or error."""

    outcome = "error"


@contextlib.contextmanager
def track_reconcile(controller: str, key: str) -> Iterator[ReconcileRun]:
    """A look lasts as long as the block, in which its outcome is noted."""
    look, begun = ReconcileRun(), time.perf_counter()
    with structlog.contextvars.bound_contextvars(controller=controller, object=key):
        try:
            yield look
        finally:
            registry.RECONCILE_SECONDS.labels(controller).observe(time.perf_counter() - begun)
            registry.RECONCILES.labels(controller, look.outcome).inc()


def jobs_by_phase(cache: JobCache) -> list[tuple[Labels, float]]:
    """How many jobs of each queue are in each phase."""
    counts: Counter[Labels] = Counter()
    for job in list(cache.jobs.values()):
        queue = str((job.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE)
        counts[queue, phase_of(job) or "Pending"] += 1
    return [(labels, float(number)) for labels, number in counts.items()]


def phase_of(job: Json) -> str:
    """The phase of a job as its status says it."""
    return str((((job.get("status") or {}).get("state")) or {}).get("phase") or "")


def phase_changed(before: Json, after: Json) -> None:
    """The status of a job was written: count it if it has come to an end by that."""
    phase = phase_of(after)
    if phase != phase_of(before) and phase in _ENDS:
        _ENDS[phase].labels(str((after.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE)).inc()


def flow_changed(before: Json, after: Json) -> None:
    """The status of a flow was written: count it if it has come to an end by that."""
    phase = phase_of(after)
    if phase != phase_of(before) and phase in _FLOW_ENDS:
        _FLOW_ENDS[phase].labels(str(after["metadata"].get("namespace") or "")).inc()


def pod_made(job: Json, now: datetime) -> None:
    """A pod of a job was made."""
    made = _moment(job["metadata"].get("creationTimestamp"))
    if made is not None:
        registry.POD_CREATION.observe(max((now - made).total_seconds(), 0.0) * 1000)


def _moment(text: str | None) -> datetime | None:
    """A moment as objects tell it."""
    return datetime.fromisoformat(text) if text else None


def queue_is_gone(name: str) -> None:
    """A queue is no more, and neither is what was counted of it."""
    for counter in _ENDS.values():
        with contextlib.suppress(KeyError):
            counter.remove(name)


_FLOW_ENDS = {"Succeed": registry.FLOWS_SUCCEEDED, "Failed": registry.FLOWS_FAILED}
_ENDS = {"Completed": registry.JOBS_COMPLETED, "Failed": registry.JOBS_FAILED}
