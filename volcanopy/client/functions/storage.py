"""Where functions and results are kept, and how pods see it."""

from dataclasses import dataclass
from pathlib import Path

from volcanopy.client.errors import CommandError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import expanded


@dataclass(frozen=True)
class Storage:
    """Where functions and results are kept: a folder or URL that this program and the pods see.

    ``claim`` is the PersistentVolumeClaim that pods mount at the folder; without it they run on this machine. ``maximum``
    is the largest number of bytes of pickled arguments or of a result.
    """

    location: str
    claim: str = ""
    maximum: int = 256 * 1024 * 1024

    def of(self, job: str) -> str:
        """Return the folder or URL of a submission."""
        return f"{self.location.rstrip('/')}/{job}"


def mount(pod: Json, storage: Storage) -> None:
    """Mount the folder of a store in the first container of a pod, unless another volume has it already; not a URL."""
    folder = storage.location
    if "://" in folder:
        return
    source: Json = {"hostPath": {"path": folder, "type": "Directory"}}
    if storage.claim:
        source = {"persistentVolumeClaim": {"claimName": storage.claim}}
    mounts = pod["containers"][0].setdefault("volumeMounts", [])
    if any(Path(folder).is_relative_to(mount["mountPath"]) for mount in mounts):
        return
    mounts.append({"name": "store", "mountPath": folder})
    pod.setdefault("volumes", []).append({"name": "store", **source})


def folder_of(location: Path | str) -> str:
    """Return a folder as an absolute path, which exists then; a URL as it is. Raises CommandError."""
    text = str(location)
    if "://" in text:
        return text.rstrip("/")
    folder = expanded(text).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"folder: {folder} cannot be created: {error.strerror}") from None
    return str(folder)
