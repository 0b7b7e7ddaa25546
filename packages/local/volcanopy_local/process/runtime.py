"""How the containers of pods are run: as programs of this machine."""

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from embedded_apiserver.streams.command_streams import CommandStreams
from volcanopy.kube.client.kinds import Json
from volcanopy_local.process import exec_commands
from volcanopy_local.process.beneath import PathError, open_beneath, opened
from volcanopy_local.process.cgroups import Cgroups
from volcanopy_local.process.container_spec import DEFAULT_PATH, ContainerSpec
from volcanopy_local.process.file_view import ContainerView, MountSource, resolved
from volcanopy_local.process.folders import make_folder
from volcanopy_local.process.guardian import Guardian
from volcanopy_local.process.isolation import Isolation, Process
from volcanopy_local.process.launching import StartError
from volcanopy_local.process.limits import EnforcedLimits, described
from volcanopy_local.process.pod_events import PodEvent
from volcanopy_local.process.pod_status import place_in
from volcanopy_local.process.program_run import ProgramRun
from volcanopy_local.process.users import HOME, User, Users, current_user, login_entries

_PASSWD = "/etc/passwd"
NO_IMAGE = "none"
"""The image of containers that are meant to run programs of this machine."""


@dataclass(frozen=True)
class ContainerRequest:
    """A container of a pod: what it runs and sees, the file for its output, and a name that no other run has."""

    pod: Json
    container: Json
    spec: ContainerSpec
    placement: ContainerView
    log: Path
    name: str


@dataclass(frozen=True)
class MachineRuntime:
    """Containers are programs of this machine, and an Event names each image that is ignored, once.

    A `guardian` ends the programs if this process is killed; `cgroups` limit them. Programs are found by `search_path` unless
    the container sets PATH.
    """

    isolation: Isolation
    guardian: Guardian | None = None
    cgroups: Cgroups = field(default_factory=lambda: Cgroups({}))
    search_path: str = DEFAULT_PATH
    users: Users = field(default_factory=lambda: Users(current_user(), current_user(), maps=False))
    notes: tuple[str, ...] = ()
    """Further sentences for the user."""
    _ignored: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The name of the isolation."""
        return self.isolation.name

    @property
    def description(self) -> str:
        """What the isolation separates, and which limits are enforced."""
        return " ".join(
            (f"{self.isolation.description}.", *self.notes, described(self.cgroups), "Images are not used.")
        )

    @property
    def has_mounts(self) -> bool:
        """Whether the isolation mounts volumes."""
        return self.isolation.has_mounts

    def report_image(self, pod: Json, container: Json, report: Callable[[PodEvent], None]) -> None:
        """Report an image that is ignored, at its first use."""
        image = container.get("image") or NO_IMAGE
        if image != NO_IMAGE and image not in self._ignored:
            self._ignored.add(image)
            message = f'Image "{image}" is not used: the container runs a program of this machine'
            report(PodEvent("Warning", "ImageNotUsed", message, place_in(pod, container["name"])))

    async def start(self, request: ContainerRequest) -> ProgramRun:
        """Start the program of a container. Raises StartError."""
        spec, placement, container = request.spec, request.placement, request.container
        if not spec.argv:
            image = container.get("image", "")
            raise StartError(
                f"no command: images are not run on process nodes, and {image!r} has its command inside", 127
            )
        if not self.has_mounts and _has_ssh_keys(request.pod, container):
            raise StartError(
                f"plugin ssh needs files and names of its own, which {self.isolation.name} cannot have: install bubblewrap",
                128,
            )
        spec = self._with_path(spec)
        owner = self.owner(request.pod, container)
        for folder in (placement.temporary, placement.shared_memory):
            shutil.rmtree(folder, ignore_errors=True)
            make_folder(folder, 0o700)
            if owner is not None:
                os.chown(folder, owner.uid, owner.gid)
        tty, stdin = bool(container.get("tty")), bool(container.get("stdin"))
        _check_executable(spec, placement, self.isolation.root)
        user, limits = self._user(request), self._limits(request)
        if self.has_mounts:
            placement = _with_login(placement, user, self.isolation.root)
        try:
            command = self.isolation.command(Process(spec, placement, user, limits.groups, tty))
        except OSError as error:
            raise StartError(f"its volumes cannot be mounted: {error}", 128) from None
        return await ProgramRun.start(command, request.log, self.guardian, limits, stdin=stdin, tty=tty)

    def _user(self, request: ContainerRequest) -> User:
        return self.users.of(request.pod, request.container)

    def owner(self, pod: Json, container: Json) -> User | None:
        """The user of a container, if files must be given to it. Raises ContainerConfigError."""
        user, current = self.users.of(pod, container), self.users.current
        return None if self.users.maps or user == current else user

    def _with_path(self, spec: ContainerSpec) -> ContainerSpec:
        """The container with the search path and home folder that an image would set."""
        return replace(spec, environment={"PATH": self.search_path, "HOME": HOME, **spec.environment})

    def _limits(self, request: ContainerRequest) -> EnforcedLimits:
        try:
            return EnforcedLimits(self.cgroups, request.container, request.name)
        except OSError as error:
            raise StartError(f"its limits cannot be set: {error}", 128) from error

    async def execute(self, run: ProgramRun, request: ContainerRequest, streams: CommandStreams) -> int:
        """Run a command beside the program of a container. Raises StartError."""
        spec = self._with_path(request.spec)
        _check_executable(spec, request.placement, self.isolation.root)
        process = Process(spec, request.placement, self._user(request), run.groups, streams.tty)
        return await exec_commands.run(self.isolation.beside(run.first_pid, process), streams, self.guardian)


def _has_ssh_keys(pod: Json, container: Json) -> bool:
    """Whether plugin ssh gives the container its keys: ssh and sshd look up names, users and a home folder by themselves."""
    secrets = {
        volume["name"]: (volume.get("secret") or {}).get("items") or () for volume in pod["spec"].get("volumes") or ()
    }
    mounted = [secrets.get(mount["name"], ()) for mount in container.get("volumeMounts") or ()]
    return any(item.get("key") == "authorized_keys" for items in mounted for item in items)


def _with_login(placement: ContainerView, user: User, root: Path) -> ContainerView:
    """The placement with an /etc/passwd of its own, if the one of its files has no entry with which the user can log in."""
    path = Path(_on_machine(root, _PASSWD))
    mounted = {mount for mount in placement.mounts if mount == _PASSWD or _PASSWD.startswith(f"{mount}/")}
    if mounted or not path.is_file():
        return placement
    entries = login_entries(path.read_text(), user, lambda name: os.path.exists(_on_machine(root, name)))
    if entries is None:
        return placement
    file = placement.temporary.with_name(f"{placement.temporary.name}.passwd")
    file.write_text(entries)
    file.chmod(0o644)
    return replace(placement, mounts={**placement.mounts, _PASSWD: MountSource(file, read_only=True)})


def _check_executable(spec: ContainerSpec, placement: ContainerView, root: Path) -> None:
    """Raise StartError unless the program exists: it is searched as the container will, below the root of its files."""
    program = spec.argv[0]
    if "/" not in program:
        folders = spec.environment["PATH"].split(":")
        places = (_on_machine(root, os.path.join(folder, program)) for folder in folders if folder)
        if not any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places):
            raise StartError(f'exec: "{program}": executable file not found in $PATH', 127)
        return
    inside = os.path.join(spec.working_directory or "/", program)
    mounts = (mount for mount in sorted(placement.mounts, reverse=True) if f"{inside}/".startswith(f"{mount}/"))
    if (mount := next(mounts, None)) is None:
        _check_file(program, lambda: os.open(_on_machine(root, inside), os.O_PATH))
        return
    with contextlib.suppress(PathError), opened(placement.mounts[mount].open()) as folder:
        _check_file(program, lambda: open_beneath(folder, inside[len(mount) + 1 :]))


def _check_file(program: str, open_file: Callable[[], int]) -> None:
    """Raise StartError unless the file of a program exists and is executable."""
    try:
        with opened(open_file()) as file:
            is_executable = os.access(f"/proc/self/fd/{file}", os.X_OK)
    except (FileNotFoundError, NotADirectoryError):
        raise StartError(f'exec: "{program}": stat {program}: no such file or directory', 127) from None
    except PermissionError:
        is_executable = False
    if not is_executable:
        raise StartError(f'exec: "{program}": permission denied', 126)


def _on_machine(root: Path, path: str) -> str:
    return str(root / resolved(root, path).lstrip("/"))
