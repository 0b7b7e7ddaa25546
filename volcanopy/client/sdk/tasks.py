"""The manifest of a job of one or several tasks, from the arguments of the SDK."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from volcanopy.client.jobs.manifest import check_manifest, manifest
from volcanopy.client.jobs.options import JobOptions
from volcanopy.client.sdk.connected import JobError, job_errors
from volcanopy.kube.client.kinds import Json

Amount = str | float
"""A quantity of Kubernetes, or a number: of CPUs, of bytes."""


def check_types(kind: type | tuple[type, ...], remedy: str, **arguments: object) -> None:
    """Raise JobError for an argument of another type; ``remedy`` is what to use. A bool is no number, a str no sequence."""
    for name, value in arguments.items():
        excluded = (isinstance(value, bool) and kind is not bool) or (isinstance(value, str) and kind is Sequence)
        if excluded or not isinstance(value, kind):
            raise JobError(f"{name}: {value!r} is of type {type(value).__name__}: use {remedy}")


def amount(argument: str, value: Amount) -> str:
    """Return an amount as Kubernetes writes it: ``500m`` for 0.5. Raises JobError for no finite number."""
    check_types((str, int, float), "a number, or a quantity such as 500m or 2Gi", **{argument: value})
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        raise JobError(f"{argument}: {value} is not finite")
    return str(int(value)) if value == int(value) else f"{round(value * 1000)}m"


def variables(env: Mapping[str, str]) -> list[str]:
    """Return variables as ``name=value``. Raises JobError for values of other types."""
    check_types(Mapping, "a dict", env=env)
    check_types((str, os.PathLike, int, float), "a string", **{f"env[{name!r}]": value for name, value in env.items()})
    return [f"{name}={value}" for name, value in env.items()]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task of a gang: equal pods. The fields are those of :class:`AsyncJob`."""

    command: Sequence[str | os.PathLike[str]] = ()
    image: str = ""
    script: Path | str | None = None
    replicas: int = 1
    minimum: int | None = None
    cpu: Amount = "1"
    memory: Amount = "100Mi"
    gpus: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    here: bool = False
    template: Any = None

    def __post_init__(self) -> None:
        """Raise JobError for a command of another type, and for a template beside what it replaces."""
        if callable(self.command):
            raise JobError("command: this is a function: use volcanopy.Executor().submit(function)")
        if isinstance(self.command, str):
            raise JobError(f"command: {self.command!r} is one string: use a list, as {self.command.split()!r}")
        check_types(Sequence, "a list of strings", command=self.command)
        for word in self.command:
            check_types((str, os.PathLike), "strings", command=word)
        check_types(str, "a string", image=self.image)
        check_types(bool, "True or False", here=self.here)
        variables(self.env)
        if self.template is not None and (
            self.command or self.image or self.script or self.gpus or self.env or self.here
        ):
            raise JobError("template: leave out command, image, script, gpus, env and here: the template has them")


def job_body(
    tasks: Mapping[str, Task], *, name: str, array: str, queue: str, plugins: Sequence[str], deadline: str
) -> Json:
    """Return the BatchJob of these tasks, which start together. Raises JobError for invalid values."""
    check_types(Mapping, "a dict of names and tasks", tasks=tasks)
    if not tasks:
        raise JobError("tasks: name at least one task")
    check_types(Task, "volcanopy.Task", **{f"tasks[{key!r}]": task for key, task in tasks.items()})
    check_types(str, "a string", name=name, array=array, queue=queue, deadline=deadline)
    check_types(Sequence, "a list of strings", plugins=plugins)
    common = JobOptions(name=name, array=array, queue=queue, plugin=list(plugins), deadline=deadline or None)
    with job_errors():
        bodies = [_of_task(task, replace(common, task=key)) for key, task in tasks.items()]
        body = bodies[0]
        if len(bodies) > 1:
            body["spec"]["tasks"] = [task for body in bodies for task in body["spec"]["tasks"]]
            body["spec"].pop("minAvailable", None)
        check_manifest(body)
    return body


def _of_task(task: Task, common: JobOptions) -> Json:
    """Return the BatchJob of one task."""
    options = replace(
        common,
        image=task.image if task.template is None else "template",
        arguments=[os.fspath(word) for word in task.command],
        script=Path(task.script) if task.script is not None else None,
        replicas=task.replicas,
        minimum=task.minimum,
        cpu=amount("cpu", task.cpu),
        memory=amount("memory", task.memory),
        gpus=task.gpus,
        env=variables(task.env),
        here=task.here,
    )
    body = manifest(options)
    if task.template is not None:
        from volcanopy.client.official_client import pod_template  # noqa: PLC0415 - a fifth of a second

        try:
            body["spec"]["tasks"][0]["template"] = pod_template(task.template)
        except TypeError as error:
            raise JobError(str(error)) from None
    return body
