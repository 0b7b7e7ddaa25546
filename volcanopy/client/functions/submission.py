"""A submission of functions: the files in the store, and the BatchJob whose pods read them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle

from volcanopy.api import names
from volcanopy.client.functions import pod_program
from volcanopy.client.functions.storage import Storage, mount
from volcanopy.client.jobs.job_names import new_name
from volcanopy.client.jobs.manifest import manifest
from volcanopy.client.jobs.options import JobOptions, RestartOption
from volcanopy.client.jobs.program import Array, literal
from volcanopy.kube.client.kinds import Json

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of a function, by position and by name."""


def job_name(function: Callable[..., Any]) -> str:
    """Return a new name of a job that runs a function."""
    name = getattr(function, "__name__", type(function).__name__)
    return new_name(name, "function")


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
    mount(task["template"]["spec"], storage)
    return body
