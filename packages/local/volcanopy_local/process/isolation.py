"""How containers are kept apart from this machine and from each other: three steps, the strongest first.

All of them use the network of the machine.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from volcanopy_local.process.beneath import open_beneath, open_source, opened
from volcanopy_local.process.container_spec import ContainerSpec
from volcanopy_local.process.file_view import ContainerView, FileView, Operation
from volcanopy_local.process.users import HOME, User, current_user

INPUT, INFO = "<descriptor of the input>", "<descriptor of the info>"
"""Arguments of a command that stand for the numbers of its descriptors."""


@dataclass(frozen=True)
class Command:
    """A program to start in an empty environment: its arguments, and what it reads from the descriptor :data:`INPUT`.

    To the descriptor :data:`INFO` it reports the pid of the container's first process (`child-pid`), or an `error` and its exit
    `code`, as JSON. It ends with this process.
    """

    argv: tuple[str, ...]
    input: bytes
    takes_terminal: bool = False
    """Whether its terminal must become the one that controls its session; otherwise it sees to that."""
    descriptors: tuple[int, ...] = ()
    """Further descriptors that it gets under their numbers; they are closed when it has started."""


@dataclass(frozen=True)
class Process:
    """What runs in a container: its specification and surroundings, its user, and the control groups that it joins."""

    spec: ContainerSpec
    placement: ContainerView
    user: User
    groups: tuple[str, ...] = ()
    tty: bool = False
    """Whether its standard input is a terminal that controls it."""


class Isolation(Protocol):
    """A way to run containers."""

    name: str
    has_mounts: bool
    """Whether programs find volumes and names of pods at their paths and in /etc/hosts."""
    description: str
    """What a program sees and may write, for the user, after the subject."""

    @property
    def root(self) -> Path:
        """The folder of this machine that is `/` in a container."""

    def command(self, process: Process) -> Command:
        """The program that runs the container."""

    def beside(self, first_pid: int, process: Process) -> Command:
        """The program that runs the command of `process` in the container whose first process is given."""


def _launch(process: Process, **settings: object) -> Command:
    """The launcher for a program."""
    launch: dict[str, object] = {
        "argv": process.spec.argv,
        "environment": dict(process.spec.environment),
        "directory": process.spec.working_directory or "/",
        "groups": process.groups,
        "uid": process.user.uid,
        "gid": process.user.gid,
        "privileged": process.user.is_privileged,
        "terminal": process.tty,
        "namespaces": False,
        "enter": 0,
        "parent": os.getpid(),
    }
    argv = (sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py")), INPUT, INFO)
    return Command(argv, json.dumps(launch | settings).encode())


def _seen(view: FileView, user: User) -> str:
    """What a program sees and may write with mounts of its own."""
    files = "this machine" if view.root == Path("/") else str(view.root)
    summary = "each container has its own processes, /tmp and /etc/hosts"
    if user.is_privileged:
        return f"{summary}, but programs run as root with all privileges and can read and change everything on this machine"
    return (
        f"{summary}; programs run as {user.text} without privileges, read the files of {files} that this user can read, "
        "and write only to their volumes, /tmp, /dev/shm and devices of this user; the network is the machine's"
    )


class _OwnFiles:
    """A container with files, processes and names of its own."""

    has_mounts = True

    def __init__(self, view: FileView, user: User) -> None:
        self._view = view
        self.description = _seen(view, user)

    @property
    def root(self) -> Path:
        """The folder of this machine that is `/` in a container."""
        return self._view.root

    def beside(self, first_pid: int, process: Process) -> Command:
        """The launcher, which enters the name spaces of the container."""
        return _launch(process, enter=first_pid)


class Bubblewrap(_OwnFiles):
    """Own mount, process, host and IPC name spaces by bubblewrap, for users without privileges."""

    name = "bubblewrap"

    def __init__(self, program: str, view: FileView, user: User) -> None:
        super().__init__(view, user)
        self._program = program

    def command(self, process: Process) -> Command:
        """bubblewrap with its options in a file, because others can see command lines. Raises PathError, OSError."""
        spec, placement = process.spec, process.placement
        _make_mount_points(placement)
        directory = spec.working_directory.rstrip("/") or "/"
        descriptors: list[int] = []
        options: list[Operation] = [
            ("die-with-parent",),
            *((f"unshare-{space}",) for space in ("pid", "ipc", "uts")),
            ("hostname", placement.hostname),
            *_user_options(process.user),
            *(_by_descriptor(operation, descriptors) for operation in self._view.operations(placement, directory)),
            ("chdir", directory),
            *(("setenv", name, value) for name, value in spec.environment.items()),
        ]
        arguments = [text for name, *values in options for text in (f"--{name}", *values)]
        # A session within the process name space gives a shell job control.
        session = (
            ("setsid", "--ctty") if process.tty and os.path.isfile(self._view.on_machine("/usr/bin/setsid")) else ()
        )
        start = (self._program, "--info-fd", INFO, "--args", INPUT, "--", *session, *spec.argv)
        text = "".join(f"{argument}\0" for argument in arguments)
        return Command(_joining(process.groups) + start, os.fsencode(text), not session, tuple(descriptors))


def _by_descriptor(operation: Operation, descriptors: list[int]) -> Operation:
    """The operation, for a volume with a descriptor of its source, which is added to the others."""
    if len(operation) < 4:
        return operation
    descriptors.append(open_source(operation[1], operation[2]))
    return (f"{operation[0]}-fd", str(descriptors[-1]), operation[3])


def _make_mount_points(placement: ContainerView) -> None:
    """Make the mount points that are within other volumes, which bubblewrap would make wherever links lead."""
    for path, source in placement.mounts.items():
        for above, volume in placement.mounts.items():
            if path.startswith(f"{above}/") and not volume.read_only:
                with opened(source.open()) as descriptor, opened(volume.open()) as root:
                    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
                    os.close(open_beneath(root, path[len(above) + 1 :], mode=0o755, is_folder=is_folder))


def _user_options(user: User) -> list[Operation]:
    current = current_user()
    if user == current:
        return []
    return [("unshare-user",), ("uid", str(user.uid)), ("gid", str(user.gid))]


def _joining(groups: tuple[str, ...]) -> tuple[str, ...]:
    """The beginning of a command line that enters control groups and goes on with the rest of it."""
    if not groups:
        return ()
    script = "".join(f'echo 0 > "${number}" && ' for number in range(1, len(groups) + 1))
    return ("/bin/sh", "-c", f'{script}shift {len(groups)} && exec "$@"', "sh", *groups)


class Namespaces(_OwnFiles):
    """The same name spaces by the kernel's own calls; also for root, whose programs run as another user."""

    name = "namespaces of the kernel"

    def command(self, process: Process) -> Command:
        """The launcher with name spaces; with one of users unless this is root."""
        directory = process.spec.working_directory.rstrip("/") or "/"
        placement = process.placement
        return _launch(
            process,
            namespaces=True,
            operations=self._view.operations(placement, directory),
            hostname=placement.hostname,
        )


class PlainProcesses:
    """No files of its own: paths of mounts and names of pods are replaced in command, arguments and environment."""

    name = "plain processes"
    has_mounts = False
    root = Path("/")

    def __init__(self, user: User) -> None:
        self.description = (
            f"programs run as {user.text} and can read and write everything on this machine that this user can, also the files, "
            "the environment and the secrets of other pods, and can end their programs; paths of volumes and names of pods are "
            "replaced in command, arguments, environment and files of volumes"
        )

    def command(self, process: Process) -> Command:
        """The launcher without name spaces."""
        placement = process.placement
        folders = {path: str(source.path()) for path, source in placement.mounts.items()}

        def replaced(text: str) -> str:
            return placement.names(replaced_paths(text, folders))

        spec = process.spec
        temporary = str(placement.temporary)
        environment = {"TMPDIR": temporary, **spec.environment}
        if environment.get("HOME") == HOME:
            environment["HOME"] = temporary
        spec = ContainerSpec(
            spec.name,
            tuple(map(replaced, spec.command)),
            tuple(map(replaced, spec.arguments)),
            {name: replaced(value) for name, value in environment.items()},
            replaced_paths(spec.working_directory, folders) or str(placement.temporary),
            (),
        )
        return _launch(Process(spec, placement, process.user, process.groups, process.tty))

    def beside(self, first_pid: int, process: Process) -> Command:
        """The program itself: there is nothing to enter."""
        return self.command(process)


def replaced_paths(text: str, folders: Mapping[str, str]) -> str:
    """The text with every mount path replaced by its folder, where the path ends or goes on with `/`."""
    if not folders:
        return text
    paths = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
    return re.sub(rf"(?<![\w./-])(?:{paths})(?![\w.-])", lambda match: folders[match[0]], text)
