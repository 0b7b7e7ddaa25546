"""Hard network topology, kept whatever the configuration says and whichever action places a task.

A demand is not a preference: that pods of a group which demands closeness stay within one hypernode of the tier that it
allows holds without any plugin. This is a predicate of the session itself, installed only where someone demands it.
"""

from collections.abc import Hashable, Iterable
from typing import ClassVar

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.framework.plugin import NoArguments, NodeRejection, Plugin, Scope
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status

REASON = "node(s) were too far away in the network"
_LOST = -2
"""In place of a hypernode: what is placed is already further apart than it may be."""

Bound = tuple[int, int]
"""A hypernode that nodes must be in, NONE for any, _LOST for nowhere; and the tier that its like may have at most."""


class Confinement(Plugin[NoArguments]):
    """A task goes where its job, and its sub-group, do not span more of the network than they allow."""

    name: ClassVar[str] = "confinement"

    def open(self) -> None:
        """Nothing is reckoned before it is asked."""
        self._masks: dict[Bound, Mask] = {}

    def scope(self, task: TaskView) -> Scope:
        """It follows from the node alone: what the job's other tasks do to it is in the likeness."""
        return Scope.COLUMNS

    def likeness(self, task: TaskView) -> Hashable:
        """The hypernodes that the task must stay in."""
        job = task.job
        return () if job is None else self._bounds(task, job)

    def predicate(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Nodes outside of them."""
        job = task.job
        bounds = () if job is None else self._bounds(task, job)
        if not bounds:
            return []
        inside = np.ones(len(nodes), dtype=np.bool_)
        for bound in bounds:
            inside &= self._mask(bound)[nodes.rows]
        return [] if inside.all() else [NodeRejection(REASON, ~inside, final=True)]

    def _bounds(self, task: TaskView, job: JobView) -> tuple[Bound, ...]:
        if not self.cluster.snapshot.jobs.structured[job.row]:
            return ()
        table, spec = self.cluster.snapshot.hypernodes, job.group.spec
        bounds = []
        if topology.is_hard(spec.network_topology, table):
            bounds.append(self._bound(self.cluster.spanned(job.tasks()), spec.network_topology))
        if spec.sub_group_policy:
            part = self.cluster.part_of(task)
            if part is not None and part.policy is not None and topology.is_hard(part.topology, table):
                bounds.append(self._bound(part.spanned, part.topology))
        return tuple(bounds)

    def _bound(self, held: int, asked: core.NetworkTopology | None) -> Bound:
        table = self.cluster.snapshot.hypernodes
        tier = topology.bound(asked, table)
        assert tier is not None
        if held == NONE:
            return NONE, tier
        widest = table.widest(held, tier)
        return (widest if widest != NONE else _LOST), tier

    def _mask(self, bound: Bound) -> Mask:
        """(N,): the nodes within a bound."""
        known = self._masks.get(bound)
        if known is None:
            table = self.cluster.snapshot.hypernodes
            where, tier = bound
            if where == _LOST:
                known = np.zeros(len(table.of_node), dtype=np.bool_)
            elif where == NONE:
                known = table.tiers[table.of_node] <= tier
            else:
                known = table.holds[where, table.of_node]
            self._masks[bound] = known
        return known


def demanded(snapshot: Snapshot) -> bool:
    """Whether any job of the snapshot that has pods to place demands closeness."""
    table = snapshot.hypernodes
    waiting = snapshot.jobs.structured & (snapshot.jobs.counts[Status.PENDING] > 0)
    groups = [snapshot.jobs.groups[row] for row in np.flatnonzero(waiting).tolist()]
    return any(
        topology.is_hard(asked, table)
        for group in groups
        if group is not None
        for asked in (group.spec.network_topology, *(policy.network_topology for policy in group.spec.sub_group_policy))
    )
