"""The policies of a session: those of the configuration, and those that each enforces, beside the stop policies of queues."""

from typing import Any

from volcanopy.scheduler.engine import pod_creation, queue_limits, topology_constraint
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.scheduler.policy.dispatch import Installed
from volcanopy.scheduler.policy.observer import Observer
from volcanopy.scheduler.policy.plugin import NoArguments, Plugin
from volcanopy.scheduler.policy.roles import Quota

_FIRST = ((queue_limits.applies, queue_limits.QueueLimits),)
_LAST = (
    (pod_creation.applies, pod_creation.PodCreation),
    (topology_constraint.applies, topology_constraint.TopologyConstraint),
)


def installed(config: SchedulerConfig, cluster: Cluster, observer: Observer) -> Installed:
    """Return the tiers of the configuration between those of the mandatory policies that apply to the snapshot.

    The rules of shares follow each policy that computes some, with its switches.
    """
    tiers: list[tuple[tuple[Plugin[Any], frozenset[str]], ...]] = []
    for applies, kind in _FIRST:
        if applies(cluster.snapshot):
            tiers.append(((kind(NoArguments(), cluster), frozenset()),))
    for tier in config.tiers:
        policies: list[tuple[Plugin[Any], frozenset[str]]] = []
        for entry in tier:
            with observer.during("plugin", entry.plugin.name):
                plugin = entry.plugin(entry.arguments, cluster, entry.hierarchy)
            policies.append((plugin, entry.off))
            if isinstance(plugin, Quota):
                policies.append((ShareRules(plugin, cluster), entry.off))
        tiers.append(tuple(policies))
    for applies, kind in _LAST:
        if applies(cluster.snapshot):
            tiers.append(((kind(NoArguments(), cluster), frozenset()),))
    return tuple(tiers)
