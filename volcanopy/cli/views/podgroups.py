"""Columns, filters and descriptions of pod groups."""

from typing import TYPE_CHECKING

from volcanopy.api import names
from volcanopy.api.core import PodGroup
from volcanopy.cli.framework.description import Description
from volcanopy.cli.framework.lists import Query
from volcanopy.cli.framework.tables import AGE, NAME, Column, View, phase_style, reason_column
from volcanopy.client.jobs.pods import Pod, pod_rows
from volcanopy.client.jobs.status import position
from volcanopy.client.kinds import readable
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS

if TYPE_CHECKING:
    from volcanopy.cli.framework.options import QueueFilter

_WAITING = frozenset({"Pending", "Inqueue", "Unknown", ""})
_STYLES = {"Inqueue": "Pending", "Unknown": "Failed"}


def phase(group: PodGroup) -> str:
    """Return the phase; Pending before the scheduler has set it."""
    return group.status.phase or "Pending"


def queue(group: PodGroup) -> str:
    """Return the name of the group's queue."""
    return group.spec.queue or "default"


def reason(group: PodGroup) -> str:
    """Return the scheduler's message why the group waits; empty when it does not."""
    if group.status.phase not in _WAITING:
        return ""
    messages = [
        condition.message
        for condition in group.status.conditions
        if condition.type == "Unschedulable" and condition.status == "True"
    ]
    return messages[0] if messages else "" if group.status.phase else "not yet processed by the scheduler"


def owner(group: PodGroup) -> str:
    """Return the object that the group was created for: ``BatchJob/training``."""
    controller = group.metadata.controller
    return f"{controller.kind}/{controller.name}" if controller else ""


def _count(field: str) -> Column:
    return Column(field.upper(), lambda group, _: str(getattr(group.status, field)), wide=field != "running")


VIEW = View(
    POD_GROUPS,
    PodGroup,
    (
        NAME,
        Column("PHASE", lambda group, _: phase(group), style=lambda text: phase_style(_STYLES.get(text, text))),
        Column("MIN", lambda group, _: str(group.spec.min_member)),
        _count("running"),
        Column("QUEUE", lambda group, _: queue(group)),
        AGE,
        _count("succeeded"),
        _count("failed"),
        Column("OWNER", lambda group, _: owner(group), wide=True),
        Column("POSITION", lambda group, _: position(group), wide=True),
        reason_column(reason),
    ),
)
"""``volcanopy podgroup list``."""


async def query(_: Client, namespace: str | None, selector: str, filters: "QueueFilter") -> Query:
    """Return the pod groups in these queues; all where none are given."""
    queues = filters.queue or ()
    if not queues:
        return Query(namespace, selector)
    title = "podgroups in queue " + " or ".join(f'"{name}"' for name in queues)
    return Query(namespace, selector, matches=lambda group: queue(group) in queues, title=title)


async def describe(client: Client, group: PodGroup) -> str:
    """Return the description of a pod group."""
    lines = Description(group.metadata)
    spec, status = group.spec, group.status
    lines.line("Queue", queue(group))
    lines.line("Priority Class", spec.priority_class_name)
    lines.line("Min Member", spec.min_member)
    if spec.min_task_member:
        lines.pairs("Min Task Member", spec.min_task_member)
    if spec.min_resources:
        lines.pairs("Min Resources", spec.min_resources)
    lines.line("Phase", phase(group))
    lines.line("Pods", f"{status.running} running, {status.succeeded} succeeded, {status.failed} failed")
    lines.line("Reason", reason(group))
    if explanation := status.explanation:
        lines.line("Gate", explanation.gate)
        lines.line("Position", position(group))
        if explanation.unblocked_by:
            lines.line("Unblocked By", f"{explanation.unblocked_by} (not confirmed)")
        lines.line("Blocked By", ", ".join(explanation.blocked_by))
        lines.table("Nodes", ("NODES", "REASON"), [(count, text) for text, count in sorted(explanation.nodes.items())])
    name = group.metadata.name
    listing = await client.list(PODS, group.metadata.namespace)
    pods = [pod for pod in readable(Pod, listing.items) if pod.metadata.annotations.get(names.GROUP_NAME) == name]
    rows = pod_rows(sorted(pods, key=lambda pod: pod.metadata.name), lines.now)
    lines.table("Pods", ("NAME", "TASK", "READY", "STATUS", "RESTARTS", "NODE", "AGE"), rows)
    lines.conditions(status.conditions)
    await lines.events(client, group.metadata)
    return lines.text()
