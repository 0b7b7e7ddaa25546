"""Required network topology: a mandatory plugin that confines the pods of a job to one hypernode of the required tier."""

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.once import once
from volcanopy.scheduler.model.resources import Mask
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy.plugin import NoArguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

REASON = "node(s) were too far away in the network"
_INFEASIBLE = -2  # In place of a hypernode: the pods with a place already span more than the tier allows.

Bound = tuple[int, int]
"""A hypernode that nodes must be in, NONE for any, _INFEASIBLE for no node; and the highest tier allowed."""


def applies(snapshot: Snapshot) -> bool:
    """Whether any job with pods to place has a required topology."""
    table = snapshot.hypernodes
    jobs, rows = snapshot.jobs, snapshot.jobs.unsettled_rows  # others have no pending pods
    rows = rows[jobs.structured[rows]]
    groups = jobs.groups[rows[jobs.counts[Status.PENDING, rows] > 0]].tolist()
    return any(
        topology.is_hard(required, table)
        for group in groups
        if group is not None
        for required in (
            group.spec.network_topology,
            *(policy.network_topology for policy in group.spec.sub_group_policy),
        )
    )


class TopologyConstraint(Nodes, Plugin[NoArguments]):
    """A task is placed where its job and its sub-group span no more of the network than their topology allows."""

    name: ClassVar[str] = "topologyconstraint"

    def open(self) -> None:
        """Declare what the answers depend on."""
        self._bounds_of_task = self.task_value(self._bounds)

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Reject the nodes outside of these hypernodes."""
        bounds = self._bounds_of_task(task)
        if not bounds:
            return []
        inside = np.ones(len(nodes), dtype=np.bool_)
        for bound in bounds:
            inside &= self._mask(bound)[nodes.rows]
        return [] if inside.all() else [NodeRejection(REASON, ~inside, final=True)]

    def _bounds(self, task: TaskView) -> tuple[Bound, ...]:
        """Return the hypernodes that the task must stay in."""
        job = task.job
        if job is None or not self.cluster.snapshot.jobs.structured[job.row]:
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

    def _bound(self, spanned: int, required: core.NetworkTopology | None) -> Bound:
        table = self.cluster.snapshot.hypernodes
        tier = topology.bound(required, table)
        assert tier is not None
        if spanned == NONE:
            return NONE, tier
        widest = table.widest(spanned, tier)
        return (widest if widest != NONE else _INFEASIBLE), tier

    @once
    def _mask(self, bound: Bound) -> Mask:
        """(N,): the nodes within a bound."""
        table = self.cluster.snapshot.hypernodes
        hypernode, tier = bound
        if hypernode == _INFEASIBLE:
            return np.zeros(len(table.of_node), dtype=np.bool_)
        return table.tiers[table.of_node] <= tier if hypernode == NONE else table.holds[hypernode, table.of_node]
