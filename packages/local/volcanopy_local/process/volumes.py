"""The volumes of a pod as directories of this machine."""

import contextlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from volcanopy.kube.client.kinds import Json
from volcanopy_local.process.beneath import PathError, open_source, opened
from volcanopy_local.process.container_spec import (
    ContainerConfigError,
    Mount,
    Sources,
    field_value,
    resource_value,
    selected_items,
)
from volcanopy_local.process.file_view import MountSource
from volcanopy_local.process.folders import make_folder
from volcanopy_local.process.users import User

_OF_OBJECTS = ("configMap", "secret", "downwardAPI", "projected")
"""The kinds of volumes that only the kubelet writes."""
_UNSUPPORTED = "volume {name}: {kind} volumes are not supported on process nodes"


class Volumes:
    """The volumes of one pod: `folder` is for those that end with it, `claims` has a directory for every claim."""

    def __init__(self, pod: Json, folder: Path, claims: Path, names: Callable[[str], str] = str) -> None:
        """`names` replaces names in the text of files where programs cannot resolve them."""
        self._pod, self._names = pod, names
        self._folder, self._claims = Path(os.path.realpath(folder)), Path(os.path.realpath(claims))
        self._paths: dict[str, Path] = {}
        self._owner: User | None = None
        self._users: set[User] = set()

    def create(self, sources: Sources, owners: Sequence[User | None] = (None,)) -> None:
        """Create and fill every volume; the last of the owners of containers gets the files. Raises ContainerConfigError."""
        self._owner, self._users = owners[-1], {owner for owner in owners if owner is not None}
        make_folder(self._folder)
        if self._owner is not None and len(groups := {user.gid for user in self._users}) == 1:
            # Plain processes of other users could find their way here.
            os.chown(self._folder, -1, groups.pop())
            self._folder.chmod(0o710)
        for volume in self._pod["spec"].get("volumes") or ():
            self._paths[volume["name"]] = self._create(volume, sources)

    def source(self, mount: Mount) -> MountSource:
        """What is mounted; a missing `subPath` is made as a folder. Raises ContainerConfigError."""
        volume = next(candidate for candidate in self._pod["spec"]["volumes"] if candidate["name"] == mount.volume)
        source = MountSource(
            self._paths[mount.volume],
            mount.read_only or any(kind in volume for kind in _OF_OBJECTS),
            mount.sub_path,
            of_machine="hostPath" in volume,
        )
        try:
            if mount.sub_path:
                mode = stat.S_IMODE(source.folder.stat().st_mode)
                os.close(open_source(str(source.folder), mount.sub_path, mode=mode))
            if source.of_machine:
                self._check_entry(mount.volume, source.path())
        except OSError as error:
            raise ContainerConfigError(f"volume {mount.volume}: subPath cannot be mounted: {error}") from None
        return source

    def _check_entry(self, name: str, path: Path) -> None:
        """Raise ContainerConfigError unless the users of the pod can reach a path of the machine without its mount."""
        for user in self._users:
            if closed := [folder for folder in path.parents if not user.can_enter(folder)]:
                raise ContainerConfigError(f"volume {name}: hostPath {path}: {user.text} cannot enter {closed[-1]}")

    @property
    def _shared_mode(self) -> int:
        """The mode of a folder that all containers may write to, which may have different users."""
        return 0o755 if self._owner is None else 0o777

    def refresh(self, sources: Sources) -> None:
        """Write the current content of ConfigMaps, Secrets and the downward API. Raises ContainerConfigError."""
        for volume in self._pod["spec"].get("volumes") or ():
            files = self._files(volume, sources)
            if files is not None and volume["name"] in self._paths:
                _write(self._paths[volume["name"]], files, _mode(volume), self._owner)

    def _create(self, volume: Json, sources: Sources) -> Path:
        name: str = volume["name"]
        if (host := volume.get("hostPath")) is not None:
            return self._host_path(name, host)
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            return self._claim(claim["claimName"])
        if "ephemeral" in volume:
            return self._claim(f"{self._pod['metadata']['name']}-{name}")
        path = self._folder / "volumes" / name
        make_folder(path, self._shared_mode if "emptyDir" in volume else 0o755)
        if "emptyDir" in volume:
            return path
        files = self._files(volume, sources)
        if files is None:
            kind = next((key for key in volume if key != "name"), "unknown")
            raise ContainerConfigError(_UNSUPPORTED.format(name=name, kind=kind))
        _write(path, files, _mode(volume), self._owner)
        return path

    def _host_path(self, name: str, host: Json) -> Path:
        """A path of the machine without links, which is made if its type requests that and the users of the pod could make it."""
        path, kind = Path(os.path.realpath(host["path"])), host.get("type") or ""
        if not host["path"].startswith("/"):
            raise ContainerConfigError(f"volume {name}: hostPath {host['path']} must be absolute")
        if kind in {"DirectoryOrCreate", "FileOrCreate"} and not path.exists():
            above = next(folder for folder in path.parents if folder.exists())
            for user in self._users:
                self._check_entry(name, path.parent if above == path.parent else above / "missing")
                if not user.can_write(above):
                    raise ContainerConfigError(f"volume {name}: hostPath {path}: {user.text} cannot write to {above}")
            if kind == "DirectoryOrCreate":
                path.mkdir(parents=True)
            else:
                path.touch()
            if self._owner is not None:
                os.chown(path, self._owner.uid, self._owner.gid, follow_symlinks=False)
        if not path.exists() or (kind == "Directory" and not path.is_dir()) or (kind == "File" and not path.is_file()):
            raise ContainerConfigError(
                f"volume {name}: hostPath {path} type check failed: it does not exist or is of another type"
            )
        return path

    def _claim(self, name: str) -> Path:
        if "/" in name or name in {"", ".", ".."}:
            raise ContainerConfigError(f'persistentvolumeclaim "{name}" not found')
        path = self._claims / str(self._pod["metadata"]["namespace"]) / name
        make_folder(path, self._shared_mode)
        return path

    def _files(self, volume: Json, sources: Sources) -> dict[str, bytes] | None:
        """The files of a volume made from objects; None for a volume of another kind."""
        if "projected" in volume:
            parts = volume["projected"].get("sources") or ()
        else:
            parts = [{kind: volume[kind]} for kind in _OF_OBJECTS if kind in volume]
            if not parts:
                return None
        files: dict[str, bytes] = {}
        for source in parts:
            replaced = bytes if "downwardAPI" in source else self._with_addresses
            files |= {name: replaced(content) for name, content in self._projected(source, sources).items()}
        return files

    def _with_addresses(self, content: bytes) -> bytes:
        try:
            return self._names(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def _projected(self, source: Json, sources: Sources) -> dict[str, bytes]:
        if (reference := source.get("configMap")) is not None:
            data = sources.config_map(reference["name"], optional=bool(reference.get("optional")))
            return selected_items(data, reference.get("items"), f"configmap {reference['name']}")
        if (reference := source.get("secret")) is not None:
            name = reference.get("secretName") or reference["name"]
            data = sources.secret(name, optional=bool(reference.get("optional")))
            return selected_items(data, reference.get("items"), f"secret {name}")
        if (downward := source.get("downwardAPI")) is not None:
            return {item["path"]: self._downward(item).encode() for item in downward.get("items") or ()}
        if (token := source.get("serviceAccountToken")) is not None:
            content = sources.tokens.get(token.get("audience") or "")
            return {token["path"]: content.encode()} if content else {}
        raise ContainerConfigError(f"projected source {', '.join(source)} is not supported")

    def _downward(self, item: Json) -> str:
        if reference := item.get("fieldRef"):
            return field_value(self._pod, reference["fieldPath"])
        first: Json = self._pod["spec"]["containers"][0]
        return resource_value(self._pod, first, item["resourceFieldRef"])


def _mode(volume: Json) -> int:
    for kind in _OF_OBJECTS:
        if kind in volume:
            return int(volume[kind].get("defaultMode") or 0o644)
    return 0o644


def _write(path: Path, files: Mapping[str, bytes], mode: int, owner: User | None) -> None:
    """Make the directory hold exactly these files; each is replaced at once, so that a reader sees old or new content.

    Plain processes can change the directory meanwhile. Raises ContainerConfigError.
    """
    try:
        for name, content in files.items():
            above, _, last = name.rpartition("/")
            with opened(open_source(str(path), above, mode=0o755)) as folder:
                if last in {"", ".", ".."} or name.startswith("/"):
                    raise PathError(f"path {name!r} is not that of a file")
                if _content(folder, last, len(content) + 1) != content:
                    _replace(folder, last, content, mode, owner)
        with opened(open_source(str(path), "")) as folder:
            for name in os.listdir(f"/proc/self/fd/{folder}"):
                if name not in files and not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                    os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise ContainerConfigError(f"the files of a volume cannot be written: {error}") from None


def _content(folder: int, name: str, size: int) -> bytes | None:
    """The first bytes of a file, which a program may have made as large as it likes; None for what is none."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(size) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _replace(folder: int, name: str, content: bytes, mode: int, owner: User | None) -> None:
    temporary = f".{name}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
    with open(descriptor, "wb") as file:
        file.write(content)
        os.fchmod(descriptor, mode)
        if owner is not None:
            os.chown(descriptor, owner.uid, owner.gid)
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
