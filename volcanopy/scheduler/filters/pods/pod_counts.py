"""Who is where: how many tasks of a kind are on each node and in each topology domain, as the session moves them.

A tally is counted once and then kept current from the nodes that were touched since, so that asking after every single
placement costs a few array operations, whatever the number of tasks.

Pods that are over count nowhere. A pod that is terminating still stands on its node for whoever asks ``leaving``; a pod
that this very session evicts does not, since the question is then whether the evictor could be there in its place.
"""

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray

from volcanopy.scheduler.filters.traits.node_affinity import Domains
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import COUNT, Status

_STAYING = np.zeros(COUNT, dtype=np.bool_)
_STAYING[[Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.UNKNOWN]] = True
_LIVING = _STAYING.copy()
_LIVING[[Status.PENDING, Status.RELEASING]] = True
_FEW = 8
"""Up to so many touched nodes a tally is mended node by node, beyond that it is counted anew."""


class Tally:
    """Counts of one kind of task: per node, and per domain of each topology that was asked about."""

    def __init__(self, pod_counts: "PodCounts", values: Mask | Ints, leaving: bool) -> None:
        self._pod_counts = pod_counts
        self._values = values
        self._members: Rows = np.flatnonzero(values)
        self._leaving = leaving
        self._seen = NONE
        self._counts: Ints = np.empty(0, dtype=np.int64)
        self._sums: dict[Domains, Ints] = {}

    @property
    def counts(self) -> Ints:
        """(N,): the sum of the values of the tasks on each node."""
        self._renew()
        return self._counts

    def over(self, domains: Domains) -> Ints:
        """The sums over each domain by its number; entry 0, for nodes in no domain, is 0."""
        self._renew()
        sums = self._sums.get(domains)
        if sums is None:
            weighed = np.bincount(domains.places, weights=self._counts, minlength=domains.size)
            sums = self._sums[domains] = weighed.astype(np.int64)
            sums[0] = 0
        return sums

    def _renew(self) -> None:
        pod_counts = self._pod_counts
        now = pod_counts.changes
        if self._seen == now:
            return
        touched = set(pod_counts.touched_since(self._seen).tolist()) if self._seen != NONE else set()
        if self._seen == NONE or len(touched) > _FEW:
            self._recount()
        else:
            for node in touched:
                self._mend(node)
        self._seen = now

    def _recount(self) -> None:
        members = self._members
        here = self._pod_counts.present(members, self._leaving)
        nodes = self._pod_counts.node[members][here]
        values = None if self._values.dtype == np.bool_ else self._values[members][here]
        self._counts = np.bincount(nodes, weights=values, minlength=self._pod_counts.size).astype(np.int64)
        self._sums.clear()

    def _mend(self, node: int) -> None:
        count = int(self._values[self._pod_counts.on_node(node, self._leaving)].sum())
        change = count - int(self._counts[node])
        if change:
            self._counts[node] = count
            for domains, sums in self._sums.items():
                place = domains.places[node]
                if place:
                    sums[place] += change


class PodCounts:
    """The tallies of one session."""

    def __init__(self, cluster: Cluster) -> None:
        self.snapshot = cluster.snapshot
        self.size = len(cluster.snapshot.nodes)
        self._ledger = cluster.ledger
        self.node: NDArray[np.int32] = self._ledger.node
        self._status: NDArray[np.int8] = self._ledger.status
        self._tallies: dict[Hashable, Tally] = {}
        self._on_node: dict[tuple[int, bool], Rows] = {}
        self._on_node_at = NONE
        self._living: Mask | None = None

    @property
    def changes(self) -> int:
        """How many changes the ledger has seen."""
        return self._ledger.changes

    def touched_since(self, change: int) -> Rows:
        """The nodes that changed since."""
        return self._ledger.touched_since(change)

    def tally(self, key: Hashable, values: Callable[[], Mask | Ints], leaving: bool) -> Tally:
        """The tally known by ``key``: the (T,) values summed over present tasks, with or without terminating ones."""
        known = self._tallies.get(key)
        if known is None:
            known = self._tallies[key] = Tally(self, values(), leaving)
        return known

    def of_selector(self, number: int, leaving: bool) -> Tally:
        """How many tasks match a selector."""
        return self.tally(("selector", number, leaving), lambda: self.snapshot.tasks.selectors[number], leaving)

    def present(self, rows: Rows, leaving: bool) -> Mask:
        """Which of these tasks count as being on a node."""
        status = self._status[rows]
        here: Mask = _STAYING[status] & (self.node[rows] != NONE)
        if leaving:
            here |= (
                (status == Status.RELEASING)
                & (self.snapshot.tasks.status[rows] == Status.RELEASING)
                & (self.node[rows] != NONE)
            )
        return here

    def on_node(self, node: int, leaving: bool) -> Rows:
        """The tasks that count as being on a node."""
        if self._on_node_at != self.changes:
            self._on_node.clear()
            self._on_node_at = self.changes
        known = self._on_node.get((node, leaving))
        if known is None:
            rows = np.flatnonzero(self.node == node)
            known = self._on_node[node, leaving] = rows[self.present(rows, leaving)]
        return known

    def living(self, shape: int) -> bool:
        """Whether there is a task of this shape that is, or may come to be, on a node."""
        if self._living is None:
            self._living = np.zeros(len(self.snapshot.shapes.specs), dtype=np.bool_)
            tasks = self.snapshot.tasks
            self._living[tasks.shape[_LIVING[tasks.status]]] = True
        return bool(self._living[shape])

    def by_shape(self, values: Mask | Ints) -> Mask | Ints:
        """A (T,) column from an (S,) one: each task's value is its shape's."""
        column: Mask | Ints = values[self.snapshot.tasks.shape]
        return column
