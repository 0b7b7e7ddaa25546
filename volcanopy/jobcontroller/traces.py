"""The trace of a job that has ended: spans between the times that the job and its pods have.

A job has the spans ``admission`` (until its pods may be created), ``placement`` (until its minimum has nodes) and ``run``, and
one for each pod, with the spans ``start`` (until the kubelet has accepted it) and ``run``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod

PODS = 200
"""The most pods of a trace."""
_FAILED = frozenset({"Failed", "Terminated"})


@dataclass(frozen=True)
class Span:
    """A time of a job or pod."""

    name: str
    begin: datetime
    end: datetime
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    failed: bool = False
    children: tuple["Span", ...] = ()


def job_span(job: BatchJob, pods: Iterable[Pod]) -> Span | None:
    """Return the span of a job that has ended, with those within it; None if the job has no times."""
    meta, status = job.metadata, job.status
    begin, end = meta.creation_timestamp, status.state.last_transition_time
    if begin is None or end is None:
        return None
    attributes: dict[str, str | int] = {
        "k8s.namespace.name": meta.namespace,
        "k8s.job.name": meta.name,
        "k8s.job.uid": meta.uid,
        "volcanopy.queue": job.spec.queue,
        "volcanopy.phase": str(status.state.phase or ""),
        "volcanopy.restarts": status.retry_count,
        "volcanopy.evictions": len(status.evictions),
    }
    stages = _stages(("admission", "placement", "run"), (begin, status.admitted_time, status.start_time, end))
    ended = [span for pod in pods if (span := _pod_span(pod, end)) is not None]
    ended.sort(key=lambda span: (span.begin, span.name))
    failed = status.state.phase in _FAILED
    return Span(f"job {meta.namespace}/{meta.name}", begin, end, attributes, failed, (*stages, *ended[:PODS]))


def _pod_span(pod: Pod, end: datetime) -> Span | None:
    created, status = pod.metadata.creation_timestamp, pod.status
    if created is None:
        return None
    states = [container.state for container in status.container_statuses]
    ends = [state.terminated.finished_at for state in states if state.terminated is not None]
    finished = max((time for time in ends if time is not None), default=end)
    stages = _stages(("start", "run"), (created, status.start_time, finished))
    attributes = {"k8s.pod.name": pod.metadata.name, "k8s.pod.uid": pod.metadata.uid}
    return Span(f"pod {pod.metadata.name}", created, finished, attributes, status.phase == "Failed", stages)


def _stages(names: Iterable[str], times: tuple[datetime | None, ...]) -> tuple[Span, ...]:
    """Return the spans between consecutive times; a span whose time is absent is left out."""
    return tuple(
        Span(name, begin, end)
        for name, begin, end in zip(names, times, times[1:], strict=False)
        if begin is not None and end is not None
    )
