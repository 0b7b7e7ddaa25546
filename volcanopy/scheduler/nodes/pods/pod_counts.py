"""Numbers of tasks per node and per topology domain, kept current during a session.

A tally is counted once and then updated for the tasks that changed, so that a query after every placement costs the same
whatever the number of tasks.

Completed pods do not count. Terminating pods count on their node with ``terminating``, except pods evicted by this
session: the preemptor may take their place.
"""

from collections.abc import Callable, Hashable
from weakref import proxy

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import COUNT, Status
from volcanopy.scheduler.nodes.traits.node_affinity import Domains

_ON_NODE = np.zeros(COUNT, dtype=np.bool_)
_ON_NODE[[Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.UNKNOWN]] = True
_PLACEABLE = _ON_NODE.copy()
_PLACEABLE[[Status.PENDING, Status.RELEASING]] = True
_MAX_UPDATES = 16  # A tally is updated task by task up to this number of changed tasks, and recounted beyond.


class Tally:
    """The summed values of some tasks: per node, and per domain of each requested topology."""

    def __init__(self, pod_counts: "PodCounts", values: Mask | Ints, terminating: bool) -> None:
        # Weak: else the tables of the session would stay until the garbage collector runs.
        self._pod_counts: PodCounts = proxy(pod_counts)
        self._values = values
        self._members: Rows = np.flatnonzero(values)
        self._terminating = terminating
        self._nodes: Rows = np.empty(0, dtype=np.intp)
        """For each member the row of the node on which it counts, or NONE."""
        self._seen = NONE
        self._counts: Ints = np.empty(0, dtype=np.int64)
        self._sums: dict[Domains, Ints] = {}

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
        moved = None if self._seen == NONE else pod_counts.ledger.moved_since(self._seen)
        if moved is None or len(moved) > _MAX_UPDATES:
            self._recount()
        else:
            for task in {task for task in moved.tolist() if self._values[task]}:
                self._update(task)
        self._seen = moves

    def _recount(self) -> None:
        members = self._members
        present = self._pod_counts.present(members, self._terminating)
        self._nodes = np.where(present, self._pod_counts.ledger.node[members], NONE)
        values = None if self._values.dtype == np.bool_ else self._values[members][present]
        counts = np.bincount(self._nodes[present], weights=values, minlength=self._pod_counts.size)
        self._counts = counts.astype(np.int64)
        self._sums.clear()

    def _update(self, task: int) -> None:
        place, value = int(self._members.searchsorted(task)), int(self._values[task])
        before, now = int(self._nodes[place]), self._pod_counts.node_of(task, self._terminating)
        if before == now:
            return
        self._nodes[place] = now
        for node, change in ((before, -value), (now, value)):
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
        self._tallies: dict[Hashable, Tally] = {}
        self._has_tasks: Mask | None = None

    def tally(self, key: Hashable, values: Callable[[], Mask | Ints], terminating: bool) -> Tally:
        """Return the tally of ``key``: the (T,) values summed over present tasks, with or without terminating ones."""
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(self, values(), terminating)
        return tally

    def of_selector(self, number: int, terminating: bool) -> Tally:
        """Return the tally of the tasks that match a selector."""
        return self.tally(("selector", number, terminating), lambda: self.snapshot.tasks.selectors[number], terminating)

    def present(self, rows: Rows, terminating: bool) -> Mask:
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

    def has_tasks(self, shape: int) -> bool:
        """Return whether a task of this shape is or may be placed on a node."""
        if self._has_tasks is None:
            self._has_tasks = np.zeros(len(self.snapshot.shapes.specs), dtype=np.bool_)
            tasks = self.snapshot.tasks
            self._has_tasks[tasks.shape[_PLACEABLE[tasks.status]]] = True
        return bool(self._has_tasks[shape])
