"""In which hypernodes jobs and sub-groups with a network topology are placed, and in which order these are tried.

The plugin ``network-topology-aware`` of the configuration file leaves out those of insufficient resources and orders the others;
its switches turn that off. Without it the lowest tiers are tried first.
"""

import numpy as np

from volcanopy.scheduler.engine.network_topology import NetworkTopologyAware
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.subjob_views import SubJobView
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.policy.dispatch import Hooks


class Hypernodes:
    """The hypernodes of a session."""

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
