"""The process nodes of an embedded cluster: how many there are, where their pods keep files, and what runs containers."""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from volcanopy.api.quantity import counted
from volcanopy.cli.errors import CommandError
from volcanopy.cli.local_cluster.options import Isolation
from volcanopy.local.engine.runtime import EngineRuntime
from volcanopy.local.engine.start import NoEngineError, engine
from volcanopy.local.process.cgroups import writable
from volcanopy.local.process.container_spec import DEFAULT_PATH
from volcanopy.local.process.guardian import Guardian
from volcanopy.local.process.isolation import Bubblewrap, PlainProcesses, strongest
from volcanopy.local.process.kubelet import ProcessKubelet, ProcessSettings
from volcanopy.local.process.runtime import MachineRuntime, Runtime

FALLBACK = 3
"""Simulated nodes for root, whose pods run no programs unless that is allowed."""
_NAMED = 5
"""Pods that a line names."""
_ROOT = Path("/")
_CREDENTIALS = Path.home() / ".docker" / "config.json"


@dataclass(frozen=True)
class Size:
    """The nodes of a cluster: how many are simulated, and how many run processes, and how these run containers."""

    simulated: int
    process: int = 0
    isolation: Isolation = Isolation.machine
    root: Path = _ROOT
    """The folder with the files that programs see."""


def size_of(
    nodes: int | None,
    simulate: int | None,
    *,
    from_file: bool,
    allow_root: bool,
    isolation: Isolation = Isolation.machine,
    rootfs: Path | None = None,
) -> Size:
    """Return the nodes that options request; ``from_file`` if Node manifests are given.

    By default one node runs processes. Programs do not run as root unless ``allow_root``: by default simulated nodes replace
    the node then, which is printed. Raises CommandError if root requests process nodes, and for options that exclude each other.
    """
    if rootfs is not None and isolation in {Isolation.engine, Isolation.plain}:
        raise CommandError(f"--rootfs: not with --isolation {isolation}: it needs bubblewrap", 2)
    root = _ROOT if rootfs is None else rootfs.absolute()
    process = nodes if nodes is not None else int(simulate is None and not from_file)
    if process == 0 or allow_root or os.geteuid() != 0:
        return Size(simulate or 0, process, Isolation.machine if rootfs is not None else isolation, root)
    if nodes is not None:
        raise CommandError("--nodes: pods would run as root: use another user, or specify --allow-root", 2)
    print(
        f"You are root: {FALLBACK} simulated nodes, which run no programs, replace the process node. "
        "To run programs, use another user, or specify --allow-root.",
        flush=True,
    )
    return Size(FALLBACK)


@asynccontextmanager
async def process_settings(persist: Path | None, size: Size) -> AsyncIterator[ProcessSettings | None]:
    """Return where pods of process nodes keep files, and what runs their containers.

    The files are beside the file of a persistent cluster, else in a folder that is deleted. Raises CommandError.
    """
    if not size.process:
        yield None
        return
    cgroups = writable()
    folder, claims = _folders(persist)
    guardian = Guardian(folder if persist is None else None, cgroups.folders)
    try:
        async with AsyncExitStack() as stack:
            machine = MachineRuntime(_isolation(size), guardian, cgroups, _search_path(size))
            yield ProcessSettings(folder, claims, await _runtime(size.isolation, machine, guardian, stack))
    finally:
        await cgroups.remove()
        guardian.close()


def _folders(persist: Path | None) -> tuple[Path, Path]:
    """Return the folder for pods, which exists, and the one for claims."""
    if persist is None:
        folder = Path(tempfile.mkdtemp(prefix="volcanopy-"))
        return folder, folder / "claims"
    folder, claims = (persist.absolute().with_name(f"{persist.name}.{part}") for part in ("pods", "claims"))
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder, claims


def _search_path(size: Size) -> str:
    """Return where programs are found: as for this user, and then as in an image; only the latter below another root."""
    if size.root != _ROOT:
        return DEFAULT_PATH
    folders = [folder for folder in os.environ.get("PATH", "").split(":") if folder.startswith("/")]
    return ":".join(dict.fromkeys((*folders, *DEFAULT_PATH.split(":"))))


def _isolation(size: Size) -> Bubblewrap | PlainProcesses:
    if size.isolation is Isolation.plain:
        return PlainProcesses()
    isolation = strongest(size.root)
    if isolation.root != size.root:
        raise CommandError("--rootfs: needs bubblewrap, which is not installed, or which this user may not use")
    return isolation


async def _runtime(isolation: Isolation, machine: MachineRuntime, guardian: Guardian, stack: AsyncExitStack) -> Runtime:
    """The container engine if it is requested, or for `auto` if there is one that works; else programs of this machine."""
    if isolation in {Isolation.machine, Isolation.plain}:
        return machine
    try:
        started = await stack.enter_async_context(engine(guardian))
    except NoEngineError as reason:
        if isolation is Isolation.engine:
            raise CommandError(f"--isolation engine: {reason}") from None
        if reason.is_installed:
            print(f"Images are not used: {reason}", flush=True)
        return machine
    return EngineRuntime(started, machine, _CREDENTIALS)


def facts_of(kubelet: ProcessKubelet | None) -> list[str]:
    """Return what the user of process nodes must know, as lines; none without such nodes."""
    if kubelet is None:
        return []
    return [
        f"Process nodes use {kubelet.runtime.name}: {kubelet.runtime.description}",
        "They run programs with your rights: this is no security boundary.",
        *_lost(kubelet.lost),
    ]


def _lost(pods: list[str]) -> list[str]:
    """Return a line about the pods whose programs ended with the cluster before."""
    if not pods:
        return []
    names = ", ".join(sorted(pods)[:_NAMED]) + (", ..." if len(pods) > _NAMED else "")
    what = f"programs of {counted(len(pods), 'pod')}"
    return [
        f"The {what} ended with the cluster before; jobs create their pods again, other pods follow their restartPolicy: {names}"
    ]
