"""A job as HTML, for notebooks: phase and reason, when each pod ran, the end of the log."""

from collections.abc import Sequence
from datetime import datetime
from html import escape

from volcanopy.api.batch_read import BatchJob
from volcanopy.client.durations import since
from volcanopy.client.jobs import status
from volcanopy.client.jobs.pods import Pod, state

_MOST = 20
"""Pods that are drawn; the others are counted."""
_COLOURS = {"Pending": "#c98500", "Running": "#1f77b4", "Succeeded": "#2e7d32", "Failed": "#c62828"}


def job_html(job: BatchJob, pods: Sequence[Pod], log: str, now: datetime) -> str:
    """Return the job as HTML: each pod is a bar from its start to its end, on the time since the job was created."""
    created = job.metadata.creation_timestamp or now
    span = max((now - created).total_seconds(), 1.0)
    rows = "".join(_row(pod, created, span, now) for pod in pods[:_MOST])
    more = f"<p>and {len(pods) - _MOST} more pods</p>" if len(pods) > _MOST else ""
    reason = status.reason(job)
    head = f"<b>{escape(job.metadata.name)}</b> {escape(status.shown_phase(job))}, created {since(created, now)} ago"
    parts = [f"<p>{head}</p>", f"<p>{escape(reason)}</p>" if reason else ""]
    if rows:
        columns = "".join(f"<th>{name}</th>" for name in ("pod", "state", "node", "from submission to now"))
        parts.append(f"<table><tr>{columns}</tr>{rows}</table>{more}")
    parts.append(f"<pre>{escape(log.rstrip())}</pre>" if log.strip() else "")
    return f"<div>{''.join(parts)}</div>"


def _row(pod: Pod, created: datetime, span: float, now: datetime) -> str:
    texts = (pod.metadata.name, state(pod), pod.spec.node_name or "-")
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    begin, end = _times(pod, created, now)
    start, stop = (max(0.0, min(1.0, (time - created).total_seconds() / span)) for time in (begin, end))
    colour = _COLOURS.get(pod.status.phase, "#777")
    style = f"margin-left:{start:.1%};width:{max(stop - start, 0.005):.1%};height:0.8em;background:{colour}"
    return f'<tr>{cells}<td style="width:20em"><div style="{style}"></div></td></tr>'


def _times(pod: Pod, created: datetime, now: datetime) -> tuple[datetime, datetime]:
    """Return from when until when a pod ran; a pod without a start waits since it was created."""
    ended = [container.state.terminated for container in pod.status.container_statuses]
    ends = [end.finished_at for end in ended if end is not None and end.finished_at is not None]
    begin = pod.status.start_time or pod.metadata.creation_timestamp or created
    return begin, max(ends) if ends and len(ends) == len(ended) else now
