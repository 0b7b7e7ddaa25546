"""What a job plugin is: it prepares the pods of a job for each other.

A plugin belongs to one job and has three hooks, all pure: ``pod`` gets each pod before it is made and gives it back,
``objects`` names what else must exist for the pods to find, ``problems`` returns why the plugin cannot serve this job. Its
arguments come as on a command line (``--ssh-port=2022``) and are read into a pydantic model, so a wrong one is rejected
with the plugin's usage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from volcanopy.api import names
from volcanopy.api.batch import BatchJob, TaskSpec
from volcanopy.api.model import Json, Problem, quoted
from volcanopy.jobcontroller.naming import owner_reference, pod_name

LONGEST_VARIABLE = 128 * 1024 - 1
"""A longer ``NAME=value`` no program can be started with: Linux rejects it."""

OBJECT_KINDS = ("ConfigMap", "Secret", "Service", "NetworkPolicy", "PersistentVolumeClaim")
"""The kinds of objects that the controller makes beside pods."""

Port = Annotated[int, Field(ge=1, le=65535)]
"""The type of an argument that is a port."""


class PluginError(ValueError):
    """A plugin that does not exist, or arguments that it does not understand, with the usage."""


class Arguments(BaseModel):
    """The base of plugin arguments: ``--kebab-case`` on the command line, unknown ones rejected."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-"), defer_build=True
    )


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


@dataclass(frozen=True)
class Role:
    """Marks an argument as the name of the task that plays a part: ``Annotated[str, Role()]``.

    A name that was given must be that of a task; one that was not given must be so if the role is ``required``.
    """

    required: bool = False


@dataclass(frozen=True)
class Needed:
    """An object that must exist beside the pods, of one of OBJECT_KINDS, in the job's namespace.

    With ``ssh_keys``, a new key pair is added to it when it is made. Raises PluginError for another kind.
    """

    manifest: Json
    ssh_keys: bool = False

    def __post_init__(self) -> None:
        if self.manifest["kind"] not in OBJECT_KINDS:
            message = f"no {self.manifest['kind']} can be made for a job: it must be one of {', '.join(OBJECT_KINDS)}"
            raise PluginError(message)


class JobPlugin(Generic[ArgumentsT]):
    """A plugin at work for one job. A subclass overrides what it needs."""

    name: ClassVar[str]
    """What ``spec.plugins`` calls it."""
    implies: ClassVar[tuple[str, ...]] = ()
    """Plugins that come with it, without arguments where the job does not name them itself."""
    idle_without_tasks: ClassVar[bool] = False
    """Whether Volcano's plugin does nothing in a job without the tasks that its default arguments name; others of it fail."""
    needs_pod_names: ClassVar[bool] = True
    """Whether its pods must be named ``<job>-<task>-<index>``: then none is replaced while it terminates."""
    arguments_model: ClassVar[type[Arguments]]
    """The arguments that it takes: what stands in the brackets of its base class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin, given = get_origin(base), get_args(base)
            if isinstance(origin, type) and issubclass(origin, JobPlugin) and isinstance(given[0], type):
                cls.arguments_model = given[0]

    def __init__(self, job: BatchJob, arguments: ArgumentsT) -> None:
        self.job = job
        self.arguments = arguments

    def pod(self, pod: Json, task: TaskSpec, index: int) -> Json:
        """The pod as it should be made. The dictionary given is the plugin's to change."""
        return pod

    def objects(self) -> Sequence[Needed]:
        """What must exist beside the pods; removed when the job has stopped."""
        return ()

    def problems(self) -> Iterable[Problem]:
        """Why the plugin cannot serve this job; admission rejects it, and no pod is created."""
        return ()

    def problem(self, message: str) -> Problem:
        """A problem at the plugin's place in the job."""
        return Problem(f"spec.plugins.{self.name}", message)

    def metadata(self, name: str) -> Json:
        """The metadata of an object that belongs to the job."""
        return {
            "name": name,
            "namespace": self.job.metadata.namespace,
            "labels": {names.JOB_NAME: self.job.metadata.name},
            "ownerReferences": [owner_reference(self.job)],
        }

    def config_map(self, name: str, data: Mapping[str, str]) -> Needed:
        """A ConfigMap that belongs to the job."""
        return Needed({"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(name), "data": dict(data)})


def read_arguments(name: str, model: type[Arguments], given: Sequence[str]) -> Arguments:
    """Arguments as on a command line: ``-x``, ``--x``, ``--k=v``, ``--k v``. Raises PluginError with the usage."""
    try:
        return model.model_validate(dict(_split(model, given)))
    except ValidationError as error:
        message = _message(error.errors(include_url=False)[0], name)
        raise PluginError(f"{message}. {usage(name, model)}") from None
    except ValueError as error:
        raise PluginError(f"{error} for plugin {name}. {usage(name, model)}") from None


def split_unknown(model: type[Arguments], given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments that a plugin takes, and the names of the others."""
    aliases = {field.alias for field in model.model_fields.values()}
    accepted: list[str] = []
    unknown: list[str] = []
    kept = True
    for word in given:
        if word.startswith("-"):
            key = word.lstrip("-").partition("=")[0]
            kept = key in aliases
            if not kept:
                unknown.append(f"--{key}")
        if kept:
            accepted.append(word)
    return accepted, unknown


def _message(error: ErrorDetails, name: str) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        # The arguments are not repeated: they may contain secrets.
        return f"arguments of plugin {name}: {message}"
    return f"argument --{'.'.join(map(str, error['loc']))} of plugin {name} is {error['input']!r}: {message}"


def usage(name: str, model: type[Arguments]) -> str:
    """Return a line with the arguments of a plugin."""
    options = [f"--{field.alias}={field.default!s}" for field in model.model_fields.values()]
    return f"{name} takes {', '.join(options)}" if options else f"{name} takes no arguments"


def _split(model: type[Arguments], given: Sequence[str]) -> Iterator[tuple[str, str]]:
    is_flag = {field.alias: field.annotation is bool for field in model.model_fields.values()}
    rest = list(given)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        key = word.lstrip("-")
        if not word.startswith("-") or key not in is_flag:
            raise ValueError(f"{word!r} is no argument")
        if not equals and not is_flag[key]:
            if not rest:
                raise ValueError(f"argument --{key} needs a value")
            value = rest.pop(0)
        yield key, value if equals or not is_flag[key] else "true"


def missing_roles(plugin: JobPlugin[Any]) -> Iterator[Problem]:
    """The tasks that the plugin's arguments speak of and that the job does not have."""
    job, arguments = plugin.job, plugin.arguments
    for key, field in plugin.arguments_model.model_fields.items():
        role = next((mark for mark in field.metadata if isinstance(mark, Role)), None)
        if role is None or job.spec.task(getattr(arguments, key)):
            continue
        given = key in arguments.model_fields_set
        if role.required or given:
            message = f'Not found: task "{getattr(arguments, key)}" of argument --{field.alias}'
            problem = plugin.problem(f"{message}: tasks of the job are {quoted(task.name for task in job.spec.tasks)}")
            idle = plugin.idle_without_tasks and job.binding.ignores_arguments and not given
            yield replace(problem, message=f"no effect: {problem.message}", warning=True) if idle else problem


def address_of(job: BatchJob, task: TaskSpec, index: int) -> str:
    """The address of a pod: ``<pod>.<job>``, or as the template of its task fixes it."""
    spec = task.template.get("spec") or {}
    return f"{spec.get('hostname') or pod_name(job, task, index)}.{spec.get('subdomain') or job.metadata.name}"


def hosts_of(job: BatchJob, task: TaskSpec) -> tuple[str, ...]:
    """The addresses of a task's pods, by index; just one where the template fixes the host's name."""
    fixed = (task.template.get("spec") or {}).get("hostname")
    return tuple(address_of(job, task, index) for index in range(min(task.replicas, 1) if fixed else task.replicas))


def size_of_hosts(job: BatchJob, task: TaskSpec) -> int:
    """How many characters :func:`hosts_of` has with one between each two, found without making them up."""
    fixed = (task.template.get("spec") or {}).get("hostname")
    count = min(task.replicas, 1) if fixed else task.replicas
    if not count:
        return 0
    longer, tens = 0, 10  # each address is as long as the first, but for its further digits
    while tens < count and not fixed:
        longer += count - tens
        tens *= 10
    return count * (len(address_of(job, task, 0)) + 1) - 1 + longer


def containers(pod: Json, initial: bool = True) -> Iterator[Json]:
    """Every container of a pod; those that initialise it come after the others, or not at all."""
    yield from pod["spec"].get("containers") or ()
    if initial:
        yield from pod["spec"].get("initContainers") or ()


def add_environment(pod: Json, entries: Sequence[Mapping[str, Any]], initial: bool = True) -> None:
    """Give every container these variables. Where a container has one of the name already, its own stays."""
    for container in containers(pod, initial):
        present = {entry.get("name") for entry in container.get("env") or ()}
        new = [dict(entry) for entry in entries if entry["name"] not in present]
        if new:
            container["env"] = [*(container.get("env") or ()), *new]


def add_volume(pod: Json, volume: Json, mount: Json) -> None:
    """Give the pod a volume, mounted in every container that does not mount something there already."""
    pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), volume]
    for container in containers(pod):
        mounts = container.get("volumeMounts") or ()
        if all(existing.get("mountPath") != mount["mountPath"] for existing in mounts):
            container["volumeMounts"] = [*mounts, dict(mount)]


def add_port(container: Json, name: str, number: int) -> None:
    """Add a port to a container, unless it has it already; without the name if that is taken."""
    ports = container.get("ports") or ()
    if any(port.get("containerPort") == number for port in ports):
        return
    named = {} if any(port.get("name") == name for port in ports) else {"name": name}
    container["ports"] = [*ports, {**named, "containerPort": number, "protocol": "TCP"}]
