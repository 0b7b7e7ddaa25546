"""As whom the programs of pods run."""

import grp
import os
import pwd
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.container_spec import ContainerConfigError

UNPRIVILEGED = 65534
"""The user and group of programs where nothing else determines whose they are."""


@dataclass(frozen=True)
class User:
    """A user and a group by their numbers."""

    uid: int
    gid: int

    @property
    def is_privileged(self) -> bool:
        """Whether programs of this user are root's, with all that root may do."""
        return os.geteuid() == 0 == self.uid

    @property
    def text(self) -> str:
        """The user for people: `uid 1000 (ana)`."""
        try:
            return f"uid {self.uid} ({pwd.getpwuid(self.uid).pw_name})"
        except KeyError:
            return f"uid {self.uid}"

    def can_enter(self, folder: Path) -> bool:
        """Whether the mode of a folder lets this user reach what is in it, without supplementary groups."""
        return self._may(folder, os.X_OK)

    def can_write(self, folder: Path) -> bool:
        """Whether the mode of a folder lets this user make files in it, without supplementary groups."""
        return self._may(folder, os.X_OK | os.W_OK)

    def _may(self, path: Path, access: int) -> bool:
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return self.uid == 0 or status.st_mode >> shift & access == access


def current_user() -> User:
    """The user and group of this process."""
    return User(os.geteuid(), os.getegid())


HOME = "/tmp"
"""The home folder in a container: writable, and its own."""
_SHELL = "/bin/sh"


def login_entries(passwd: str, user: User, exists: Callable[[str], bool]) -> str | None:
    """The content of /etc/passwd in which the user has a home folder and a shell; None if that is so already.

    ssh and sshd look it up, and end for a user without an entry or with one without a shell. `exists` is whether there
    is a file or folder.
    """
    lines = [line.split(":") for line in passwd.splitlines()]
    entry = next((fields for fields in lines if len(fields) == 7 and fields[2] == str(user.uid)), None)
    if entry is not None:
        home, shell = entry[5:]
        if exists(home) and exists(shell) and shell.rpartition("/")[2] not in {"nologin", "false"}:
            return None
    # With a name of its own: nss-systemd answers that the password of uid 65534 is locked, by the usual name of that user.
    return f"user{user.uid}:x:{user.uid}:{user.gid}::{HOME}:{_SHELL}\n{passwd}"


def user_of_programs(folders: Iterable[Path], environment: Mapping[str, str], current: User) -> User:
    """The user for programs whose pods name none: this user, and for root the first of these three.

    1. The user who called sudo.
    2. The owner of the first of the folders that is not root's.
    3. The user that owns no files.
    """
    if current.uid != 0:
        return current
    uid, gid = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
    if uid.isdecimal() and int(uid) != 0:
        return User(int(uid), int(gid) if gid.isdecimal() and int(gid) != 0 else UNPRIVILEGED)
    owners = [(status.st_uid, status.st_gid) for status in map(Path.stat, folders) if status.st_uid != 0]
    return User(owners[0][0], owners[0][1] or UNPRIVILEGED) if owners else User(UNPRIVILEGED, UNPRIVILEGED)


@dataclass(frozen=True)
class Users:
    """The users that programs may have: `default` for pods that name none, `current` is that of this process."""

    default: User
    current: User
    maps: bool
    """Whether a program may see this user under any number, as in a user name space."""

    def of(self, pod: Json, container: Json) -> User:
        """The user of a container by its securityContext. Raises ContainerConfigError for one that it cannot have here."""
        context = {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
        fields: Json = {key: value for key, value in context.items() if value is not None}
        user = User(fields.get("runAsUser", self.default.uid), fields.get("runAsGroup", self.default.gid))
        if fields.get("runAsNonRoot") and user.uid == 0:
            reason = "container's runAsUser breaks non-root policy" if "runAsUser" in fields else _IMAGE_OF_ROOT
            raise ContainerConfigError(f'{reason} (pod: "{pod["metadata"]["name"]}", container: {container["name"]})')
        if user == self.default or self.maps:
            return user
        if self.current.uid != 0:
            raise ContainerConfigError(
                f"securityContext: runAsUser {user.uid} and runAsGroup {user.gid} are not possible with plain processes: "
                f"programs run as {self.current.text}, gid {self.current.gid}"
            )
        if self.default.uid != 0 and (
            (user.uid != self.default.uid and _has_name(pwd.getpwuid, user.uid))
            or (user.gid != self.default.gid and _has_name(grp.getgrgid, user.gid))
        ):
            raise ContainerConfigError(
                f"securityContext: runAsUser {user.uid} or runAsGroup {user.gid} is an account of this machine: "
                "use numbers without one, or start the cluster with --run-as-root"
            )
        return user


def _has_name(look_up: Callable[[int], object], number: int) -> bool:
    """Whether a user or group of this machine has a number: its files would be those of the program."""
    try:
        look_up(number)
    except (KeyError, OverflowError):
        return False
    return True


_IMAGE_OF_ROOT = "container has runAsNonRoot and image will run as root"
