"""Report about a queue: allocated amounts, fair share and available resources, and the pod groups that wait by gate."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volcanopy.api import core, quantity
from volcanopy.api.quantity import counted
from volcanopy.client.explain.hierarchy import COUNTS, state, stop_policy, stopped_by
from volcanopy.client.explain.report import QueueReport, ResourceRow, WaitingGroup, listed

_LAST = 1 << 30
_AMOUNTS = ("allocated", "fair_share", "guaranteed", "borrowed", "waiting")


@dataclass(frozen=True)
class QueueFacts:
    """The objects about a queue.

    ``ancestors`` are the nearest first. ``descendants`` and ``groups``, the PodGroups of the queue and its descendants,
    are None if they may not be read; ``unread`` has a sentence for each.
    """

    queue: core.Queue
    ancestors: Sequence[core.Queue] = ()
    descendants: Sequence[core.Queue] | None = ()
    groups: Sequence[core.PodGroup] | None = ()
    unread: tuple[str, ...] = ()


def queue_report(facts: QueueFacts) -> QueueReport:
    """Return the report about a queue."""
    name, status = facts.queue.metadata.name, facts.queue.status
    waiting = waiting_groups(facts.groups or ())
    by_gate = Counter(group.gate for group in waiting)
    resources = tuple(_resource_rows([facts.queue, *facts.ancestors]))
    return QueueReport(
        name=name,
        ancestors=tuple(queue.metadata.name for queue in facts.ancestors),
        state=state(facts.queue),
        stop_policy=stop_policy(facts.queue),
        summary=f'queue "{name}" {"; ".join(_summary(facts, resources, waiting, by_gate))}',
        share=status.share,
        resources=resources,
        limited_by=tuple(_limited_by(resources, name)),
        counts={phase: getattr(status, phase) for phase in COUNTS},
        jobs=status.jobs,
        gates=dict(sorted(by_gate.items(), key=lambda item: (-item[1], item[0]))),
        waiting=tuple(waiting),
        descendants=tuple(queue.metadata.name for queue in facts.descendants or ()),
        notes=facts.unread,
    )


def _summary(
    facts: QueueFacts, rows: Sequence[ResourceRow], waiting: Sequence[WaitingGroup], by_gate: Mapping[str, int]
) -> list[str]:
    parts = [stopped_by(facts.queue, facts.ancestors) or "is open"]
    row = dominant(rows)
    if row is None:
        parts.append("nothing allocated")
    else:
        parts.append(
            f"{row.resource} allocated {row.allocated}" + (f", fair share {row.fair_share}" if row.fair_share else "")
        )
    full = next((row for row in rows if row.available == "0" and row.resource != "pods"), None)
    if full is not None:
        parts.append(f'capability of queue "{full.limited_by}" reached for {full.resource}')
    borrowed = [f"{row.resource} {row.borrowed}" for row in rows if row.borrowed and row.resource != "pods"]
    if borrowed:
        parts.append(f"borrowed {listed(borrowed)}")
    if waiting:
        gates = ", ".join(f"{gate} {number}" for gate, number in sorted(by_gate.items(), key=lambda item: -item[1]))
        parts.append(f"{counted(len(waiting), 'job')} pending (by gate: {gates})")
    elif facts.groups is not None:
        parts.append("no pending jobs")
    return parts


def dominant(rows: Sequence[ResourceRow]) -> ResourceRow | None:
    """Return the resource of which most is allocated relative to the fair share, or else to capability."""

    def part(row: ResourceRow) -> float:
        whole = row.fair_share or row.capability
        if not row.allocated or row.resource == "pods":
            return -1.0
        return float(quantity.parse(row.allocated) / quantity.parse(whole)) if whole and quantity.parse(whole) else 0.0

    best = max(rows, key=part, default=None)
    return best if best is not None and best.allocated and best.resource != "pods" else None


def _resource_rows(line: Sequence[core.Queue]) -> list[ResourceRow]:
    """Return the rows of the first of these queues; the others are its ancestors."""
    queue = line[0]
    amounts = {kind: quantity.amounts(getattr(queue.status, kind)) for kind in _AMOUNTS}
    limits = [
        (member.metadata.name, quantity.amounts(member.spec.capability), quantity.amounts(member.status.allocated))
        for member in line
    ]
    lending = quantity.amounts(queue.spec.lending_limit)
    resources = {name for quantities in amounts.values() for name in quantities} | {
        name for _, caps, _ in limits for name in caps
    }
    return [_resource_row(name, amounts, limits, lending) for name in sorted(resources)]


def _resource_row(
    resource: str,
    amounts: Mapping[str, Mapping[str, int]],
    limits: Sequence[tuple[str, Mapping[str, int], Mapping[str, int]]],
    lending: Mapping[str, int],
) -> ResourceRow:
    def text(units: int | None) -> str:
        return quantity.shown(resource, units) if units else ""

    limited = [
        (name, caps[resource], allocated.get(resource, 0)) for name, caps, allocated in limits if resource in caps
    ]
    available, limited_by = min(((max(cap - now, 0), name) for name, cap, now in limited), default=(0, ""))
    idle = max(amounts["fair_share"].get(resource, 0) - amounts["allocated"].get(resource, 0), 0)
    return ResourceRow(
        resource=resource,
        capability=text(min(cap for _, cap, _ in limited)) if limited else "",
        available=quantity.shown(resource, available) if limited else "",
        limited_by=limited_by,
        lendable=text(min(idle, lending.get(resource, idle))),
        **{kind: text(quantities.get(resource)) for kind, quantities in amounts.items()},
    )


def _limited_by(rows: Sequence[ResourceRow], name: str) -> list[str]:
    """Return a sentence for each ancestor whose capability leaves less than the queue's own."""
    by_queue: dict[str, list[str]] = {}
    for row in rows:
        if row.limited_by and row.limited_by != name:
            by_queue.setdefault(row.limited_by, []).append(f"{row.resource} available {row.available}")
    return [f'queue "{queue}": {listed(amounts)}' for queue, amounts in by_queue.items()]


def waiting_groups(groups: Sequence[core.PodGroup]) -> list[WaitingGroup]:
    """Return the pod groups that wait, by their position."""
    waiting = []
    for group in groups:
        reason, phase = group.status.explanation, group.status.phase or "Pending"
        if phase == "Completed" or (reason is None and phase != "Pending"):
            continue
        waiting.append(
            WaitingGroup(
                next((owner.name for owner in group.metadata.owner_references if owner.kind == "BatchJob"), "")
                or group.metadata.name,
                group.metadata.namespace,
                reason.gate if reason is not None else "not processed yet",
                reason.message if reason is not None else "",
                core.position_of(reason.numbers) if reason is not None else 0,
            )
        )
    return sorted(waiting, key=lambda group: (group.position or _LAST, group.namespace, group.name))
