"""Manifests, statuses and Leases of simulated nodes."""

from collections.abc import Mapping
from typing import Any

from volcanopy.api import core
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.kinds import Json
from volcanopy_local.simulated.pod_status import micro_stamp, stamp

SIMULATED = "sim.volcanopy.io/node"
"""Label of the nodes that a simulated kubelet serves, unless it serves all nodes without a runtime of their own."""
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
DEFAULT_CAPACITY: Mapping[str, str] = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
ZONES = 3

NODES = raw_kinds.NODES.of(core.Node)
UNREACHABLE = "node.kubernetes.io/unreachable"

_HEALTH = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


def manifest(name: str, number: int = 0, capacity: Mapping[str, str] | None = None) -> Json:
    """Return a node; ``capacity`` is added to the default capacity, ``number`` selects the zone."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "simulated",
                "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/zone": f"zone-{number % ZONES + 1}",
                SIMULATED: "true",
            },
        },
        "status": {"capacity": {**DEFAULT_CAPACITY, **(capacity or {})}},
    }


def manifests(count: int, capacity: Mapping[str, str] | None = None) -> list[Json]:
    """Return nodes of equal capacity: ``node-1``, ``node-2``, ..."""
    return [manifest(f"node-{number + 1}", number, capacity) for number in range(count)]


def copy_of(node: Json) -> Json:
    """Return a node with the labels, annotations, taints and capacity of this one, which may be of another cluster."""
    metadata, spec, status = (node.get(key) or {} for key in ("metadata", "spec", "status"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {key: metadata[key] for key in ("name", "labels", "annotations") if metadata.get(key)},
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if spec.get(key)},
        "status": {key: status[key] for key in ("capacity", "allocatable", "images") if status.get(key)},
    }


def description(node: core.Node, address: str, now: float) -> Json:
    """Return the status of a node whose kubelet has started, as a strategic merge patch with defaults."""
    capacity = {**DEFAULT_CAPACITY, **node.status.allocatable, **node.status.capacity}
    return {
        "capacity": capacity,
        "allocatable": {**capacity, **node.status.allocatable},
        "conditions": conditions(now),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": node.metadata.name}],
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": "v1.36.0-simulated",
            "kubeProxyVersion": "",
            "kernelVersion": "simulated",
            "osImage": "simulated",
            "containerRuntimeVersion": "simulated://0",
            "bootID": "",
            "machineID": node.metadata.name,
            "systemUUID": node.metadata.uid,
        },
    }


def conditions(now: float, since: float | None = None) -> list[Json]:
    """Return the conditions of a healthy node; ``since`` is their transition time, None for unchanged."""
    turned = {} if since is None else {"lastTransitionTime": stamp(since)}
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": stamp(now),
            **turned,
        }
        for kind, (status, reason, message) in _HEALTH.items()
    ]


def lease(node: core.Node, now: float) -> Json:
    """Return the Lease of a node."""
    name = node.metadata.name
    owner: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro_stamp(now)},
    }


def is_ready(node: core.Node) -> bool:
    """Return whether the node is ready."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def node_address(number: int) -> str:
    """Return the address of the node with this number."""
    return f"172.{16 + (number >> 16) % 16}.{number >> 8 & 255}.{number & 255}"
