"""What a job plugin is: it prepares the pods of a job for each other.

A plugin belongs to one job and has two hooks, both pure: ``pod`` gets each pod before it is made and gives it back,
``objects`` names what else must exist for the pods to find. Its arguments come as on a command line
(``--ssh-port=2022``) and are read into a pydantic model, so a wrong one is refused with the plugin's usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from volcanopy.api.batch import BatchJob, TaskSpec
from volcanopy.api.model import Json


class PluginError(ValueError):
    """A plugin that does not exist, or arguments that it does not understand; says what would be understood."""


class Arguments(BaseModel):
    """The base of plugin arguments: ``--kebab-case`` on the command line, unknown ones refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        use_attribute_docstrings=True,
    )


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


@dataclass(frozen=True)
class Needed:
    """An object that must exist beside the pods. With ``ssh_keys``, a new key pair is added to it when it is made."""

    manifest: Json
    ssh_keys: bool = False


class JobPlugin(Generic[ArgumentsT]):
    """A plugin at work for one job. A subclass overrides what it needs."""

    name: ClassVar[str]
    arguments_model: ClassVar[type[Arguments]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.arguments_model = get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]

    def __init__(self, job: BatchJob, arguments: ArgumentsT) -> None:
        self.job = job
        self.arguments = arguments

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The pod as it should be made. The dictionary given is the plugin's to change."""
        return pod

    def objects(self) -> Sequence[Needed]:
        """What must exist beside the pods; removed when the job has stopped."""
        return ()


def read_arguments(name: str, model: type[Arguments], given: Sequence[str]) -> Arguments:
    """Arguments as on a command line: ``-x``, ``--x``, ``--k=v``, ``--k v``. Raises PluginError with the usage."""
    try:
        return model.model_validate(dict(_split(model, given)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        what = "is not known" if first["type"] == "extra_forbidden" else f"is {first['input']!r}: {first['msg']}"
        raise PluginError(f"argument --{key} of plugin {name} {what}. {usage(name, model)}") from None
    except ValueError as error:
        raise PluginError(f"{error} for plugin {name}. {usage(name, model)}") from None


def usage(name: str, model: type[Arguments]) -> str:
    """One line that says which arguments a plugin takes."""
    known = [f"--{field.alias}={field.default!s}" for field in model.model_fields.values()]
    return f"{name} takes {', '.join(known)}" if known else f"{name} takes no arguments"


def _split(model: type[Arguments], given: Sequence[str]) -> Iterator[tuple[str, str]]:
    flags = {field.alias for field in model.model_fields.values() if field.annotation is bool}
    rest = list(given)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or not word.strip("-"):
            raise ValueError(f"{word!r} is no argument")
        key, equals, value = word.lstrip("-").partition("=")
        if not equals and key not in flags:
            if not rest:
                raise ValueError(f"argument --{key} needs a value")
            value = rest.pop(0)
        yield key, value if equals or key not in flags else "true"


def hosts_of(job: BatchJob, task: TaskSpec) -> tuple[str, ...]:
    """The addresses of a task's pods, by index: ``<pod>.<job>``, or as the template fixes them."""
    spec = task.template.get("spec") or {}
    domain = spec.get("subdomain") or job.metadata.name
    if host := spec.get("hostname"):
        return (f"{host}.{domain}",) if task.replicas else ()
    return tuple(f"{job.metadata.name}-{task.name}-{index}.{domain}" for index in range(task.replicas))


def containers(pod: Json) -> Iterator[Json]:
    """Every container of a pod, those that initialise it included."""
    yield from pod["spec"].get("containers") or ()
    yield from pod["spec"].get("initContainers") or ()


def add_environment(pod: Json, entries: Sequence[Mapping[str, Any]]) -> None:
    """Give every container these variables. Where a container has one of the name already, its own stays."""
    for container in containers(pod):
        present = {entry["name"] for entry in container.get("env") or ()}
        new = [dict(entry) for entry in entries if entry["name"] not in present]
        if new:
            container["env"] = [*(container.get("env") or ()), *new]


def add_volume(pod: Json, volume: Json, mount: Json) -> None:
    """Give the pod a volume and mount it in every container."""
    pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), volume]
    for container in containers(pod):
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), dict(mount)]
