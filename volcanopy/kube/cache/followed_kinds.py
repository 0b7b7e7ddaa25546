"""The kinds that services watch, with the types that their objects are decoded into, and the removal of unused fields."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from volcanopy.api import core, topology_read
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.api.builtin import devices, pod_claims, policy, storage
from volcanopy.api.builtin.resize import with_resized_requests
from volcanopy.api.gang_apis import GANG_APIS
from volcanopy.api.translation import read_with_own_names
from volcanopy.kube.cache.shared_parts import SharedParts
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import bound

PODS = raw_kinds.PODS.of(core.Pod)
NODES = raw_kinds.NODES.of(core.Node)
NAMESPACES = raw_kinds.NAMESPACES.of(core.Namespace)
PRIORITY_CLASSES = raw_kinds.PRIORITY_CLASSES.of(core.PriorityClass)
POD_GROUPS = raw_kinds.POD_GROUPS.of(core.PodGroup)
QUEUES = raw_kinds.QUEUES.of(core.Queue)
RESOURCE_QUOTAS = raw_kinds.RESOURCE_QUOTAS.of(policy.ResourceQuota)
DISRUPTION_BUDGETS = raw_kinds.DISRUPTION_BUDGETS.of(policy.PodDisruptionBudget)
HYPER_NODES = raw_kinds.HYPER_NODES.of(topology_read.HyperNode)
"""The network topology. Optional."""
NUMA_TOPOLOGIES = raw_kinds.NUMA_TOPOLOGIES.of(topology_read.NumaTopology)
"""The cpu topology of nodes. Optional."""

VOLUME_CLAIMS = raw_kinds.VOLUME_CLAIMS.of(storage.PersistentVolumeClaim)
VOLUMES = raw_kinds.VOLUMES.of(storage.PersistentVolume)
STORAGE_CLASSES = raw_kinds.STORAGE_CLASSES.of(storage.StorageClass)
CSI_NODES = raw_kinds.CSI_NODES.of(storage.CSINode)
CSI_DRIVERS = raw_kinds.CSI_DRIVERS.of(storage.CSIDriver)
CSI_CAPACITIES = raw_kinds.CSI_CAPACITIES.of(storage.CSIStorageCapacity)
DEVICE_CLAIMS = raw_kinds.DEVICE_CLAIMS.of(devices.ResourceClaim)
DEVICE_SLICES = raw_kinds.DEVICE_SLICES.of(devices.ResourceSlice)
DEVICE_CLASSES = raw_kinds.DEVICE_CLASSES.of(devices.DeviceClass)
SUPPLIES: tuple[Kind[Any], ...] = (
    VOLUME_CLAIMS,
    VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_CAPACITIES,
    DEVICE_CLAIMS,
    DEVICE_SLICES,
    DEVICE_CLASSES,
)
"""Volumes, devices, and the claims on them. Optional."""
OPTIONAL: tuple[Kind[Any], ...] = (HYPER_NODES, NUMA_TOPOLOGIES, *SUPPLIES)
"""Kinds that a server may lack or a user may not read."""
REQUIRED: tuple[Kind[Any], ...] = (
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    DISRUPTION_BUDGETS,
    QUEUES,
    POD_GROUPS,
    NODES,
    PODS,
)
"""Kinds that must be readable; pods are last, since they refer to the others."""
OLDER: dict[str, tuple[str, ...]] = {
    devices.GROUP: ("v1beta2", "v1beta1"),
    **{api.group: api.versions[1:] for api in GANG_APIS.values()},
}
"""Earlier versions of groups, newest first, that the same types decode."""

_IN_EVERY_API = (HYPER_NODES, NUMA_TOPOLOGIES, QUEUES, POD_GROUPS)
"""Kinds that each served API has."""


def followed(bindings: Sequence[Binding]) -> tuple[tuple[Kind[Any], ...], tuple[Kind[Any], ...]]:
    """Return the required and the optional kinds of these APIs, in the order in which they are listed.

    Only the first API must be served.
    """
    first, others = bindings[0], bindings[1:]
    further = tuple(bound(kind, binding) for binding in others for kind in _IN_EVERY_API)
    return tuple(bound(kind, first) for kind in REQUIRED), (*(bound(kind, first) for kind in OPTIONAL), *further)


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
T = TypeVar("T", bound=Any)


def slim(item: T) -> T:
    """Return an object without kubectl's last-applied-configuration."""
    meta = _slim_meta(item.metadata)
    return item if meta is item.metadata else replace(item, metadata=meta)


_USUAL = frozenset({"PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"})
"""Conditions that are true of each running pod: their times, of which each pod has others, would take half of its memory."""


def slim_pod(pod: core.Pod) -> core.Pod:
    """Return a pod without container statuses, address, usual conditions, and volumes that do not restrict its nodes.

    Its containers request what counts while it is resized.
    """
    pod = with_resized_requests(pod)
    status, meta, spec = pod.status, _slim_meta(pod.metadata), pod.spec
    conditions = tuple([item for item in status.conditions if item.type not in _USUAL or item.status != "True"])
    if (
        len(conditions) < len(status.conditions)
        or status.container_statuses
        or status.init_container_statuses
        or status.pod_ip
    ):
        status = replace(status, conditions=conditions, container_statuses=(), init_container_statuses=(), pod_ip="")
    if spec.volumes and len(kept := pod_claims.kept(spec.volumes)) < len(spec.volumes):
        spec = replace(spec, volumes=kept)
    if status is pod.status and meta is pod.metadata and spec is pod.spec:
        return pod
    return replace(pod, metadata=meta, spec=spec, status=status)


def slim_node(node: core.Node) -> core.Node:
    """Return a node without its conditions."""
    return replace(node, metadata=_slim_meta(node.metadata), status=replace(node.status, conditions=()))


def slimming(kind: Kind[Any], bindings: Sequence[Binding] = (VOLCANOPY,)) -> Callable[[Any], Any]:
    """Return the function that removes the unused fields of objects of this kind; equal parts of pods become one object.

    With other APIs than volcanopy's, it also adds volcanopy's names of their labels and annotations.
    """
    own: dict[str, Callable[[Any], Any]] = {NODES.kind: slim_node, PODS.kind: slim_pod}
    slimmed = own.get(kind.kind, slim)
    named = slimmed if tuple(bindings) == (VOLCANOPY,) else lambda item: read_with_own_names(slimmed(item), bindings)
    if kind.kind != PODS.kind:
        return named
    shared = SharedParts()
    return lambda pod: shared.pod(named(pod))


def _slim_meta(meta: core.Meta) -> core.Meta:
    if _LAST_APPLIED not in meta.annotations:
        return meta
    kept = {key: value for key, value in meta.annotations.items() if key != _LAST_APPLIED}
    return replace(meta, annotations=kept)
