"""Why no node is available for a task: the counts of reasons, the node that lacks least, and reservations of other jobs.

It is computed when the task is not placed, because the placements of the rest of its gang are rolled back afterwards; the
message is made when the session ends, for the jobs that wait then.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from volcanopy.api import quantity
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.score_cache import rejected as rejected_by
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.messages import quantities, short
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import NodeRejection


@dataclass(frozen=True, eq=False)
class Nearest:
    """The node that lacks least of what a task requests, among those that no predicate rejects."""

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
        return ", ".join(
            f"{quantity.shown(name, requested - has)} {name}" for name, requested, has in missing if requested > has
        )

    def __str__(self) -> str:
        if self.is_too_small:
            return f'a larger node: nearest is node "{self.name}", which lacks {self.gaps}'
        return f'release of {self.gaps} on node "{self.name}"'

    def amounts(self) -> dict[str, dict[str, str]]:
        """Return the request and the amounts of the node, by resource."""
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
    """The number of nodes that reject a task, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    nearest: Nearest | None = None
    but_for: str = ""
    """If every node is rejected: the only reason on most nodes with enough resources, else those of the nearest node."""
    blocked_by: tuple[str, ...] = ()  # Jobs with reservations that the task could have used.

    @cached_property
    def sentence(self) -> str:
        """The number of nodes for each reason."""
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


def judge(ledger: Ledger, rejections: Sequence[NodeRejection], task: TaskView) -> Why:
    """Return why no node is available for the task; ``rejections`` are those of the predicates for all nodes."""
    count = len(ledger.snapshot.nodes)
    why, rejected = Why(nodes=count), np.zeros(count, dtype=np.bool_)
    for rejection in rejections:
        why.counts[rejection.reason] += int(rejection.nodes.sum())
        rejected |= rejection.nodes
    request = task.request.values
    dims, names = request.nonzero()[0], ledger.snapshot.axis.names
    future = ledger.future
    for dim in dims.tolist():
        reason = "Too many pods" if names[dim] == "pods" else f"Insufficient {names[dim]}"
        why.counts[reason] += int((~rejected & (future[dim] < request[dim])).sum())
    why.counts = +why.counts  # without reasons of no node
    others: Mask = ~rejected_by([each for each in rejections if not each.reserved_for], count)
    if others.any():
        why.nearest = _nearest(ledger, request, others.nonzero()[0])
    elif count:
        fits = np.array((future[dims] >= request[dims, None]).all(axis=0), dtype=np.bool_)
        times = np.sum([each.nodes for each in rejections], axis=0)
        why.but_for = _but_for(rejections, times, fits) or _least_rejected(ledger, rejections, times, request)
    why.blocked_by = _blocked_by(ledger, rejections, task, ~rejected)
    return why


def _nearest(ledger: Ledger, request: Ints, rows: Rows) -> Nearest | None:
    """Nearest is where the shortfall relative to the request, summed over resources, is smallest; the first of equals."""
    size, future = ledger.snapshot.nodes.allocatable.values[:, rows], ledger.future[:, rows]
    dims = request.nonzero()[0]
    requested = request[dims, None]
    distance: Floats = (np.maximum(requested - future[dims], 0) / requested).sum(axis=0)
    large = (size[dims] >= requested).all(axis=0)
    if large.any():
        distance[~large] = np.inf
    else:
        distance = (np.maximum(requested - size[dims], 0) / requested).sum(axis=0)
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


def _but_for(rejections: Sequence[NodeRejection], times: Ints, fits: Mask) -> str:
    """Return the only reason on most nodes with enough resources, and how many those are; empty without such nodes.

    ``times`` (M,) is how many reasons each node has.
    """
    alone = Counter[str]()
    for rejection in rejections:
        alone[rejection.reason] += int((rejection.nodes & (times == 1) & fits).sum())
    reason, count = min(alone.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    return f"{count} node{'s' if count > 1 else ''} rejected only by: {reason}" if count else ""


def _least_rejected(ledger: Ledger, rejections: Sequence[NodeRejection], times: Ints, request: Ints) -> str:
    """The node with the fewest reasons against it, of those the nearest, and what is in the way there."""
    few = (times == times.min()).nonzero()[0]
    nearest, nodes = _nearest(ledger, request, few), ledger.snapshot.nodes
    row = int(few[0]) if nearest is None else nodes.index[nearest.name]
    reasons = sorted(rejection.reason for rejection in rejections if rejection.nodes[row])
    missing = [] if nearest is None else [f"insufficient {nearest.gaps}"]
    return f'node "{nodes.names[row]}" rejected only by: {", ".join([*reasons, *missing])}'


def _blocked_by(ledger: Ledger, rejections: Sequence[NodeRejection], task: TaskView, accepted: Mask) -> tuple[str, ...]:
    """Return the jobs with reservations that would be enough for the task: by a rejection, or on (N,) ``accepted`` nodes."""
    jobs = {each.reserved_for for each in rejections if each.reserved_for and each.nodes.any()}
    table, request = ledger.snapshot.tasks, task.request.values
    own = int(table.job[task.row])
    waits = ledger.job_counts[Status.PIPELINED] + ledger.job_counts[Status.ALLOCATED]
    if accepted.any() and waits.any() and (waits.sum() > waits[own] or own < 0):
        kept = ((ledger.status == Status.PIPELINED) | (ledger.status == Status.ALLOCATED)).nonzero()[0]
        kept = kept[table.job[kept] != own]
        there = ledger.future.copy()
        requests = ledger.snapshot.requests(kept)
        np.add.at(there.T, ledger.node[kept], requests.T)
        dims = request.nonzero()[0]
        enough = accepted & (there[dims] >= request[dims, None]).all(axis=0)
        jobs |= set(ledger.snapshot.jobs.keys[table.job[kept[enough[ledger.node[kept]]]]].tolist())
    return tuple(f"job {job}" for job in sorted(jobs)[: defaults.NAMED_JOBS])
