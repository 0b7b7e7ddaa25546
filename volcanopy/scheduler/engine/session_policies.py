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
    """Return the tiers of the configuration, rules of shares after their policies, between mandatory ones that apply."""
    first, last = (
        [((kind(NoArguments(), cluster), frozenset[str]()),) for applies, kind in each if applies(cluster.snapshot)]
        for each in (_FIRST, _LAST)
    )
    tiers: list[tuple[tuple[Plugin[Any], frozenset[str]], ...]] = []
    for tier in config.tiers:
        policies: list[tuple[Plugin[Any], frozenset[str]]] = []
        for entry in tier:
            with observer.during("plugin", entry.plugin.name):
                plugin = entry.plugin(entry.arguments, cluster, entry.hierarchy)
            policies.append((plugin, entry.off))
            if isinstance(plugin, Quota):
                policies.append((ShareRules(plugin, cluster), entry.off))
        tiers.append(tuple(policies))
    return (*first, *tiers, *last)
