"""Control groups of the kernel, version 1 or 2, where they can be written: they limit containers.

A container's groups are below one folder per hierarchy that belongs to this cluster, beside or below the group of its process.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PERIOD = 100_000
"""Microseconds of the period in which a limit of cpu counts, as a kubelet sets it."""
ROOT = Path("/sys/fs/cgroup")
PROCESSES = 4096
"""The most processes and threads of a container: more would use up those of the machine."""
_NEEDED = ("memory", "cpu", "pids")


@dataclass(frozen=True)
class CgroupLimits:
    """Limits of a container: cpus and bytes of memory; None for one that has none."""

    cpu: float | None = None
    memory: int | None = None


class Cgroup:
    """The groups of one container."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders

    @property
    def files(self) -> tuple[str, ...]:
        """The files to which a process writes 0 to join the groups."""
        return tuple(sorted({str(folder / "cgroup.procs") for folder in self._folders.values()}))

    def oom_kills(self) -> int:
        """How many processes the kernel has killed because the limit of memory was reached."""
        folder = self._folders.get("memory")
        if folder is None:
            return 0
        name = "memory.events" if _is_unified(folder) else "memory.oom_control"
        return _field(folder / name, "oom_kill")

    async def remove(self) -> None:
        """Kill what still runs in the groups, and delete them."""
        for folder in self._folders.values():
            await _remove(folder)


class Cgroups:
    """The folders of this cluster by controller (`memory`, `cpu`, `pids`)."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders
        self.controllers = frozenset(folders)

    @property
    def folders(self) -> set[Path]:
        """The folders that must be deleted in the end."""
        return set(self._folders.values())

    def create(self, name: str, limits: CgroupLimits) -> Cgroup:
        """The groups of a container with these limits, and at most :data:`PROCESSES` processes. Raises OSError."""
        requested = {"memory": limits.memory is not None, "cpu": limits.cpu is not None, "pids": True}
        folders = {controller: folder / name for controller, folder in self._folders.items() if requested[controller]}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        if limits.memory is not None and "memory" in folders:
            _limit_memory(folders["memory"], limits.memory)
        if limits.cpu is not None and "cpu" in folders:
            _limit_cpu(folders["cpu"], limits.cpu)
        if "pids" in folders:
            _write(folders["pids"] / "pids.max", PROCESSES)
        return Cgroup(folders)

    async def remove(self) -> None:
        """Delete all groups of this cluster."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                for path in [path for path in folder.iterdir() if path.is_dir()]:
                    await _remove(path)
            await _remove(folder)


def _limit_memory(folder: Path, limit: int) -> None:
    """Bound memory, and swap with it where the kernel counts that."""
    if _is_unified(folder):
        _write(folder / "memory.max", limit)
        with contextlib.suppress(OSError):
            _write(folder / "memory.swap.max", 0)
        return
    _write(folder / "memory.limit_in_bytes", limit)
    with contextlib.suppress(OSError):
        _write(folder / "memory.memsw.limit_in_bytes", limit)


def _limit_cpu(folder: Path, limit: float) -> None:
    quota = max(round(limit * PERIOD), 1000)
    if _is_unified(folder):
        _write(folder / "cpu.max", f"{quota} {PERIOD}")
        return
    _write(folder / "cpu.cfs_period_us", PERIOD)
    _write(folder / "cpu.cfs_quota_us", quota)


def writable(root: Path = ROOT, own_groups: Path = Path("/proc/self/cgroup"), name: str | None = None) -> Cgroups:
    """The groups that can be made here, for each controller by the first way that works; without any it has no controllers."""
    name = name or f"volcanopy-{os.getpid()}"
    folders: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        for line in own_groups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                folders |= _unified(root, path, name, [item for item in _NEEDED if item not in folders])
                continue
            for controller in set(controllers.split(",")) & set(_NEEDED) - folders.keys():
                folder = _made(root / controllers, path, name)
                if folder is not None:
                    folders[controller] = folder
    return Cgroups(folders)


def _unified(root: Path, path: str, name: str, controllers: Sequence[str]) -> dict[str, Path]:
    """The groups of version 2: all controllers in one folder, because a process is in one group."""
    for controller in controllers:
        folder = _made(root, path, name, controller)
        if folder is not None:
            return {
                candidate: folder for candidate in controllers if candidate == controller or _enabled(folder, candidate)
            }
    return {}


def _made(root: Path, path: str, name: str, controller: str = "") -> Path | None:
    """A new folder below the own group, or in version 2, with a controller, below one without processes; None if none works."""
    above = root / path.lstrip("/")
    while above.is_relative_to(root):
        folder = above / name
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            pass
        else:
            if not controller or _enabled(folder, controller):
                return folder
            with contextlib.suppress(OSError):
                folder.rmdir()
        above = above.parent
    return None


def _enabled(folder: Path, controller: str) -> bool:
    """Whether the groups in this folder of version 2 may have the controller, and a process of this one can enter them."""
    try:
        if controller not in (folder / "cgroup.controllers").read_text().split():
            return False
        _write(folder / "cgroup.subtree_control", f"+{controller}")
    except OSError:
        return False
    return os.access(folder.parent / "cgroup.procs", os.W_OK)


def _is_unified(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()


def _write(file: Path, value: object) -> None:
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _field(file: Path, name: str) -> int:
    """A number of a file with a name and a number on each line."""
    with contextlib.suppress(OSError):
        return _number(file.read_text(), name)
    return 0


def _number(text: str, name: str) -> int:
    """The number of the line that begins with a name; 0 without one."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


async def _remove(folder: Path) -> None:
    """Kill the processes of a group until none is left, and delete it; a killed process leaves it within milliseconds.

    Version 1 does not announce that a group is empty: it is tried again.
    """
    for _ in range(100):
        if _is_removed(folder):
            return
        await asyncio.sleep(0.001)


def _is_removed(folder: Path) -> bool:
    """Delete a group; if it has processes, kill them instead."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        with contextlib.suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        return False
    return True
