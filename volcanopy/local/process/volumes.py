"""The volumes of a pod as directories of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from volcanopy.kube.client.kinds import Json
from volcanopy.local.process.container_spec import (
    ContainerConfigError,
    Sources,
    field_value,
    resource_value,
    selected_items,
)
from volcanopy.local.process.folders import make_folder
from volcanopy.local.process.users import User

_UNSUPPORTED = "volume {name}: {kind} volumes are not supported on process nodes"


class Volumes:
    """The volumes of one pod: `folder` is for those that end with it, `claims` has a directory for every claim."""

    def __init__(self, pod: Json, folder: Path, claims: Path, names: Callable[[str], str] = str) -> None:
        """`names` replaces names in the text of files where programs cannot resolve them."""
        self._pod, self._folder, self._claims, self._names = pod, folder, claims, names
        self.paths: dict[str, Path] = {}
        self._owner: User | None = None

    def create(self, sources: Sources, owners: Sequence[User | None] = (None,)) -> None:
        """Create and fill every volume; the last of the owners of containers gets the files. Raises ContainerConfigError."""
        self._owner = owners[-1]
        make_folder(self._folder)
        if self._owner is not None and len(groups := {owner.gid for owner in owners if owner is not None}) == 1:
            # Plain processes of other users could find their way here.
            os.chown(self._folder, -1, groups.pop())
            self._folder.chmod(0o710)
        for volume in self._pod["spec"].get("volumes") or ():
            self.paths[volume["name"]] = self._create(volume, sources)

    @property
    def _shared_mode(self) -> int:
        """The mode of a folder that all containers may write to, which may have different users."""
        return 0o755 if self._owner is None else 0o777

    def refresh(self, sources: Sources) -> None:
        """Write the current content of ConfigMaps, Secrets and the downward API. Raises ContainerConfigError."""
        for volume in self._pod["spec"].get("volumes") or ():
            files = self._files(volume, sources)
            if files is not None and volume["name"] in self.paths:
                _write(self.paths[volume["name"]], files, _mode(volume), self._owner)

    def _create(self, volume: Json, sources: Sources) -> Path:
        name: str = volume["name"]
        if (host := volume.get("hostPath")) is not None:
            return _host_path(name, host)
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

    def _claim(self, name: str) -> Path:
        path = self._claims / str(self._pod["metadata"]["namespace"]) / name
        make_folder(path, self._shared_mode)
        return path

    def _files(self, volume: Json, sources: Sources) -> dict[str, bytes] | None:
        """The files of a volume made from objects; None for a volume of another kind."""
        if "projected" in volume:
            parts = volume["projected"].get("sources") or ()
        else:
            parts = [{kind: volume[kind]} for kind in ("configMap", "secret", "downwardAPI") if kind in volume]
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
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if kind in volume:
            return int(volume[kind].get("defaultMode") or 0o644)
    return 0o644


def _write(path: Path, files: Mapping[str, bytes], mode: int, owner: User | None) -> None:
    """Make the directory hold exactly these files; each is replaced at once, so that a reader sees old or new content."""
    for name, content in files.items():
        target = (path / name).resolve()
        if not target.is_relative_to(path.resolve()):
            raise ContainerConfigError(f"path {name!r} of a volume leaves it")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file() and target.read_bytes() == content:
            continue
        written = target.with_name(f".{target.name}.new")
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
            if owner is not None:
                os.chown(descriptor, owner.uid, owner.gid)
        written.rename(target)
    for present in path.iterdir():
        if present.is_file() and present.name not in files:
            present.unlink()


def _host_path(name: str, host: Json) -> Path:
    path, kind = Path(host["path"]), host.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    if not path.exists() or (kind == "Directory" and not path.is_dir()) or (kind == "File" and not path.is_file()):
        raise ContainerConfigError(
            f"volume {name}: hostPath {path} type check failed: it does not exist or is of another type"
        )
    return path
