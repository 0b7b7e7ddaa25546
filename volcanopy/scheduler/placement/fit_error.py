"""Why no node takes a task: who refuses it for which reason, which node comes nearest, and for whom its room is kept.

It is found out at the moment when the task is refused, since what the rest of its gang took goes back afterwards; put
into words it is when the session ends, for the jobs that wait then.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.framework.plugin import NodeRejection
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.messages import quantities, short
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status

_NAMED = 3
"""So many jobs for which room is kept are named."""


@dataclass(frozen=True, eq=False)
class Nearest:
    """The node on which least is missing of what a task requests, among those that no predicate refuses to it."""

    name: str
    names: tuple[str, ...]
    request: Ints
    used: Ints
    free: Ints
    size: Ints

    @property
    def is_too_small(self) -> bool:
        """Whether the task would not fit there if all others left: then no node is large enough."""
        return bool((self.request > self.size).any())

    @property
    def gaps(self) -> str:
        """What is missing; of the whole node where that is too small."""
        room = self.size if self.is_too_small else self.free
        missing = zip(self.names, self.request.tolist(), room.tolist(), strict=True)
        return ", ".join(f"{quantity.text(name, wanted - has)} {name}" for name, wanted, has in missing if wanted > has)

    def __str__(self) -> str:
        if self.is_too_small:
            return f'a larger node: nearest is node "{self.name}", which lacks {self.gaps}'
        return f'release of {self.gaps} on node "{self.name}"'

    def amounts(self) -> dict[str, dict[str, str]]:
        """What is wanted, and how the node stands, by resource."""
        counted = tuple(self.request.tolist())
        table = {
            "requested": self.request,
            "allocated": self.used,
            "limit": self.size,
            "available": np.maximum(self.free, 0),
        }
        return {kind: quantities(self.names, tuple(units.tolist()), counted) for kind, units in table.items()}


@dataclass
class Why:
    """Why no node takes a task: how many nodes refuse for which reason."""

    counts: dict[str, int] = field(default_factory=dict)
    nodes: int = 0
    nearest: Nearest | None = None
    but_for: str = ""
    """Where every node is refused: what most nodes with room, or else the nearest node, would take the task but for."""
    blocked_by: tuple[str, ...] = ()
    """Jobs for which room is kept that the task could have had otherwise."""

    @cached_property
    def sentence(self) -> str:
        """How many nodes refuse for which reason."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.ordered())
        return f"0/{self.nodes} nodes are available: {reasons}" if reasons else f"0/{self.nodes} nodes are available"

    def ordered(self) -> list[tuple[str, int]]:
        """The reasons, those of most nodes first."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))

    @cached_property
    def unblocked_by(self) -> str:
        """The least that would have to become free, or to change, for one more such task to find a node."""
        if self.nearest is not None:
            return str(self.nearest)
        if self.but_for:
            return self.but_for
        if self.blocked_by:
            kind, _, job = self.blocked_by[0].partition(" ")
            return f'start or deletion of {kind} "{short(job)}"'
        return "" if self.nodes else "adding a node"

    @cached_property
    def amounts(self) -> dict[str, dict[str, str]]:
        """The nearest node's amounts by resource."""
        return {} if self.nearest is None else self.nearest.amounts()


def judge(ledger: Ledger, refusals: Sequence[NodeRejection], task: TaskView, rows: Rows) -> Why:
    """Why none of these nodes takes the task; ``refusals`` are what the predicates say of them."""
    why = Why(nodes=len(rows))
    refused = np.zeros(len(rows), dtype=np.bool_)
    for refusal in refusals:
        number = int(refusal.nodes.sum())
        if number:
            why.counts[refusal.reason] = why.counts.get(refusal.reason, 0) + number
            refused |= refusal.nodes
    request = task.request.values
    dims, names = np.flatnonzero(request), ledger.snapshot.axis.names
    future = ledger.future[:, rows]
    for dim in dims.tolist():
        short = int((~refused & (future[dim] < request[dim])).sum())
        if short:
            reason = "Too many pods" if names[dim] == "pods" else f"Insufficient {names[dim]}"
            why.counts[reason] = why.counts.get(reason, 0) + short
    others: Mask = ~_union([one for one in refusals if not one.reserved_for], len(rows))
    if others.any():
        why.nearest = _nearest(ledger, request, dims, rows[others], future[:, others])
    elif len(rows):
        fits = np.array((future[dims] >= request[dims, None]).all(axis=0), dtype=np.bool_)
        why.but_for = _but_for(refusals, fits) or _least_refused(ledger, refusals, request, dims, rows, future)
    why.blocked_by = _blocked_by(ledger, refusals, task, dims, rows[~refused])
    return why


def _union(refusals: Sequence[NodeRejection], count: int) -> Mask:
    refused = np.zeros(count, dtype=np.bool_)
    for refusal in refusals:
        refused |= refusal.nodes
    return refused


def _nearest(ledger: Ledger, request: Ints, dims: Rows, rows: Rows, future: Ints) -> Nearest | None:
    """Nearest is where the shortfall relative to the request, summed over resources, is smallest; the first of equals."""
    size = ledger.snapshot.nodes.allocatable.values[:, rows]
    wanted = request[dims, None]
    distance: Floats = (np.maximum(wanted - future[dims], 0) / wanted).sum(axis=0)
    large = (size[dims] >= wanted).all(axis=0)
    if large.any():
        distance[~large] = np.inf
    else:
        distance = (np.maximum(wanted - size[dims], 0) / wanted).sum(axis=0)
    place = int(distance.argmin())
    if not distance[place]:
        return None
    row = int(rows[place])
    return Nearest(
        ledger.snapshot.nodes.names[row],
        ledger.snapshot.axis.names,
        request,
        ledger.used[:, row].copy(),
        future[:, place].copy(),
        size[:, place].copy(),
    )


def _but_for(refusals: Sequence[NodeRejection], fits: Mask) -> str:
    """The reason that alone keeps the task from the most nodes with room for it, and how many those are; empty if none does."""
    times = np.zeros(len(fits), dtype=np.int64)
    for refusal in refusals:
        times += refusal.nodes
    alone: dict[str, int] = {}
    for refusal in refusals:
        count = int((refusal.nodes & (times == 1) & fits).sum())
        if count:
            alone[refusal.reason] = alone.get(refusal.reason, 0) + count
    if not alone:
        return ""
    reason = min(alone, key=lambda one: (-alone[one], one))
    return f"{alone[reason]} node{'s' if alone[reason] > 1 else ''} rejected only by: {reason}"


def _least_refused(
    ledger: Ledger, refusals: Sequence[NodeRejection], request: Ints, dims: Rows, rows: Rows, future: Ints
) -> str:
    """The node with the fewest reasons against it, of those the nearest, and what is in the way there."""
    times = np.zeros(len(rows), dtype=np.int64)
    for refusal in refusals:
        times += refusal.nodes
    few = np.flatnonzero(times == times.min())
    nearest = _nearest(ledger, request, dims, rows[few], future[:, few])
    place = int(few[0]) if nearest is None else rows.tolist().index(ledger.snapshot.nodes.index[nearest.name])
    reasons = sorted(refusal.reason for refusal in refusals if refusal.nodes[place])
    name = ledger.snapshot.nodes.names[int(rows[place])]
    missing = [] if nearest is None else [f"insufficient {nearest.gaps}"]
    return f'node "{name}" rejected only by: {", ".join([*reasons, *missing])}'


def _blocked_by(
    ledger: Ledger, refusals: Sequence[NodeRejection], task: TaskView, dims: Rows, rows: Rows
) -> tuple[str, ...]:
    """The jobs for which room is kept that would be enough for the task: by a refusal, or by tasks placed in it."""
    jobs = {one.reserved_for for one in refusals if one.reserved_for and one.nodes.any()}
    table, request = ledger.snapshot.tasks, task.request.values
    own = int(table.job[task.row])
    waits = ledger.job_counts[Status.PIPELINED] + ledger.job_counts[Status.ALLOCATED]
    if len(rows) and waits.any() and (waits.sum() > waits[own] or own < 0):
        kept = np.flatnonzero((ledger.status == Status.PIPELINED) | (ledger.status == Status.ALLOCATED))
        kept = kept[table.job[kept] != own]
        there = ledger.future.copy()
        requests = ledger.snapshot.shapes.request.values[:, table.shape[kept]]
        np.add.at(there.T, ledger.node[kept], requests.T)
        enough = np.zeros(there.shape[1], dtype=np.bool_)
        enough[rows] = (there[np.ix_(dims, rows)] >= request[dims, None]).all(axis=0)
        jobs |= set(ledger.snapshot.jobs.keys[table.job[kept[enough[ledger.node[kept]]]]].tolist())
    return tuple(f"job {job}" for job in sorted(jobs)[:_NAMED])
