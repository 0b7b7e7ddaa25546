"""How a container is kept apart from this machine: the strongest way that is available.

Neither is a security boundary: containers run as the user who started the cluster, in the network of this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from volcanopy.local.process.container_spec import ContainerSpec


@dataclass(frozen=True)
class Placement:
    """What a container sees beside the machine: its mounts by path, private folder for /tmp, hosts file and host name."""

    mounts: Mapping[str, tuple[Path, bool]]
    temporary: Path
    hosts: Path
    hostname: str


@dataclass(frozen=True)
class Command:
    """A program to start: its arguments, environment and working directory on this machine."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str
    info_option: str = ""
    """The option of a program that reports the pid of the container's first process, as JSON, to a file descriptor."""
    takes_terminal: bool = False
    """Whether its terminal must become the one that controls its session; otherwise it sees to that."""
    prefix: tuple[str, ...] = ()
    """The beginning of a command line that prepares its process and goes on with `argv`."""
    dies_with_parent: bool = False
    """Whether the program ends with this process by itself; otherwise the kernel is asked to kill it then."""


_LONGEST_PATH = 200
"""Steps after which a path with links is taken for a circle."""
_SESSION = ("setsid", "--ctty")
"""Begins a session within the process name space, so that a shell has job control."""


class Isolation(Protocol):
    """A way to run containers."""

    name: str
    has_mounts: bool
    """Whether programs find volumes at their paths."""
    description: str
    """One sentence for the user: what a container sees of the machine."""
    root: Path
    """The folder of this machine that is `/` in a container."""

    def command(self, spec: ContainerSpec, placement: Placement, *, tty: bool = False) -> Command:
        """The program that runs the container. With `tty` the standard input is a terminal that controls it."""

    def beside(self, first_pid: int, spec: ContainerSpec, placement: Placement, *, tty: bool) -> Command:
        """The program that runs the command of `spec` in the container whose first process is given.

        With `tty` the standard input is a terminal that controls the command.
        """


class Bubblewrap:
    """Own mount, process and host name spaces by bubblewrap: the files of `root` read-only, volumes at their paths."""

    name = "bubblewrap"
    has_mounts = True

    def __init__(self, program: str, root: Path = Path("/")) -> None:
        self._program, self.root = program, root
        files = "this machine" if root == Path("/") else str(root)
        self.description = (
            f"each container has its own processes, /tmp and /etc/hosts and sees the files of {files} read-only; "
            "the network is that of the machine"
        )

    def command(self, spec: ContainerSpec, placement: Placement, *, tty: bool = False) -> Command:
        """bubblewrap with the arguments for the mounts."""
        mounts = {resolved(self.root, path): mount for path, mount in placement.mounts.items()}
        mounts["/etc/hosts"] = (placement.hosts, True)
        mounts.setdefault("/tmp", (placement.temporary, False))
        arguments = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
        directory = spec.working_directory.rstrip("/") or "/"
        made = (*mounts, "/dev", "/proc", *([directory] if directory != "/" else ()))
        root = root_arguments(made, self._entries, self._exists, str(self.root).rstrip("/"))
        arguments += ["--hostname", placement.hostname, *root]
        for path, (source, read_only) in sorted(mounts.items()):
            arguments += ["--ro-bind" if read_only else "--bind", str(source), path]
        arguments += ["--dev-bind", "/dev", "/dev", "--proc", "/proc"]
        if not self._exists(directory):
            arguments += ["--dir", directory]
        arguments += ["--chdir", directory]
        argv = (*self._session(tty), *spec.argv)
        return Command(
            (self._program, *arguments, "--", *argv),
            spec.environment,
            "/",
            "--info-fd",
            takes_terminal=not self._session(tty),
            dies_with_parent=True,
        )

    def beside(self, first_pid: int, spec: ContainerSpec, placement: Placement, *, tty: bool) -> Command:
        """The command, entered into the name spaces of the container."""
        users = ("--user", "--preserve-credentials") if _has_own_users(first_pid) else ()
        enter = ("nsenter", "--target", str(first_pid), *users, "--mount", "--uts", "--ipc", "--pid", "--wd")
        argv = (*self._session(tty), *spec.argv)
        return Command((*enter, "--", *argv), spec.environment, "/", takes_terminal=not self._session(tty))

    def _session(self, tty: bool) -> tuple[str, ...]:
        """The beginning of a command with a terminal; empty where the files of containers have no such program."""
        return _SESSION if tty and self._exists("/usr/bin/setsid") and not self._is_link("/usr/bin/setsid") else ()

    def _exists(self, path: str) -> bool:
        return os.path.lexists(self._of_machine(path))

    def _is_link(self, path: str) -> bool:
        return os.path.islink(self._of_machine(path))

    def _entries(self, folder: str) -> Iterator[tuple[str, str | None]]:
        for entry in sorted(os.scandir(self._of_machine(folder)), key=lambda entry: entry.name):
            yield entry.name, os.readlink(entry.path) if entry.is_symlink() else None

    def _of_machine(self, path: str) -> str:
        """The path on this machine of a path in a container without mounts."""
        return str(self.root / path.lstrip("/"))


def _has_own_users(pid: int) -> bool:
    """Whether a process has a user name space of its own, as bubblewrap makes one for users without privileges."""
    return os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino


class PlainProcesses:
    """No isolation: paths of mounts are replaced in command, arguments and environment by where the volumes are."""

    name = "plain processes"
    has_mounts = False
    root = Path("/")
    description = (
        "containers are ordinary processes of this machine without files of their own: names of pods are not resolved, and "
        "paths of volumes are replaced in command, arguments and environment only; install bubblewrap for mounts and names"
    )

    def command(self, spec: ContainerSpec, placement: Placement, *, tty: bool = False) -> Command:
        """The command itself."""
        folders = {path: str(source) for path, (source, _) in placement.mounts.items()}
        argv = tuple(replaced_paths(argument, folders) for argument in spec.argv)
        environment = {name: replaced_paths(value, folders) for name, value in spec.environment.items()}
        environment.setdefault("TMPDIR", str(placement.temporary))
        directory = replaced_paths(spec.working_directory, folders) or str(placement.temporary)
        return Command(argv, environment, directory, takes_terminal=tty)

    def beside(self, first_pid: int, spec: ContainerSpec, placement: Placement, *, tty: bool) -> Command:
        """The command itself: there is nothing to enter."""
        return self.command(spec, placement, tty=tty)


def replaced_paths(text: str, folders: Mapping[str, str]) -> str:
    """The text with every mount path replaced by its folder, where the path ends or goes on with `/`."""
    result, position = "", 0
    paths = sorted(folders, key=len, reverse=True)
    while position < len(text):
        path = next(
            (path for path in paths if text.startswith(path, position) and _is_whole(text, position, path)), None
        )
        if path is None:
            result += text[position]
            position += 1
        else:
            result += folders[path]
            position += len(path)
    return result


def _is_whole(text: str, position: int, path: str) -> bool:
    """Whether the path at this position is neither the end of a longer path nor the beginning of a longer name."""
    before, after = text[:position][-1:], text[position + len(path) :][:1]
    return not _in_name(before) and before != "/" and not _in_name(after)


def _in_name(character: str) -> bool:
    return character.isalnum() or character in {"-", "_", "."}


def root_arguments(
    paths: Iterable[str],
    entries: Callable[[str], Iterable[tuple[str, str | None]]],
    exists: Callable[[str], bool],
    root: str = "",
) -> list[str]:
    """The bubblewrap arguments for a read-only view of the folder `root` in which the mount points `paths` can be made.

    The deepest existing folder above a missing mount point becomes a tmpfs with its entries bound into it again. `entries` gives
    name and link target (None for what is no link) of the entries of a folder of the container, `exists` whether it has a path.
    """
    targets = sorted(paths)
    outermost = [path for path in targets if not any(path.startswith(other + "/") for other in targets)]
    folders = sorted({_nearest(path, exists) for path in outermost if not exists(path)})
    # The root of bubblewrap is a tmpfs unless something is mounted there.
    arguments = [] if "/" in folders else ["--ro-bind", root or "/", "/"]
    for folder in folders:
        arguments += ["--tmpfs", folder] if folder != "/" else []
        for name, target in entries(folder):
            path = f"{folder.rstrip('/')}/{name}"
            # Entries of folders like /run come and go.
            arguments += ["--symlink", target, path] if target is not None else ["--ro-bind-try", root + path, path]
    return arguments


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


def strongest(root: Path = Path("/")) -> Bubblewrap | PlainProcesses:
    """bubblewrap where it is installed with nsenter and this user may use it, else plain processes, which have no `root`."""
    program = shutil.which("bwrap")
    if program is not None and shutil.which("nsenter") is not None and _works(program):
        return Bubblewrap(program, root)
    return PlainProcesses()


def _works(program: str) -> bool:
    command = [program, "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
