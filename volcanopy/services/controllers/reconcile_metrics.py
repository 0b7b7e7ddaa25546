"""Metrics of reconciles, jobs and flows, and the log context of a reconcile."""

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
    """The outcome of a reconcile: done, outdated, failed or error."""

    outcome = "error"


@contextlib.contextmanager
def track_reconcile(controller: str, key: str) -> Iterator[ReconcileRun]:
    """Measure a reconcile for the duration of the block, which sets the outcome; log lines get its object."""
    run, started = ReconcileRun(), time.perf_counter()
    with structlog.contextvars.bound_contextvars(controller=controller, object=key):
        try:
            yield run
        finally:
            registry.RECONCILE_SECONDS.labels(controller).observe(time.perf_counter() - started)
            registry.RECONCILES.labels(controller, run.outcome).inc()


def jobs_by_phase(cache: JobCache) -> list[tuple[Labels, float]]:
    """Return the number of jobs by queue and phase."""
    counts: Counter[Labels] = Counter()
    for job in list(cache.jobs.values()):
        queue = str((job.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE)
        counts[queue, phase_of(job) or "Pending"] += 1
    return [(labels, float(number)) for labels, number in counts.items()]


def phase_of(job: Json) -> str:
    """Return the phase in a job's status."""
    return str((((job.get("status") or {}).get("state")) or {}).get("phase") or "")


def phase_changed(before: Json, after: Json) -> None:
    """Count a job whose status was written, if its phase is a final one now."""
    phase = phase_of(after)
    if phase != phase_of(before) and phase in _ENDS:
        _ENDS[phase].labels(str((after.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE)).inc()


def flow_changed(before: Json, after: Json) -> None:
    """Count a flow whose status was written, if its phase is a final one now."""
    phase = phase_of(after)
    if phase != phase_of(before) and phase in _FLOW_ENDS:
        _FLOW_ENDS[phase].labels(str(after["metadata"].get("namespace") or "")).inc()


def pod_made(job: Json, now: datetime) -> None:
    """Measure the latency of a created pod of a job."""
    made = _moment(job["metadata"].get("creationTimestamp"))
    if made is not None:
        registry.POD_CREATION.observe(max((now - made).total_seconds(), 0.0) * 1000)


def _moment(text: str | None) -> datetime | None:
    """Parse a timestamp."""
    return datetime.fromisoformat(text) if text else None


def queue_is_gone(name: str) -> None:
    """Remove the series of a deleted queue."""
    for counter in _ENDS.values():
        with contextlib.suppress(KeyError):
            counter.remove(name)


_FLOW_ENDS = {"Succeed": registry.FLOWS_SUCCEEDED, "Failed": registry.FLOWS_FAILED}
_ENDS = {"Completed": registry.JOBS_COMPLETED, "Failed": registry.JOBS_FAILED}
