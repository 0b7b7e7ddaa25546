"""Process nodes: this machine's cpus and memory, shared out among them."""

import os
import shutil
import tempfile
from collections.abc import Sequence

from volcanopy.api import core
from volcanopy.api.names import RUNTIME_LABEL
from volcanopy.kube.client.kinds import Json
from volcanopy_local.process import hosts
from volcanopy_local.process.gpus import ANNOTATION, RESOURCE
from volcanopy_local.simulated import nodes

PROCESS = "process"
MAXIMUM_PODS = 110


def machine_size() -> tuple[int, int]:
    """The cpus that this process may use, and the memory of the machine in bytes."""
    return len(os.sched_getaffinity(0)), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def storage_size() -> int:
    """The bytes of the disk on which the files of pods are."""
    return shutil.disk_usage(tempfile.gettempdir()).total


def manifests(count: int, cpus: int, memory: int, gpus: Sequence[str] = ()) -> list[Json]:
    """Nodes `local-1`, `local-2`, ... that share cpus (whole milli-cpus), memory and disk (whole MiB) and GPUs of the machine."""
    nodes = [_manifest(number, count, cpus, memory) for number in range(count)]
    for number, node in enumerate(nodes):
        if node_gpus := gpus[number::count]:
            node["metadata"]["annotations"] = {ANNOTATION: ",".join(node_gpus)}
            node["status"]["capacity"][RESOURCE] = str(len(node_gpus))
    return nodes


def _manifest(number: int, count: int, cpus: int, memory: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"local-{number + 1}",
            "labels": {
                "kubernetes.io/hostname": f"local-{number + 1}",
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": PROCESS,
                RUNTIME_LABEL: PROCESS,
            },
        },
        "status": {
            "capacity": {
                "cpu": f"{cpus * 1000 // count}m",
                "memory": f"{memory // 2**20 // count}Mi",
                "ephemeral-storage": f"{storage_size() // 2**20 // count}Mi",
                "pods": str(MAXIMUM_PODS),
            }
        },
    }


def is_process_node(node: core.Node) -> bool:
    """Whether the pods of the node run as processes of this machine."""
    return node.metadata.labels.get(RUNTIME_LABEL) == PROCESS


def description(node: core.Node, _address: str, now: float) -> Json:
    """The status of a process node that has started: this machine's kernel, and the capacity of the node."""
    system = os.uname()
    status = nodes.description(node, hosts.HOST_ADDRESS, now)
    capacity = dict(node.status.capacity)
    return {
        **status,
        "capacity": capacity,
        "allocatable": {**capacity, **node.status.allocatable},
        "nodeInfo": {
            **status["nodeInfo"],
            "kubeletVersion": f"v1.36.0-{PROCESS}",
            "kernelVersion": system.release,
            "osImage": system.sysname,
            "containerRuntimeVersion": f"{PROCESS}://0",
        },
    }
