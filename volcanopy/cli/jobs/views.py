"""Columns, filters and descriptions of jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volcanopy.api.batch_read import BatchJob
from volcanopy.api.core import Container, PodGroup
from volcanopy.cli.framework.description import Description, amounts
from volcanopy.cli.framework.lists import Query
from volcanopy.cli.framework.tables import AGE, NAME, Column, Joined, View, phase_style, reason_column
from volcanopy.client.durations import since
from volcanopy.client.jobs.pods import Pod, pod_rows, pods_of
from volcanopy.client.jobs.status import (
    estimated_start,
    message,
    minimum,
    phase,
    phase_named,
    position,
    queue,
    ready,
    reason,
    shown_phase,
    task_minimum,
    total,
)
from volcanopy.client.kinds import read
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.raw_kinds import JOBS, POD_GROUPS

if TYPE_CHECKING:
    from volcanopy.cli.jobs.options import JobFilter

_MAX_PODS = 50
"""Maximum number of pods in a description; succeeded ones are left out first."""
_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


def group_key(job: BatchJob) -> str:
    """Return ``namespace/name`` of the job's pod group."""
    metadata = job.metadata
    return f"{metadata.namespace}/{metadata.name}-{metadata.uid}"


def _count(field: str, heading: str) -> Column:
    return Column(heading, lambda job, _: str(getattr(job.status, field)), wide=True)


VIEW = View(
    JOBS,
    BatchJob,
    (
        NAME,
        Column("PHASE", lambda job, _: shown_phase(job), style=phase_style),
        Column("READY", lambda job, _: str(ready(job))),
        Column("MIN", lambda job, _: str(minimum(job))),
        Column("TOTAL", lambda job, _: str(total(job))),
        Column("QUEUE", lambda job, _: queue(job)),
        AGE,
        Column("ESTIMATED START", lambda job, now: estimated_start(job.status.estimated_start, now), wide=True),
        _count("pending", "PENDING"),
        _count("running", "RUNNING"),
        _count("succeeded", "SUCCEEDED"),
        _count("failed", "FAILED"),
        _count("retry_count", "RETRIES"),
        reason_column(reason),
    ),
    Joined(POD_GROUPS, PodGroup, group_key, "POSITION", position, before="ESTIMATED START"),
)
"""``volcanopy job list``."""


async def query(_: Client, namespace: str | None, selector: str, filters: "JobFilter") -> Query:
    """Return the jobs of these queues in these phases; all where none are given."""
    queues = filters.queue or ()
    phases = {phase_named(name) for name in filters.phase or ()}

    def matches(job: BatchJob) -> bool:
        return (not queues or queue(job) in queues) and (not phases or phase(job) in phases)

    conditions = [*(f'in queue "{name}"' for name in queues), *(f"in phase {name}" for name in sorted(phases))]
    title = " ".join(["jobs", " or ".join(conditions)]).strip()
    return Query(namespace, selector, matches=matches, title=title)


async def describe(client: Client, job: BatchJob) -> str:
    """Return the description of a job."""
    group = await _pod_group(client, job)
    pods = await pods_of(client, job)
    lines = Description(job.metadata)
    spec, status = job.spec, job.status
    lines.line("Queue", queue(job))
    lines.line("Priority Class", spec.priority_class_name)
    lines.line("Scheduler", spec.scheduler_name)
    lines.line("Phase", phase(job) + (f", {status.state.reason}" if status.state.reason else ""))
    changed = status.state.last_transition_time
    lines.line("Since", f"{since(changed, lines.now)} ago" if changed else "")
    lines.line("Reason", message(job))
    if group is not None and group.status.explanation is not None:
        lines.line("Position", position(group))
    lines.line("Estimated Start", estimated_start(status.estimated_start, lines.now))
    if status.alternative is not None:
        lines.line("Alternative", f"{status.alternative.name} ({status.alternative.message or 'selected'})")
    counts = ", ".join(f"{count} {name}" for name in _COUNTS if (count := getattr(status, name))) or "none created"
    lines.line("Pods", f"{ready(job)}/{total(job)} ready, minimum {minimum(job)} ({counts})")
    lines.line("Retries", f"{status.retry_count} (maxRetry {spec.max_retry})")
    lines.line("Running Duration", status.running_duration)
    plugins = (" ".join((name, *arguments)) for name, arguments in spec.plugins.items())
    lines.line("Plugins", ", ".join(plugins))
    _tasks(lines, job)
    _policies(lines, job)
    if group is not None:
        lines.line("Pod Group", f"{group.metadata.name} ({group.status.phase or 'not yet processed by the scheduler'})")
        if group.status.explanation and group.status.explanation.unblocked_by:
            lines.line("Unblocked By", f"{group.status.explanation.unblocked_by} (not confirmed)")
    _pods(lines, pods)
    lines.conditions(status.conditions)
    await lines.events(client, job.metadata, *([group.metadata] if group else []))
    return lines.text()


def _tasks(lines: Description, job: BatchJob) -> None:
    rows = []
    for task in job.spec.tasks:
        counts = job.status.task_status_count.get(task.name)
        containers = task.template.spec.containers
        rows.append(
            (
                task.name,
                task.replicas,
                task_minimum(task),
                *(counts.phase.get(name, 0) if counts else 0 for name in ("Pending", "Running", "Succeeded", "Failed")),
                ",".join(container.image for container in containers),
                _requests(containers),
                ",".join(task.depends_on.name if task.depends_on else ()) or "-",
            )
        )
    headings = ("NAME", "REPLICAS", "MIN", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "IMAGE", "REQUESTS")
    lines.table("Tasks", (*headings, "DEPENDS ON"), rows)


def _requests(containers: Sequence[Container]) -> str:
    """Return the requests of each container of a pod."""
    requests = [container.resources.requests for container in containers]
    return " + ".join(amounts(resources) for resources in requests if resources) or "-"


def _policies(lines: Description, job: BatchJob) -> None:
    sources = [("(job)", job.spec.policies), *((task.name, task.policies) for task in job.spec.tasks)]
    rows = [
        (
            source,
            ",".join(policy.events) or policy.event or f"exit code {policy.exit_code}",
            policy.action,
            policy.timeout or "-",
        )
        for source, policies in sources
        for policy in policies
    ]
    lines.table("Policies", ("TASK", "EVENT", "ACTION", "TIMEOUT"), rows)


def _pods(lines: Description, pods: Sequence[Pod]) -> None:
    title = "Pods"
    if len(pods) > _MAX_PODS:
        title = f"Pods ({_MAX_PODS} of {len(pods)})"
        pods = sorted(pods, key=lambda pod: pod.status.phase == "Succeeded")[:_MAX_PODS]
    lines.table(title, ("NAME", "TASK", "READY", "STATUS", "RESTARTS", "NODE", "AGE"), pod_rows(pods, lines.now))


async def _pod_group(client: Client, job: BatchJob) -> PodGroup | None:
    """Return the job's pod group; None if it does not exist or may not be read."""
    try:
        return read(PodGroup, await client.get(POD_GROUPS, *group_key(job).split("/")))
    except (NotFound, Forbidden):
        return None
