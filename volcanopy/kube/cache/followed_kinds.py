"""The kinds that services watch, with the types that their objects are decoded into, and the removal of unused fields."""

from typing import Any, TypeVar

from msgspec.structs import replace

from volcanopy.api import core, names, topology_read
from volcanopy.api.builtin import devices, policy, storage
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.model import pod_claims

_SCHEDULING, _, _BETA = names.SCHEDULING_V1BETA1.partition("/")

PODS: Kind[core.Pod] = Kind("", "v1", "Pod", "pods", True, core.Pod)
NODES: Kind[core.Node] = Kind("", "v1", "Node", "nodes", False, core.Node)
NAMESPACES: Kind[core.Namespace] = Kind("", "v1", "Namespace", "namespaces", False, core.Namespace)
PRIORITY_CLASSES: Kind[core.PriorityClass] = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, core.PriorityClass
)
POD_GROUPS: Kind[core.PodGroup] = Kind(_SCHEDULING, _BETA, "PodGroup", "podgroups", True, core.PodGroup)
QUEUES: Kind[core.Queue] = Kind(_SCHEDULING, _BETA, "Queue", "queues", False, core.Queue)
RESOURCE_QUOTAS: Kind[policy.ResourceQuota] = Kind(
    "", "v1", "ResourceQuota", "resourcequotas", True, policy.ResourceQuota
)
DISRUPTION_BUDGETS: Kind[policy.PodDisruptionBudget] = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, policy.PodDisruptionBudget
)
HYPER_NODES: Kind[topology_read.HyperNode] = Kind(
    names.TOPOLOGY, names.TOPOLOGY_V1ALPHA1.partition("/")[2], "HyperNode", "hypernodes", False, topology_read.HyperNode
)
"""The network topology. Optional."""
_NODEINFO, _, _NODEINFO_VERSION = names.NODEINFO_V1ALPHA1.partition("/")
NUMA_TOPOLOGIES: Kind[topology_read.NumaTopology] = Kind(
    _NODEINFO, _NODEINFO_VERSION, "NumaTopology", "numatopologies", False, topology_read.NumaTopology
)
"""The cpu topology of nodes. Optional."""

VOLUME_CLAIMS: Kind[storage.PersistentVolumeClaim] = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, storage.PersistentVolumeClaim
)
VOLUMES: Kind[storage.PersistentVolume] = Kind(
    "", "v1", "PersistentVolume", "persistentvolumes", False, storage.PersistentVolume
)
_STORAGE = "storage.k8s.io"
STORAGE_CLASSES: Kind[storage.StorageClass] = Kind(
    _STORAGE, "v1", "StorageClass", "storageclasses", False, storage.StorageClass
)
CSI_NODES: Kind[storage.CSINode] = Kind(_STORAGE, "v1", "CSINode", "csinodes", False, storage.CSINode)
CSI_DRIVERS: Kind[storage.CSIDriver] = Kind(_STORAGE, "v1", "CSIDriver", "csidrivers", False, storage.CSIDriver)
CSI_CAPACITIES: Kind[storage.CSIStorageCapacity] = Kind(
    _STORAGE, "v1", "CSIStorageCapacity", "csistoragecapacities", True, storage.CSIStorageCapacity
)
DEVICE_CLAIMS: Kind[devices.ResourceClaim] = Kind(
    devices.GROUP, "v1", "ResourceClaim", "resourceclaims", True, devices.ResourceClaim
)
DEVICE_SLICES: Kind[devices.ResourceSlice] = Kind(
    devices.GROUP, "v1", "ResourceSlice", "resourceslices", False, devices.ResourceSlice
)
DEVICE_CLASSES: Kind[devices.DeviceClass] = Kind(
    devices.GROUP, "v1", "DeviceClass", "deviceclasses", False, devices.DeviceClass
)
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
OLDER: dict[str, tuple[str, ...]] = {devices.GROUP: ("v1beta2", "v1beta1")}
"""Earlier versions of groups, newest first, that the same types decode."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
T = TypeVar("T", bound=Any)


def slim(item: T) -> T:
    """Return an object without kubectl's last-applied-configuration."""
    meta = _slim_meta(item.metadata)
    return item if meta is item.metadata else replace(item, metadata=meta)


def slim_pod(pod: core.Pod) -> core.Pod:
    """Return a pod without container statuses, and without volumes that do not restrict its nodes."""
    status, meta, spec = pod.status, _slim_meta(pod.metadata), pod.spec
    if status.container_statuses or status.init_container_statuses:
        status = replace(status, container_statuses=(), init_container_statuses=())
    if spec.volumes and len(kept := pod_claims.kept(spec.volumes)) < len(spec.volumes):
        spec = replace(spec, volumes=kept)
    if status is pod.status and meta is pod.metadata and spec is pod.spec:
        return pod
    return replace(pod, metadata=meta, spec=spec, status=status)


def slim_node(node: core.Node) -> core.Node:
    """Return a node without its conditions."""
    return replace(node, metadata=_slim_meta(node.metadata), status=replace(node.status, conditions=()))


def _slim_meta(meta: core.Meta) -> core.Meta:
    if _LAST_APPLIED not in meta.annotations:
        return meta
    kept = {key: value for key, value in meta.annotations.items() if key != _LAST_APPLIED}
    return replace(meta, annotations=kept)
