"""The GPUs of this machine, found by nvidia-smi, and which containers have them."""

import asyncio
import shutil
import subprocess
from collections.abc import Mapping

from volcanopy.kube.client.kinds import Json

RESOURCE = "nvidia.com/gpu"
ANNOTATION = "volcanopy.io/gpus"
"""On a node: the indexes of its GPUs, joined by commas."""
VARIABLE = "CUDA_VISIBLE_DEVICES"


def gpus_of_machine() -> list[str]:
    """The indexes of the GPUs; empty without nvidia-smi, or if it fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        command = [program, "--query-gpu=index", "--format=csv,noheader"]
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in output.splitlines() if line.strip().isdigit()]


def requested(container: Json) -> int:
    """The number of GPUs of a container."""
    return int(((container.get("resources") or {}).get("limits") or {}).get(RESOURCE) or 0)


def shares(pod: Json, indexes: list[str]) -> dict[str, str]:
    """The variable of each container: containers share out the GPUs of the pod, init containers have them before."""
    result, count = {}, 0
    for container in pod["spec"]["containers"]:
        result[container["name"]] = ",".join(indexes[count : count + requested(container)])
        count += requested(container)
    for container in pod["spec"].get("initContainers") or ():
        result[container["name"]] = ",".join(indexes[: requested(container)])
    return result


def number_of(pod: Json) -> int:
    """The number of GPUs that a pod has."""
    init = (requested(container) for container in pod["spec"].get("initContainers") or ())
    return max(sum(map(requested, pod["spec"]["containers"])), max(init, default=0))


class Gpus:
    """Which pods have the GPUs of each node."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[str, list[str]]] = {}
        self._released = asyncio.Event()

    async def take(self, pod: Json, annotations: Mapping[str, str]) -> dict[str, str]:
        """Wait until the pod's GPUs are free on its node; the variable of each container, none on a node without GPUs."""
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        indexes = [index for index in annotations.get(ANNOTATION, "").split(",") if index]
        if not indexes:
            return {}
        while True:
            taken_gpus = {
                index
                for other_uid, (at, gpu_indexes) in self._taken.items()
                if at == node and other_uid != uid
                for index in gpu_indexes
            }
            free = [index for index in indexes if index not in taken_gpus]
            if len(free) >= number_of(pod):
                self._taken[uid] = (node, free[: number_of(pod)])
                return shares(pod, free)
            self._released.clear()
            await self._released.wait()

    def release(self, uid: str) -> None:
        """The pod has ended."""
        if self._taken.pop(uid, None) is not None:
            self._released.set()
