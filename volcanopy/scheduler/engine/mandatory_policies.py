"""The policies that every configuration enforces, as one list."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from volcanopy.scheduler.engine import pod_creation, queue_limits, topology_constraint
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.plugin import Plugin


class MandatoryPolicy(NamedTuple):
    """A policy with the predicate when it applies; it is a plugin, or an action that runs before all others."""

    name: str
    applies: Callable[[Snapshot], bool]
    plugin: Callable[[Ledger, Cluster, Sequence[str]], Plugin[Any]] | None = None
    """Makes the plugin from the ledger, the view of it and the names of the configured actions."""
    first: bool = False
    """Whether the plugin is asked before the configured ones, else after them."""


MANDATORY: tuple[MandatoryPolicy, ...] = (
    MandatoryPolicy("queuelimits", queue_limits.applies, queue_limits.QueueLimits, first=True),
    MandatoryPolicy("podcreation", pod_creation.applies, pod_creation.PodCreation),
    MandatoryPolicy("topologyconstraint", topology_constraint.applies, topology_constraint.TopologyConstraint),
    MandatoryPolicy("stoppolicy", lambda snapshot: snapshot.queues.terms.stops is not None),
)
"""All mandatory policies. Those without a plugin are actions, which ``core`` has by name."""
