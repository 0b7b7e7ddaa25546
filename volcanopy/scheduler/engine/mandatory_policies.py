"""The policies that every configuration enforces, beside the stop policies of queues."""

from volcanopy.scheduler.engine import pod_creation, queue_limits, topology_constraint
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.policy.dispatch import Installed
from volcanopy.scheduler.policy.plugin import NoArguments

_FIRST = ((queue_limits.applies, queue_limits.QueueLimits),)
_LAST = (
    (pod_creation.applies, pod_creation.PodCreation),
    (topology_constraint.applies, topology_constraint.TopologyConstraint),
)


def with_mandatory(tiers: Installed, cluster: Cluster) -> Installed:
    """Return the tiers of the configuration between those of the mandatory policies that apply to the snapshot."""
    first, last = (
        tuple(
            ((kind(NoArguments(), cluster), frozenset[str]()),)
            for applies, kind in policies
            if applies(cluster.snapshot)
        )
        for policies in (_FIRST, _LAST)
    )
    return (*first, *tiers, *last)
