"""A submission of functions: the files in the store, and the BatchJob whose pods read them."""

import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle

from volcanopy.api import names
from volcanopy.client.errors import CommandError
from volcanopy.client.functions import pod_program
from volcanopy.client.jobs.manifest import manifest
from volcanopy.client.jobs.options import JobOptions, RestartOption
from volcanopy.client.jobs.program import Array, literal
from volcanopy.kube.client.kinds import Json

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of a function, by position and by name."""
_LONGEST_NAME = 40


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

    def volume(self) -> Json | None:
        """Return the volume of the folder; None for a URL."""
        if "://" in self.location:
            return None
        source: Json = {"hostPath": {"path": self.location, "type": "Directory"}}
        return {"name": "store", **({"persistentVolumeClaim": {"claimName": self.claim}} if self.claim else source)}


def job_name(function: Callable[..., Any]) -> str:
    """Return a new name of a job that runs a function."""
    name = getattr(function, "__name__", type(function).__name__)
    readable = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return f"{readable or 'function'}-{secrets.token_hex(4)}"


def store_calls(storage: Storage, job: str, executor: str, function: Callable[..., Any], calls: Sequence[Call]) -> None:
    """Write the function and its arguments. Raises ValueError where they cannot be pickled or are too large."""
    name = getattr(function, "__name__", repr(function))
    files = {pod_program.FUNCTION: _pickled(function, f"function {name}", storage)}
    for index, call in enumerate(calls):
        files[pod_program.arguments_name(index)] = _pickled(call, f"the arguments of {name}", storage)
    about = {
        "python": pod_program.version(),
        "maximum": storage.maximum,
        "executor": executor,
        "count": len(calls),
    }
    for file, content in (*files.items(), (pod_program.ABOUT, json.dumps(about).encode())):
        pod_program.write(storage.of(job), file, content)


def _pickled(value: object, subject: str, storage: Storage) -> bytes:
    try:
        content: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise ValueError(f"{subject} cannot be pickled: {error}") from error
    if len(content) > storage.maximum:
        fix = "write the data to a volume, and pass its path"
        raise ValueError(f"{subject}: {len(content):,} bytes, of {storage.maximum:,} allowed: {fix}")
    return content


def job_manifest(storage: Storage, options: JobOptions, array: Array, job: str, python: str, executor: str) -> Json:
    """Return the array job that calls the function of a submission. Raises CommandError for invalid options."""
    text = Path(pod_program.__file__).read_text(encoding="utf-8")
    parallelism = "" if array.parallelism is None else f"%{array.parallelism}"
    complete = replace(
        options,
        name=job,
        arguments=[python, "-c", literal(text)],
        array=f"{array.first}-{array.last}{parallelism}",
        env=[*(options.env or ()), f"{pod_program.STORE}={storage.of(job)}"],
        label=[f"{names.EXECUTOR}={executor}"],
        restart=RestartOption.Never,
    )
    body = manifest(complete)
    task = body["spec"]["tasks"][0]
    task["policies"] = [{"exitCode": pod_program.REQUEUE, "action": "RestartPod"}]
    if (volume := storage.volume()) is not None:
        _mount(task["template"]["spec"], volume, storage.location)
    return body


def _mount(pod: Json, volume: Json, folder: str) -> None:
    """Mount a volume at the folder, unless another one has it already."""
    mounts = pod["containers"][0].setdefault("volumeMounts", [])
    if any(Path(folder).is_relative_to(mount["mountPath"]) for mount in mounts):
        return
    mounts.append({"name": volume["name"], "mountPath": folder})
    pod.setdefault("volumes", []).append(volume)


def folder_of(location: Path | str) -> str:
    """Return a folder as an absolute path, which exists then; a URL as it is. Raises CommandError."""
    text = str(location)
    if "://" in text:
        return text.rstrip("/")
    folder = Path(text).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"folder: {folder} cannot be created: {error.strerror}") from None
    return str(folder)
