"""What is known of the cluster when an object is judged."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from volcanopy.admission.plugins import PluginCheck, no_plugins
from volcanopy.admission.policy import AdmissionPolicy
from volcanopy.api.access import Queue
from volcanopy.api.core import Namespace, PodGroup
from volcanopy.api.network import HyperNode


@dataclass(frozen=True)
class Edit:
    """A change of the tree of queues that was allowed and may not be seen yet; ``after`` is None for a deletion."""

    name: str
    after: Queue | None


@dataclass(frozen=True)
class Context:
    """What is known of the cluster, and of the job plugins.

    None means not known (no connection, or nothing of the kind): nothing is refused for it then. ``rooms`` are the largest
    nodes, in base units: no node has more of everything than one of them. ``unfinished`` counts PodGroups by queue.
    ``edits`` are changes of queues that were allowed a moment ago, perhaps by another server.
    """

    queues: Mapping[str, Queue] | None = None
    check_plugins: PluginCheck = field(default=no_plugins)
    policy: AdmissionPolicy = field(default_factory=AdmissionPolicy)
    namespaces: Mapping[str, Namespace] | None = None
    rooms: tuple[Mapping[str, int], ...] = ()
    priority_classes: Container[str] | None = None
    pod_groups: Mapping[str, PodGroup] | None = None
    unfinished: Mapping[str, int] = field(default_factory=dict)
    hyper_nodes: Mapping[str, HyperNode] | None = None
    edits: tuple[Edit, ...] = ()
