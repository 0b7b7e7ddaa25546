"""The process nodes of an embedded cluster: how many there are, where their pods keep files, and what runs containers."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import volcanopy
from volcanopy.api.quantity import counted
from volcanopy.client.errors import CommandError
from volcanopy_local.cli.options import Isolation, NodeOptions
from volcanopy_local.process.cgroups import writable
from volcanopy_local.process.container_spec import DEFAULT_PATH
from volcanopy_local.process.file_view import FileView, closed_folders
from volcanopy_local.process.guardian import Guardian
from volcanopy_local.process.kubelet import ProcessKubelet, ProcessSettings
from volcanopy_local.process.runtime import MachineRuntime
from volcanopy_local.process.steps import BUBBLEWRAP, PLAIN, STEPS, choose
from volcanopy_local.process.users import User, Users, current_user, user_of_programs

_NAMED = 5
"""Pods that a line names."""
_ROOT = Path("/")


@dataclass(frozen=True)
class Size:
    """The nodes of a cluster: how many are simulated, and how many run processes, and how these run containers."""

    simulated: int
    process: int = 0
    isolation: Isolation = Isolation.machine
    root: Path = _ROOT
    """The folder with the files that programs see."""
    run_as_root: bool = False


def size_of(options: NodeOptions) -> Size:
    """Return the nodes that options request, by default one that runs processes.

    Raises CommandError for options that exclude each other.
    """
    isolation, rootfs, run_as_root = options.isolation, options.rootfs, options.run_as_root
    if rootfs is not None and isolation is Isolation.plain:
        raise CommandError(f"--rootfs: not with --isolation {isolation}: use bubblewrap, namespaces or machine", 2)
    if run_as_root and os.geteuid() != 0:
        raise CommandError("--run-as-root: only for root: without it, programs run as you", 2)
    default = int(options.simulate is None and options.cluster is None)
    process = default if options.nodes is None else options.nodes
    return Size(options.simulate or 0, process, isolation, (rootfs or _ROOT).absolute(), run_as_root)


@asynccontextmanager
async def process_settings(
    persist: Path | None, size: Size, hidden: Sequence[Path] = ()
) -> AsyncIterator[ProcessSettings | None]:
    """Return where pods of process nodes keep files, and what runs their containers, which cannot read the files of `hidden`.

    The files are beside the file of a persistent cluster, else in a folder that is deleted. Raises CommandError.
    """
    if not size.process:
        yield None
        return
    cgroups = writable()
    temporary = Path(tempfile.mkdtemp(prefix="volcanopy-"))
    folder, claims = (temporary, temporary / "claims") if persist is None else _folders(persist)
    guardian = Guardian(temporary, cgroups.folders)
    try:
        own = [path for path in (temporary, folder, claims, persist, *hidden) if path is not None]
        machine = replace(_machine(size, tuple(path.absolute() for path in own)), guardian=guardian, cgroups=cgroups)
        if not machine.has_mounts:
            _open_folders({folder, temporary}, machine.users)
        yield ProcessSettings(folder, claims, machine, temporary=temporary / "tmp")
    finally:
        await cgroups.remove()
        guardian.close()


def _open_folders(folders: Iterable[Path], users: Users) -> None:
    """Let plain processes of another user reach the files of their pods. Raises CommandError."""
    if users.default == users.current:
        return
    for folder in folders:
        if closed := closed_folders([folder], users.default):
            raise CommandError(
                f"{folder}: {users.default.text}, as which programs of pods run, cannot enter {closed[0]}: use another folder"
            )
        folder.chmod(0o711)


def _folders(persist: Path) -> tuple[Path, Path]:
    """Return the folder for pods, which exists, and the one for claims, beside the file of a persistent cluster."""
    folder, claims = (persist.absolute().with_name(f"{persist.name}.{part}") for part in ("pods", "claims"))
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder, claims


def _machine(size: Size, hidden: tuple[Path, ...]) -> MachineRuntime:
    """What runs programs of this machine, and as whom. Raises CommandError if the requested isolation does not work here."""
    current = current_user()
    source = Path(volcanopy.__file__).parents[1]
    user = current if size.run_as_root else user_of_programs((source, Path.cwd()), os.environ, current)
    trees = () if user == current else _trees(source)
    closed = tuple(closed_folders(trees, user))
    choice = choose(_steps(size), FileView(size.root, hidden, closed, trees), user)
    isolation = choice.isolation
    if isolation is None:
        if size.isolation is Isolation.machine and size.root == _ROOT:
            raise CommandError(
                f"programs of pods cannot run as {user.text} here: {choice.reasons}; "
                "use --run-as-root, or --simulate for nodes that run no programs"
            )
        option = "--rootfs" if size.isolation is Isolation.machine else f"--isolation {size.isolation}"
        raise CommandError(f"{option}: does not work here: {choice.reasons}")
    readable = trees if isolation.has_mounts else ()
    folders = _search_path(size, lambda folder: user == current or _can_read(user, folder, readable))
    notes = [f"Stronger isolation is not used: {choice.reasons}."] if choice.rejections else []
    if hidden_trees := [str(tree) for tree in trees if not _can_read(user, tree, readable)]:
        notes.append(
            f"Programs cannot read {' and '.join(hidden_trees)}: the folders or those above them are closed to {user.text}."
        )
    maps = isolation.has_mounts and current.uid != 0
    return MachineRuntime(
        isolation, users=Users(user, current, maps), search_path=":".join(folders), notes=tuple(notes)
    )


def _steps(size: Size) -> tuple[str, ...]:
    """Return the steps of isolation that are tried."""
    if size.isolation.value in STEPS:
        return (size.isolation.value,)
    # The calls of the kernel that bubblewrap needs are allowed to root.
    return tuple(
        step
        for step in STEPS
        if not (step == BUBBLEWRAP and os.geteuid() == 0) and not (step == PLAIN and size.root != _ROOT)
    )


def _trees(source: Path) -> tuple[Path, ...]:
    """Return the folders of this Python and of volcanopy, which programs can read."""
    folders = (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent, source)
    paths = sorted({path for folder in folders for path in (folder.absolute(), folder.resolve())})
    return tuple(path for path in paths if not any(path.is_relative_to(other) for other in paths if other != path))


def _can_read(user: User, folder: Path, trees: tuple[Path, ...]) -> bool:
    """Whether a user can enter a folder and those above it, which trees are without."""
    if not folder.is_dir() or not user.can_enter(folder):
        return False
    return any(folder.is_relative_to(tree) for tree in trees) or not closed_folders([folder], user)


def _search_path(size: Size, is_readable: Callable[[Path], bool]) -> list[str]:
    """Return where programs are found: as for this user, then as in an image, last the Python of this program.

    Below another root as in an image only.
    """
    if size.root != _ROOT:
        return DEFAULT_PATH.split(":")
    folders = [*os.environ.get("PATH", "").split(":"), *DEFAULT_PATH.split(":"), str(Path(sys.executable).parent)]
    return [
        folder
        for folder in dict.fromkeys(folders)
        if folder in DEFAULT_PATH.split(":") or (folder.startswith("/") and is_readable(Path(folder)))
    ]


def facts_of(kubelet: ProcessKubelet | None) -> list[str]:
    """Return what the user of process nodes must know, as lines; none without such nodes."""
    if kubelet is None:
        return []
    return [
        f"Process nodes use {kubelet.runtime.name}: {kubelet.runtime.description}",
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
