"""What containers see of the files of this machine, as operations that bubblewrap and the launcher carry out. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from volcanopy_local.process.beneath import PathError, open_source, opened, real_path
from volcanopy_local.process.users import User

Operation = tuple[str, ...]
"""An option of bubblewrap without its dashes, and its arguments: `("ro-bind", source, path)`.

For a volume the source has two arguments, `("bind", folder, path in the folder, path)`: others change what is below its folder.
"""
_LONGEST_PATH = 200
"""Steps after which a path with links is taken for a circle."""


@dataclass(frozen=True)
class MountSource:
    """What is mounted: the path `inside` of a folder, whose own path has no symbolic links."""

    folder: Path
    read_only: bool = False
    inside: str = ""
    of_machine: bool = False
    """Whether the pod names the folder, which may contain files of the cluster."""

    def open(self) -> int:
        """A descriptor of it. Raises PathError for a path that leads out of the folder, OSError."""
        return open_source(str(self.folder), self.inside)

    def path(self) -> Path:
        """Its path at this moment, for a program that is not privileged. Raises PathError, OSError."""
        with opened(self.open()) as descriptor:
            return Path(real_path(descriptor))


@dataclass(frozen=True)
class ContainerView:
    """What a container sees beside the machine: its mounts by path, private folder for /tmp, hosts file and host name."""

    mounts: Mapping[str, MountSource]
    temporary: Path
    hosts: Path
    hostname: str
    names: Callable[[str], str] = str
    """Replaces names of pods and Services in a text by their addresses, for programs without a hosts file of their own."""

    @property
    def shared_memory(self) -> Path:
        """The private folder for /dev/shm."""
        return self.temporary.with_name(f"{self.temporary.name}.shm")


@dataclass(frozen=True)
class FileView:
    """The files of `root`, read-only, without what is `hidden`; folders of `trees` are seen although `closed` ones are above."""

    root: Path = Path("/")
    hidden: tuple[Path, ...] = ()
    """Files and folders of this cluster that no program may read."""
    closed: tuple[Path, ...] = ()
    """Folders that the user of programs cannot enter: they are empty but for `trees`."""
    trees: tuple[Path, ...] = ()

    def operations(self, placement: ContainerView, directory: str) -> list[Operation]:
        """The operations for a container that begins in a directory, which is made if it is missing. Raises PathError."""
        mounts = {resolved(self.root, path): mount for path, mount in placement.mounts.items()}
        mounts["/etc/hosts"] = MountSource(Path(os.path.realpath(placement.hosts)), read_only=True)
        mounts.setdefault("/tmp", MountSource(Path(os.path.realpath(placement.temporary))))
        points = (*mounts, "/dev", "/proc", *([directory] if directory != "/" else ()))
        operations = root_operations(points, self._entries, self._exists, str(self.root).rstrip("/"))
        operations += self._covers()
        if os.path.isdir("/dev/shm"):
            mounts.setdefault("/dev/shm", MountSource(Path(os.path.realpath(placement.shared_memory))))
        folders = [operation[1] for operation in operations if operation[0] == "tmpfs"]
        operations += [("dev-bind", "/dev", "/dev"), ("proc", "/proc")]
        for path, source in sorted(mounts.items()):
            operations.append(("ro-bind" if source.read_only else "bind", str(source.folder), source.inside, path))
            if source.of_machine:
                operations += self._covers_in(source, path)
        if self.root == Path("/"):
            operations += [("ro-bind", str(tree), str(tree)) for tree in self.trees if tree.is_relative_to("/tmp")]
        if not self._exists(directory) and not any(directory.startswith(f"{path}/") for path in mounts):
            operations.append(("dir", directory))
        folders += [] if operations[0][-1] == "/" else ["/"]
        return operations + [("remount-ro", folder) for folder in folders if folder not in mounts]

    def _covers(self) -> Iterator[Operation]:
        """Hide what programs must not see, and show the trees in it."""
        if self.root != Path("/"):
            return
        for folder in self.closed:
            if not folder.is_relative_to("/tmp"):  # which is another folder in a container
                yield ("tmpfs", str(folder))
        for tree in self.trees:
            if not tree.is_relative_to("/tmp") and any(tree.is_relative_to(folder) for folder in self.closed):
                yield ("ro-bind", str(tree), str(tree))
        for path in self.hidden:
            if path.is_relative_to("/tmp") or any(path.is_relative_to(folder) for folder in self.closed):
                continue
            if path.is_dir():
                yield ("tmpfs", str(path))
            elif path.exists():
                yield ("ro-bind", "/dev/null", str(path))

    def _covers_in(self, source: MountSource, path: str) -> Iterator[Operation]:
        """Hide what programs must not see in a mounted folder of the machine. Raises PathError for what is all hidden."""
        mounted = source.path()
        for hidden in map(Path, map(os.path.realpath, self.hidden)):
            if mounted.is_relative_to(hidden):
                raise PathError(f"hostPath {mounted}: it belongs to the cluster itself")
            if hidden.is_relative_to(mounted) and hidden.exists():
                target = f"{path}/{hidden.relative_to(mounted)}"
                yield ("tmpfs", target) if hidden.is_dir() else ("ro-bind", "/dev/null", target)

    def _exists(self, path: str) -> bool:
        if self.root == Path("/") and any(
            Path(path) != folder and Path(path).is_relative_to(folder) for folder in self.closed
        ):
            # The folder is writable while the mount points are made.
            return True
        return os.path.lexists(self.on_machine(path))

    def _entries(self, folder: str) -> Iterator[tuple[str, str | None]]:
        for entry in sorted(os.scandir(self.on_machine(folder)), key=lambda entry: entry.name):
            yield entry.name, os.readlink(entry.path) if entry.is_symlink() else None

    def on_machine(self, path: str) -> str:
        """The path on this machine of a path in a container without mounts."""
        return str(self.root / path.lstrip("/"))


def closed_folders(trees: Iterable[Path], user: User) -> list[Path]:
    """The outermost folders above the trees that a user cannot enter."""
    closed: set[Path] = set()
    for tree in trees:
        closed |= set([folder for folder in reversed(tree.parents) if not user.can_enter(folder)][:1])
    return sorted(closed)


def root_operations(
    paths: Iterable[str],
    entries: Callable[[str], Iterable[tuple[str, str | None]]],
    exists: Callable[[str], bool],
    root: str = "",
) -> list[Operation]:
    """The operations for a read-only view of the folder `root` in which the mount points `paths` can be made.

    The deepest existing folder above a missing mount point becomes a tmpfs with its entries bound into it again. `entries` gives
    name and link target (None for what is no link) of the entries of a folder of the container, `exists` whether it has a path.
    """
    targets = sorted(paths)
    outermost = [path for path in targets if not any(path.startswith(parent + "/") for parent in targets)]
    folders = sorted({_nearest(path, exists) for path in outermost if not exists(path)})
    # The root of the operations is a tmpfs unless something is mounted there.
    operations: list[Operation] = [] if "/" in folders else [("ro-bind", root or "/", "/")]
    for folder in folders:
        operations += [("tmpfs", folder)] if folder != "/" else []
        for name, target in entries(folder):
            path = f"{folder.rstrip('/')}/{name}"
            # Entries of folders like /run come and go.
            operations.append(("symlink", target, path) if target is not None else ("ro-bind-try", root + path, path))
    return operations


def _nearest(path: str, exists: Callable[[str], bool]) -> str:
    folder = os.path.dirname(path.rstrip("/"))
    while not exists(folder):
        folder = os.path.dirname(folder)
    return folder


def resolved(root: Path, path: str) -> str:
    """The path without links of a path in a container whose files are those of `root`; links lead to files below `root` too."""
    waiting, reached = path.split("/")[::-1], "/"
    for _ in range(_LONGEST_PATH):
        if not waiting:
            break
        step = os.path.normpath(os.path.join(reached, waiting.pop()))
        inside = str(root / step.lstrip("/"))
        if os.path.islink(inside):
            target = os.readlink(inside)
            waiting += target.split("/")[::-1]
            reached = "/" if target.startswith("/") else reached
        else:
            reached = step
    return reached
