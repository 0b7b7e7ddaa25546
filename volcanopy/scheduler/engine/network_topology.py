"""network-topology-aware: close together in the network, and hypernodes filled up one after the other."""

from collections.abc import Hashable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from volcanopy.scheduler.ledger.cluster import Cluster, NodesView, TasksView
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.once import once, once_while
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, Status
from volcanopy.scheduler.nodes.scores.resource_weights import gathered
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes

_SETTLED = HOLDING.copy()
_SETTLED[Status.ALLOCATED] = False
_PREFIX = "hypernode.binpack.resources"


class NetworkTopologyArguments(Arguments):
    """Weights, of the plugin and of resources by name; how pods without a topology are scored; how far evictions look."""

    weight: int = Field(1, ge=0)
    """How much the plugin counts."""
    cpu: int = Field(1, alias="hypernode.binpack.cpu", ge=0)
    """How much cpu counts in how full a hypernode is."""
    memory: int = Field(1, alias="hypernode.binpack.memory", ge=0)
    """How much memory counts in it."""
    resources: dict[str, int] = Field(default_factory=dict, alias=_PREFIX)
    """Further resources that count, separated by commas; `hypernode.binpack.resources.<name>` weighs one."""
    normal_pods: bool = Field(True, alias="hypernode.binpack.normal-pod.enable")
    """Whether pods without a topology are packed into full hypernodes as well."""
    fading: float = Field(0.8, alias="hypernode.binpack.normal-pod.fading", ge=0)
    """How much less each tier further up counts for them."""
    most_evicted: int = Field(8, alias="hypernode.gradient.evict.max-hypernodes", ge=1)
    """How many hypernodes are tried in looking for victims."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: Any) -> Any:
        return gathered(values, _PREFIX)


class NetworkTopologyAware(Nodes, Plugin[NetworkTopologyArguments]):
    """Prefer nodes near the job's others, the fullest hypernode that still takes it, and the fullest around other pods."""

    name: ClassVar[str] = "network-topology-aware"
    arguments: ClassVar[type[Arguments]] = NetworkTopologyArguments

    def open(self) -> None:
        """Lay the weights along the axis, and measure the network."""
        args = self.args
        self._table = self.cluster.snapshot.hypernodes
        self._weights = self.cluster.axis.vector({"cpu": args.cpu, "memory": args.memory, **args.resources})
        self._lowest, self._highest = int(self._table.tiers.min()), int(self._table.tiers[-1])
        self._allocatable = self._table.sums(self.cluster.snapshot.nodes.allocatable.values)
        self.task_value(self._place)

    def couples_nodes(self, task: TaskView) -> bool:
        """Pods without a topology look at all that is around a node."""
        return len(self._table) > 1 and self.args.normal_pods and self._part(task.representative) is None

    def _place(self, task: TaskView) -> Hashable:
        """Where the job's other tasks are."""
        part = None if len(self._table) == 1 else self._part(task.representative)
        return None if part is None else (part.key, part.spanned)

    def _part(self, task: TaskView) -> SubJobView | None:
        """The task's sub-group, if that has a topology."""
        job = task.job
        if job is None or not self.cluster.snapshot.jobs.structured[job.row]:
            return None
        part = self.cluster.part_of(task)
        return None if part is None or part.tier is None else part

    # Hypernodes

    def groups(self, requester: JobView | SubJobView, hypernodes: Rows, to_evict: bool) -> list[Rows]:
        """Return the lowest tiers first, without those of insufficient resources; to evict, the highest first, and not many."""
        if self.cluster.spanned(requester.tasks()) == NONE:
            least = self._least(requester)[:, None]
            amounts = [self._allocatable] if to_evict else [self._sum("idle"), self._sum("future")]
            fits = [(table[:, hypernodes] >= least).all(axis=0) for table in amounts]
            hypernodes = hypernodes[np.logical_or.reduce(fits)]
        groups = self._table.by_tier(hypernodes)
        if not to_evict or not groups:
            return groups
        return self._table.by_tier(np.concatenate(groups)[-self.args.most_evicted :])[::-1]

    @once_while("cluster.ledger.moves", by="key")
    def _least(self, requester: JobView | SubJobView) -> Ints:
        """(R,): the least request of the tasks that must be placed."""
        return self.cluster.snapshot.least_request(requester.tasks(Status.PENDING), max(1, requester.shortfall))

    @once_while("cluster.ledger.changes")
    def _sum(self, column: str) -> Ints:
        """(R, H): a column of the nodes summed up, as the session stands."""
        return self._table.sums(getattr(self.cluster.ledger, column))

    def scores(self, part: SubJobView, hypernodes: Rows) -> Floats:
        """Return how full each is with the sub-group in it; of the fullest rather those that hold more of its tasks."""
        snapshot = self.cluster.snapshot
        request = snapshot.requests(part.rows).sum(axis=1)
        scores = self._fullness(request, hypernodes)
        best = scores == scores.max(initial=0.0)
        if best.sum() > 1:
            scores[best] += self._ratio(part, hypernodes[best])
        return scores * 100.0 * self.args.weight

    def _fullness(self, request: Ints, hypernodes: Rows) -> Floats:
        """(M,): the weighted mean of used and requested over allocatable; 0 where that is more than 1."""
        dims = np.flatnonzero((self._weights > 0) & (request > 0))
        if not len(dims):
            return np.zeros(len(hypernodes), dtype=np.float64)
        where = np.ix_(dims, hypernodes)
        after, room = self._sum("used")[where] + request[dims, None], self._allocatable[where]
        shares = np.divide(after, room, out=np.zeros(after.shape, dtype=np.float64), where=room > 0)
        weights = self._weights[dims]
        scores: Floats = (shares * weights[:, None]).sum(axis=0) / weights.sum()
        scores[(after > room).any(axis=0)] = 0.0
        return scores

    def _ratio(self, part: SubJobView, hypernodes: Rows) -> Floats:
        """(M,): the fraction of the sub-group's tasks in each hypernode; those that are just being placed do not count."""
        ledger = self.cluster.ledger
        held = part.rows[_SETTLED[ledger.status[part.rows]]]
        inside = self._table.holds[np.ix_(hypernodes, self._table.of_node[ledger.node[held]])]
        return inside.sum(axis=1) / max(len(part), 1)

    # Nodes

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """For a pod with a topology, how near the node is to its sub-group; for others, how full its hypernodes are."""
        with self.cluster.reads.unaffected():  # tasks that are just being placed do not count
            return tasks.each(lambda task: self._score(task, nodes.rows)) * 100.0 * self.args.weight

    def _score(self, task: TaskView, rows: Rows) -> Floats:
        if len(self._table) > 1 and self.args.weight:
            part = self._part(task.representative)
            if part is not None:
                return self._nearness(part, rows)
            if self.args.normal_pods:
                return self._around(task)[self._table.of_node[rows]]
        return np.zeros(len(rows), dtype=np.float64)

    def _nearness(self, part: SubJobView, nodes: Rows) -> Floats:
        """(M,): 1 in the hypernode that the sub-group spans, less the further up the network the two meet."""
        table, spanned = self._table, part.spanned
        if spanned == NONE:
            return np.zeros(len(nodes), dtype=np.float64)
        by_hypernode = self._near(spanned).copy()
        inside = self._within(spanned)
        if inside.sum() > 1:
            nearest = inside & (by_hypernode == by_hypernode[inside].max())
            by_hypernode[nearest] += self._ratio(part, np.flatnonzero(nearest))
        return by_hypernode[table.of_node[nodes]]

    @once
    def _near(self, spanned: int) -> Floats:
        """(H,): how near each hypernode is to one."""
        table, width = self._table, self._highest - self._lowest
        nearness: Floats = np.zeros(len(table), dtype=np.float64)
        for row in range(table.top):
            meeting = int(table.tiers[table.common((row, spanned))])
            nearness[row] = (self._highest - meeting) / width if width else 1.0
        nearness[spanned] = 1.0 if spanned != table.top else 0.0
        return nearness

    def _within(self, hypernode: int) -> Mask:
        """(H,): the hypernodes with nodes of their own within one."""
        members = np.zeros(len(self._table), dtype=np.bool_)
        members[self._table.of_node] = True
        members[self._table.top] = False
        return members & self._table.holds[hypernode]

    def _around(self, task: TaskView) -> Floats:
        """(H,): for a node of each hypernode, how full those that hold it are with the task; the close count more."""
        scores = self._fullness(task.request.values, np.arange(len(self._table)))
        weights, at = self._fading
        if not weights.sum():
            return np.zeros(len(scores), dtype=np.float64)
        return (np.append(scores, 1.0)[at] * weights).sum(axis=1) / weights.sum()

    @cached_property
    def _fading(self) -> tuple[Floats, Ints]:
        """(tiers,): the weight of each; (H, tiers): the ancestor of a hypernode there, one beyond the last for nothing."""
        table = self._table
        tiers = np.arange(self._lowest, self._highest + 1)
        at = np.full((len(table), len(tiers)), len(table), dtype=np.int64)
        for row, line in enumerate(table.lines):
            at[row, table.tiers[line] - self._lowest] = line
        return np.power(self.args.fading, (tiers - 1).astype(np.float64)), at


class Hypernodes:
    """The hypernodes of a session in which jobs and sub-groups with a network topology are placed, in the order of the attempts.

    The plugin leaves out those of insufficient resources and orders the others; its switches turn that off. Without it the lowest
    tiers are tried first.
    """

    def __init__(self, cluster: Cluster, hooks: Hooks) -> None:
        self._cluster = cluster
        self._table = cluster.snapshot.hypernodes
        self._grouping = hooks.first_policy(NetworkTopologyAware, "enabledHyperNodeGradient")
        self._scoring = hooks.first_policy(NetworkTopologyAware, "enabledHyperNodeOrder")

    def groups(self, requester: JobView | SubJobView, root: int, *, to_evict: bool = False) -> list[Rows]:
        """Return groups of hypernodes below ``root`` in which a job or sub-group can be placed, the best group first.

        It is ``[[root]]`` without a topology. Tasks that have a place restrict the domains of the others. ``to_evict``: pods
        are evicted there.
        """
        table = self._table
        network = requester.topology if isinstance(requester, SubJobView) else requester.group.spec.network_topology
        tier = topology.bound(network, table)
        if tier is None:
            return [np.array([root], dtype=np.intp)]
        spanned = self._cluster.spanned(requester.tasks())
        if spanned != NONE:
            spanned = table.widest(spanned, tier)
            if spanned == NONE or not (table.holds[spanned, root] or table.holds[root, spanned]):
                return []
            root = root if table.holds[spanned, root] else spanned
        rows = table.below(root, tier)
        return table.by_tier(rows) if self._grouping is None else self._grouping.groups(requester, rows, to_evict)

    def scores(self, part: SubJobView, hypernodes: Rows) -> Floats:
        """(M,): how well each of these hypernodes suits a sub-group: larger is better."""
        if self._scoring is None:
            return np.zeros(len(hypernodes), dtype=np.float64)
        return self._scoring.scores(part, hypernodes)
