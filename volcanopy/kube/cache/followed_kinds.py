"""The kinds that services follow in great numbers, each with the slice of it that they read."""

from typing import Any

from volcanopy.api import core, devices, names, nodeinfo_read, policy, storage, topology_read
from volcanopy.kube.client.kinds import Kind

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
"""What the network is. Not every server has it."""
_NODEINFO, _, _NODEINFO_VERSION = names.NODEINFO_V1ALPHA1.partition("/")
NUMA_TOPOLOGIES: Kind[nodeinfo_read.NumaTopology] = Kind(
    _NODEINFO, _NODEINFO_VERSION, "NumaTopology", "numatopologies", False, nodeinfo_read.NumaTopology
)
"""The cpus of nodes. Not every server has it."""

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
"""What pods may claim, and the claims. Not every server has all of them."""
OLDER: dict[str, tuple[str, ...]] = {devices.GROUP: ("v1beta2", "v1beta1")}
"""Earlier versions of groups, the newer first, whose objects the same types read."""
