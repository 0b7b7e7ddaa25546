"""Limits of local storage: `sizeLimit` of emptyDir volumes and limits of ephemeral-storage, measured as by a kubelet."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from volcanopy.api import quantity
from volcanopy.kube.client.kinds import Json

MEASURED = 2.0
"""Seconds between measurements of a pod that has such a limit."""
_BLOCK = 512
_RESOURCE = "ephemeral-storage"


def is_limited(pod: Json) -> bool:
    """Whether a pod has a limit of local storage."""
    return bool(_sizes(pod)) or any(map(_limit_of, pod["spec"]["containers"]))


def exceeded(pod: Json, folder: Path, temporary: Mapping[str, Path]) -> str:
    """Why a pod must be evicted, as a kubelet writes it; empty if it is within its limits.

    `folder` is that of the pod, `temporary` those for /tmp of its containers.
    """
    volumes = [volume["name"] for volume in pod["spec"].get("volumes") or () if "emptyDir" in volume]
    usage = {name: used_bytes([folder / "volumes" / name]) for name in volumes}
    for name, limit in _sizes(pod).items():
        if usage[name] > quantity.parse(limit):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    containers: list[Json] = pod["spec"]["containers"]
    limits = {container["name"]: _limit_of(container) for container in containers}
    files = {name: used_bytes([temporary.get(name, folder / "tmp"), folder / "logs" / name]) for name in limits}
    if all(limits.values()):
        total = sum(quantity.parse(limit) for limit in limits.values())
        if sum(usage.values()) + sum(files.values()) > total:
            text = quantity.text(_RESOURCE, int(total)) if len(limits) > 1 else next(iter(limits.values()))
            return f"Pod ephemeral local storage usage exceeds the total limit of containers {text}. "
    for name, limit in limits.items():
        if limit and files[name] > quantity.parse(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def used_bytes(folders: Iterable[Path]) -> int:
    """What the files below folders take on the disk; links are not followed, and files with several names count once."""
    sizes: dict[tuple[int, int], int] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            for _, below, names, descriptor in os.fwalk(folder):
                for name in (*below, *names):
                    with contextlib.suppress(OSError):
                        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                        sizes[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK
    return sum(sizes.values())


def _sizes(pod: Json) -> dict[str, str]:
    """The limits of emptyDir volumes by name."""
    return {
        volume["name"]: str(volume["emptyDir"]["sizeLimit"])
        for volume in pod["spec"].get("volumes") or ()
        if quantity.parse(str((volume.get("emptyDir") or {}).get("sizeLimit") or 0))
    }


def _limit_of(container: Json) -> str:
    """The limit of a container; empty without one."""
    return str(((container.get("resources") or {}).get("limits") or {}).get(_RESOURCE) or "")
