"""Columns, filters and descriptions of queues."""

from collections.abc import Mapping
from typing import Any

from volcanopy.api.core import Queue, QueueLimit, Subjects
from volcanopy.api.queue_fields import seconds, unread_fields
from volcanopy.cli.framework.description import Description, amounts
from volcanopy.cli.framework.tables import AGE, NAME, Column, View
from volcanopy.cli.queues.tree import select_resource
from volcanopy.client.explain.hierarchy import COUNTS, parent_of, state, stop_policy, stopped_by
from volcanopy.client.explain.queue_reads import queue_facts
from volcanopy.client.scheduler_config import configured, plugin_names
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.raw_kinds import QUEUES

_STYLES = {"Open": "green", "Closing": "yellow", "Closed": "red", "Unknown": "red"}


def _dominant(queue: Queue, field: str) -> str:
    """Return the queue's amount of its scarcest resource; ``-`` without one."""
    name = select_resource([queue])
    quantities = getattr(queue.status, field)
    return amounts({name: quantities[name]}) if name in quantities else "-"


def _count(field: str, *, wide: bool = False) -> Column:
    return Column(field.upper(), lambda queue, _: str(getattr(queue.status, field)), wide)


def _quantities(heading: str, part: str, field: str) -> Column:
    return Column(heading, lambda queue, _: amounts(getattr(getattr(queue, part), field)), wide=True)


VIEW = View(
    QUEUES,
    Queue,
    (
        NAME,
        Column("PARENT", lambda queue, _: parent_of(queue) or "-"),
        Column("STATE", lambda queue, _: state(queue), style=lambda text: _STYLES.get(text, "")),
        Column("STOP", lambda queue, _: stop_policy(queue), style=lambda text: "" if text == "None" else "yellow"),
        Column("WEIGHT", lambda queue, _: str(queue.spec.weight)),
        Column("ALLOCATED", lambda queue, _: _dominant(queue, "allocated")),
        Column("FAIR SHARE", lambda queue, _: _dominant(queue, "fair_share")),
        _count("pending"),
        _count("inqueue"),
        _count("running"),
        _count("unknown", wide=True),
        _count("completed", wide=True),
        Column("SHARE", lambda queue, _: queue.status.share or "-", wide=True),
        _quantities("WAITING", "status", "waiting"),
        Column("PRIORITY", lambda queue, _: str(queue.spec.priority), wide=True),
        _quantities("CAPABILITY", "spec", "capability"),
        _quantities("DESERVED", "spec", "deserved"),
        Column("GUARANTEE", lambda queue, _: amounts(queue.spec.guarantee.resource), wide=True),
        AGE,
    ),
)
"""``volcanopy queue list``."""


async def describe(client: Client, queue: Queue) -> str:
    """Return the description of a queue."""
    facts = await queue_facts(client, queue.metadata.name)
    spec, status = queue.spec, queue.status
    lines = Description(queue.metadata)
    lines.line("Ancestors", ", ".join(above.metadata.name for above in facts.ancestors))
    lines.line("Descendants", ", ".join(below.metadata.name for below in facts.descendants or ()))
    lines.line("State", state(queue))
    lines.line("Stop Policy", stop_policy(queue))
    stopped = stopped_by(facts.queue, facts.ancestors)
    lines.line("Accepts Jobs", f"no: it {stopped}" if stopped else "yes")
    lines.line("Weight", spec.weight)
    lines.line("Share", status.share)
    lines.line(
        "Credit", ", ".join(f"{name} {_seconds(text)}" for name, text in status.credit.items() if name != "pods")
    )
    lines.line("Usage", _usage(status.usage))
    for title, value in _settings(queue).items():
        lines.line(title, value)
    for name, message in await _unread(client, queue):
        lines.line("Warning", f"spec.{name} {message}")
    lines.table("Limits", ("FOR", "RESOURCES", "RUNNING JOBS", "QUEUED JOBS"), map(_limit, spec.limits))
    users = [
        (
            user.name or "<unknown>",
            *map(_percent, (user.share, user.fair_share)),
            _seconds(user.credit),
            _usage(user.usage) or "-",
        )
        for user in status.users
    ]
    lines.table("Users", ("NAME", "SHARE", "FAIR SHARE", "CREDIT", "USAGE"), users)
    counts = ", ".join(f"{count} {phase}" for phase in COUNTS if (count := getattr(status, phase)))
    lines.line("Pod Groups", counts or "none")
    for note in facts.unread:
        lines.line("Note", note)
    await lines.events(client, queue.metadata)
    return lines.text()


async def _unread(client: Client, queue: Queue) -> list[tuple[str, str]]:
    """Return the fields that no plugin of the scheduler's configuration reads; none if that cannot be read."""
    try:
        text = await configured(client)
    except KubeError:
        return []
    plugins = plugin_names(text) if text else None
    spec = queue.spec
    fields = {
        "weight": spec.weight,
        "deserved": spec.deserved,
        "guarantee": spec.guarantee.resource,
        "capability": spec.capability,
        "borrowingLimit": spec.borrowing_limit,
        "lendingLimit": spec.lending_limit,
    }
    return [] if plugins is None else list(unread_fields(fields, plugins))


def _settings(queue: Queue) -> dict[str, Any]:
    """Return the settings of a queue that differ from their defaults, by title."""
    spec, default = queue.spec, Queue(metadata=queue.metadata).spec
    fields = {
        "Priority": "priority",
        "Reclaimable": "reclaimable",
        "Dequeue Strategy": "dequeue_strategy",
        "Job Order": "job_order",
        "Max Running Jobs": "max_running_jobs",
        "Max Queued Jobs": "max_queued_jobs",
        "Type": "type",
    }
    settings = {
        title: getattr(spec, field)
        for title, field in fields.items()
        if getattr(spec, field) != getattr(default, field)
    }
    return settings | {
        "Deserved": amounts(spec.deserved, ""),
        "Guarantee": amounts(spec.guarantee.resource, ""),
        "Borrowing Limit": amounts(spec.borrowing_limit, ""),
        "Lending Limit": amounts(spec.lending_limit, ""),
        "Submitters": _subjects(spec.submitters),
        "Administrators": _subjects(spec.administrators),
    }


def _subjects(subjects: Subjects | None) -> str:
    """Return the named subjects; empty where the field is not set."""
    if subjects is None:
        return ""
    kinds = {
        "user": subjects.users,
        "group": subjects.groups,
        "service account": subjects.service_accounts,
        "namespace": subjects.namespaces,
    }
    return ", ".join(f"{kind} {name}" for kind, names in kinds.items() for name in names) or "none"


def _seconds(text: str) -> str:
    """Return a credit, in seconds of the whole cluster, to one digit."""
    return f"{seconds(text):.1f} s"


def _usage(usage: Mapping[str, str]) -> str:
    """Return a usage in core-hours and device-hours, to two digits."""
    hours = {name: seconds(text) / 3600 for name, text in usage.items()}
    return ", ".join(f"{name} {amount:.2f} h" for name, amount in hours.items() if name not in {"memory", "pods"})


def _percent(text: str) -> str:
    return f"{100 * seconds(text):.1f} %"


def _limit(limit: QueueLimit) -> tuple[str, ...]:
    subjects = [f"user {name}" for name in limit.users] + [f"group {name}" for name in limit.groups]
    jobs = ("-" if number is None else str(number) for number in (limit.max_running_jobs, limit.max_queued_jobs))
    return (", ".join(subjects), amounts(limit.resources), *jobs)
