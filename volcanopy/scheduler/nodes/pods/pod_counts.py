"""Numbers of tasks per node and per topology domain, kept current during a session.

A tally is counted once and then updated for the tasks that changed, so that a query after every placement costs the same
whatever the number of tasks.

Tallies have only the tasks that they count, and few of them are current at the same time: each user may have written
a selector for every pod.

Completed pods do not count. Terminating pods count on their node with ``terminating``, except pods evicted by this
session: the preemptor may take their place.
"""

from collections import deque
from collections.abc import Collection, Mapping
from functools import cached_property
from weakref import proxy

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.domain_limits import DomainLimit
from volcanopy.scheduler.model.resources import Index, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import COUNT, Status
from volcanopy.scheduler.nodes.traits.node_affinity import Domains

_ON_NODE = np.zeros(COUNT, dtype=np.bool_)
_ON_NODE[[Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.UNKNOWN]] = True
_PLACEABLE = _ON_NODE.copy()
_PLACEABLE[[Status.PENDING, Status.RELEASING]] = True
_MAX_UPDATES = 16
"""A tally is updated task by task up to this number of changed tasks, and recounted beyond."""
MAX_CURRENT = 128
"""The most tallies of a session with current counts: those have an entry for each of their tasks and each node."""


class Tally:
    """The summed weights of the tasks of some shapes: per node, and per domain of each requested topology."""

    def __init__(self, pod_counts: "PodCounts", weights: Mapping[int, int], terminating: bool) -> None:
        # Weak: else the tables of the session would stay until the garbage collector runs.
        self._pod_counts: PodCounts = proxy(pod_counts)
        self._weights = weights
        """By shape."""
        self._terminating = terminating
        self.drop()

    def drop(self) -> None:
        """Drop the counts; they are computed again when they are needed."""
        self._members: Index = np.empty(0, dtype=np.int32)
        """The rows of the tasks of the shapes."""
        self._nodes: Index = np.empty(0, dtype=np.int32)
        """For each member the row of the node on which it counts, or NONE."""
        self._seen = NONE
        self._counts: Ints = np.empty(0, dtype=np.int64)
        self._sums: dict[Domains, Ints] = {}

    def limit(self, domains: Domains, shape: int) -> DomainLimit:
        """Return the limit of tasks of a shape to domains with none of the counted tasks."""
        added = np.where(domains.numbers, self._weights.get(shape, 0), 0)
        return DomainLimit(domains.numbers, lambda: self.per_domain(domains), added)

    @property
    def counts(self) -> Ints:
        """(N,): the sum of the values of the tasks on each node."""
        self._sync()
        return self._counts

    def per_domain(self, domains: Domains) -> Ints:
        """Return the sums by number of the domain; entry 0, for nodes in no domain, is 0."""
        self._sync()
        sums = self._sums.get(domains)
        if sums is None:
            weighted = np.bincount(domains.numbers, weights=self._counts, minlength=domains.size)
            sums = self._sums[domains] = weighted.astype(np.int64)
            sums[0] = 0
        return sums

    def _sync(self) -> None:
        pod_counts = self._pod_counts
        moves = pod_counts.ledger.moves
        if self._seen == moves:
            return
        if self._seen == NONE:
            self._members = pod_counts.members(self._weights)
            pod_counts.limit_current(self)
            self._recount()
        elif len(moved := pod_counts.ledger.moved_since(self._seen)) > _MAX_UPDATES:
            self._recount()
        else:
            for task in set(moved.tolist()):
                if weight := self._weights.get(int(pod_counts.snapshot.tasks.shape[task])):
                    self._update(task, weight)
        self._seen = moves

    def _recount(self) -> None:
        members = self._members
        present = self._pod_counts.present(members, self._terminating)
        self._nodes = np.where(present, self._pod_counts.ledger.node[members], NONE)
        is_plain = all(weight == 1 for weight in self._weights.values())
        weights = None if is_plain else self._pod_counts.of_tasks(self._weights)[members][present]
        counts = np.bincount(self._nodes[present], weights=weights, minlength=self._pod_counts.size)
        self._counts = counts.astype(np.int64)
        self._sums.clear()

    def _update(self, task: int, weight: int) -> None:
        place = int(self._members.searchsorted(task))
        before, now = int(self._nodes[place]), self._pod_counts.node_of(task, self._terminating)
        if before == now:
            return
        self._nodes[place] = now
        for node, change in ((before, -weight), (now, weight)):
            if node != NONE:
                self._counts[node] += change
                for domains, sums in self._sums.items():
                    if number := domains.numbers[node]:
                        sums[number] += change


class PodCounts:
    """The tallies of one session."""

    def __init__(self, cluster: Cluster) -> None:
        self.snapshot = cluster.snapshot
        self.size = len(cluster.snapshot.nodes)
        self.ledger = cluster.ledger
        self._tallies: dict[tuple[frozenset[tuple[int, int]], bool], Tally] = {}
        self._current: deque[Tally] = deque()

    def tally(self, weights: Mapping[int, int], terminating: bool) -> Tally:
        """Return the tally of the present tasks of these shapes, each by its weight, with or without terminating ones."""
        key = frozenset(weights.items()), terminating
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(self, weights, terminating)
        return tally

    def of_selectors(self, numbers: Collection[int], terminating: bool) -> Tally:
        """Return the tally of the tasks that match all of these selectors."""
        by_selector = self.snapshot.shapes.by_selector
        shapes = set.intersection(*(set(by_selector.get(number, ())) for number in numbers))
        return self.tally(dict.fromkeys(shapes, 1), terminating)

    def limit_current(self, tally: Tally) -> None:
        """Drop the counts of the tally that was counted first, if too many are current with this one."""
        self._current.append(tally)
        if len(self._current) > MAX_CURRENT:
            self._current.popleft().drop()

    def of_tasks(self, weights: Mapping[int, int]) -> Ints:
        """Return the (T,) weight of each task."""
        column = np.zeros(len(self.snapshot.shapes.specs), dtype=np.int64)
        column[list(weights)] = list(weights.values())
        of_tasks: Ints = column[self.snapshot.tasks.shape]
        return of_tasks

    def members(self, weights: Mapping[int, int]) -> Index:
        """Return the rows of the tasks that have a weight."""
        return np.flatnonzero(self.of_tasks(weights)).astype(np.int32)

    def present(self, rows: Rows | Index, terminating: bool) -> Mask:
        """Return the mask of these tasks that count on a node."""
        status = self.ledger.status[rows]
        present = _ON_NODE[status]
        if terminating:
            present |= (status == Status.RELEASING) & (self.snapshot.tasks.status[rows] == Status.RELEASING)
        return present & (self.ledger.node[rows] != NONE)

    def node_of(self, task: int, terminating: bool) -> int:
        """Return the row of the node on which a task counts; NONE without one."""
        status = int(self.ledger.status[task])
        present = _ON_NODE[status] or (terminating and status == self.snapshot.tasks.status[task] == Status.RELEASING)
        return int(self.ledger.node[task]) if present else NONE

    @cached_property
    def placeable_shapes(self) -> frozenset[int]:
        """The shapes of tasks that are or may be placed on a node."""
        tasks = self.snapshot.tasks
        return frozenset(np.unique(tasks.shape[_PLACEABLE[tasks.status]]).tolist())
