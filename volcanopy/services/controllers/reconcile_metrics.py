"""Metrics of reconciles, jobs and flows, and the log context of a reconcile."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

import structlog
from prometheus_client import Counter as PrometheusCounter

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
        _ENDS.count(phase, str((after.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE))


def flow_changed(before: Json, after: Json) -> None:
    """Count a flow whose status was written, if its phase is a final one now."""
    phase = phase_of(after)
    if phase != phase_of(before) and phase in _FLOW_ENDS:
        _FLOW_ENDS.count(phase, str(after["metadata"].get("namespace") or ""))


def pod_made(job: Json, now: datetime) -> None:
    """Measure the latency of a created pod of a job."""
    made = _moment(job["metadata"].get("creationTimestamp"))
    if made is not None:
        registry.POD_CREATION.observe(max((now - made).total_seconds(), 0.0))


def _moment(text: str | None) -> datetime | None:
    """Parse a timestamp."""
    return datetime.fromisoformat(text) if text else None


def queue_is_gone(name: str) -> None:
    """Remove the series of a deleted queue."""
    _ENDS.forget(name)


MOST_NAMES = 1_000
"""Names of queues, and of namespaces, for which ends are counted at a time."""


class EndCounters:
    """Counters of ends by phase and by the name of a queue or namespace.

    Users choose these names and are free to delete them, so the series of the name that has been counted least recently is
    removed for a new one beyond :data:`MOST_NAMES`.
    """

    def __init__(self, counters: Mapping[str, PrometheusCounter]) -> None:
        """``counters`` by phase, with one label."""
        self._counters = counters
        self._recent: dict[str, None] = {}

    def __contains__(self, phase: str) -> bool:
        return phase in self._counters

    def count(self, phase: str, name: str) -> None:
        """Count an end."""
        self._recent.pop(name, None)
        self._recent[name] = None
        self._counters[phase].labels(name).inc()
        if len(self._recent) > MOST_NAMES:
            self.forget(next(iter(self._recent)))

    def forget(self, name: str) -> None:
        """Remove the series of a name."""
        self._recent.pop(name, None)
        for counter in self._counters.values():
            with contextlib.suppress(KeyError):
                counter.remove(name)


_FLOW_ENDS = EndCounters({"Succeed": registry.FLOWS_SUCCEEDED, "Failed": registry.FLOWS_FAILED})
_ENDS = EndCounters({"Completed": registry.JOBS_COMPLETED, "Failed": registry.JOBS_FAILED})
