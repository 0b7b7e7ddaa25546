"""From Volcano's objects to ours: names are moved to our groups, and what has no counterpart is said, not lost in silence.

What comes out is read by the same models that admission uses, so that it can be applied as it stands, or the notes say
what is left to do by hand.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.bus import Command
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import InvalidObjectError, Json, Model, Problem
from volcanopy.api.nodeinfo import NumaTopology
from volcanopy.api.scheduling import PodGroup, Queue
from volcanopy.api.topology import HyperNode
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, plugin_problems

_DOMAIN = "volcano.sh"
_OUR_DOMAIN = "volcanopy.io"
_NO_ANSWERS = ("EnqueueJob", "SyncJob", "SyncQueue", "OpenQueue", "CloseQueue")
_SCHEDULERS = {"volcano": names.SCHEDULER}


@dataclass(frozen=True)
class Counterpart:
    """What one of Volcano's kinds is with us, and what has to be done besides moving names."""

    model: type[Model]
    adapt: Callable[["Conversion"], None]


@dataclass
class Conversion:
    """One object on its way, and what people are told about it."""

    body: Json
    notes: list[str] = field(default_factory=list)

    def note(self, path: str, says: str) -> None:
        """Tell people about a field."""
        self.notes.append(f"{path}: {says}")

    def spec(self) -> Json:
        """The object's spec."""
        found = self.body.setdefault("spec", {})
        return found if isinstance(found, dict) else {}


def converted(body: Json) -> Conversion:
    """The object as ours; one that is not Volcano's comes back with its scheduler and its annotations moved."""
    conversion = Conversion(_moved(deepcopy(body)))
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    if not group.endswith(_DOMAIN):
        _schedulers(conversion.body)
        return conversion
    counterpart = _COUNTERPARTS.get((group, str(body.get("kind"))))
    if counterpart is None:
        told = f"{body.get('kind')} of {group}/{version} has no counterpart here: it is left out"
        return Conversion({}, [told])
    model = counterpart.model
    conversion.body["apiVersion"] = model.model_fields["api_version"].default
    conversion.body["kind"] = model.__name__
    if conversion.body.pop("status", None):
        conversion.note("status", "is written by the controllers: left out")
    _cleaned(conversion.body.get("metadata"))
    counterpart.adapt(conversion)
    _fitted(conversion, model)
    return conversion


def _moved(thing: Any) -> Any:
    """Keys, and values that are keys, with Volcano's domain as ours."""
    if isinstance(thing, dict):
        return {_renamed(key): _moved(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_moved(one) for one in thing]
    return _renamed(thing)


def _renamed(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    domain, slash, rest = text.partition("/")
    prefix, dot, quota = domain.rpartition(".volcano.sh") if domain.endswith(f".{_DOMAIN}") else ("", "", "")
    if slash and domain == _DOMAIN:
        return f"{_OUR_DOMAIN}/{rest}"
    if slash and dot and not quota:
        return f"{prefix}.{_OUR_DOMAIN}/{rest}"
    for kind in ("requests.", "limits."):
        if text.startswith(f"{kind}{_DOMAIN}/"):
            return f"{kind}{_OUR_DOMAIN}/{rest}"
    return text


def _schedulers(thing: Any) -> None:
    """Pods that Volcano was to place are placed by us."""
    if isinstance(thing, dict):
        if thing.get("schedulerName") in _SCHEDULERS:
            thing["schedulerName"] = _SCHEDULERS[thing["schedulerName"]]
        for value in thing.values():
            _schedulers(value)
    elif isinstance(thing, list):
        for value in thing:
            _schedulers(value)


def _cleaned(metadata: Any) -> None:
    """Without what an API server wrote."""
    if not isinstance(metadata, dict):
        return
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"):
        metadata.pop(key, None)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)


def _fitted(conversion: Conversion, model: type[Model]) -> None:
    """Take away the fields that we do not have; what else is wrong is for people."""
    for _ in range(200):
        problems = _problems(conversion.body, model)
        unknown = [one.path for one in problems if one.message.startswith("Unknown field")]
        for path in unknown:
            _taken(conversion.body, path)
            conversion.note(path, "has no counterpart here: left out")
        if not unknown:
            for problem in problems:
                conversion.note(problem.path, f"{problem.message}: correct it by hand")
            return


def _problems(body: Json, model: type[Model]) -> tuple[Problem, ...]:
    try:
        model.read(body, unknown="forbid")
    except InvalidObjectError as error:
        return error.problems
    return ()


def _taken(body: Any, path: str) -> None:
    """Take a field away by its path, ``spec.tasks[0].name``."""
    steps = list(_steps(path))
    for step in steps[:-1]:
        body = body[step]
    del body[steps[-1]]


def _steps(path: str) -> Iterator[str | int]:
    for part in path.split("."):
        name, *indexes = part.split("[")
        yield name
        yield from (int(index.rstrip("]")) for index in indexes)


# The kinds


def _job(conversion: Conversion) -> None:
    _job_spec(conversion, conversion.spec(), "spec")
    name = str((conversion.body.get("metadata") or {}).get("name", ""))
    if "." in name:
        conversion.note("metadata.name", f"{name!r} has a dot, which no part of a host name has: choose another")
    _plugins(conversion, conversion.spec(), "spec")


def _job_spec(conversion: Conversion, spec: Json, path: str) -> None:
    _schedulers(spec)
    for number, task in _things(spec.get("tasks")):
        if not task.get("name"):
            task["name"] = f"default{number}"
        # What is not given is 0 there and 1 here.
        task.setdefault("replicas", 0)
        if task.get("maxRetry") == 0:
            del task["maxRetry"]
        _policies(conversion, task, f"{path}.tasks[{number}]")
    if spec.get("maxRetry") == 0:
        del spec["maxRetry"]
    if spec.get("minAvailable") == 0:
        del spec["minAvailable"]
    _policies(conversion, spec, path)


def _policies(conversion: Conversion, holder: Json, path: str) -> None:
    """Actions that a controller takes of itself are no answers here."""
    for number, policy in _things(holder.get("policies")):
        if policy.get("action") in _NO_ANSWERS:
            where = f"{path}.policies[{number}].action"
            conversion.note(where, f"{policy['action']} is no answer to an event: choose another action")


def _things(found: Any) -> list[tuple[int, Json]]:
    """The mappings of what should be a list of them, each with its place."""
    return [
        (number, one) for number, one in enumerate(found if isinstance(found, list) else ()) if isinstance(one, dict)
    ]


def _plugins(conversion: Conversion, spec: Json, path: str) -> None:
    """Plugins that we do not have are left out; arguments that ours do not take are named."""
    plugins = spec.get("plugins")
    if not isinstance(plugins, dict):
        return
    for name in sorted(set(plugins) - set(JOB_PLUGINS)):
        del plugins[name]
        conversion.note(f"{path}.plugins.{name}", "there is no such plugin here: left out")
    for name, arguments in plugins.items():
        plugins[name] = arguments or []
    try:
        job = BatchJob.read(conversion.body)
    except InvalidObjectError:
        return
    for problem in plugin_problems(job, JOB_PLUGINS):
        conversion.note(problem.path, problem.message)


def _cron(conversion: Conversion) -> None:
    spec = conversion.spec()
    template = spec.get("jobTemplate")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        _job_spec(conversion, template["spec"], "spec.jobTemplate.spec")
    schedule = str(spec.get("schedule", ""))
    if "TZ=" in schedule:
        zone, _, rest = schedule.partition(" ")
        spec["schedule"], spec["timeZone"] = rest.strip(), zone.partition("TZ=")[2]


def _template(conversion: Conversion) -> None:
    _job_spec(conversion, conversion.spec(), "spec")


def _flow(conversion: Conversion) -> None:
    for number, step in _things(conversion.spec().get("flows")):
        depends = step.get("dependsOn")
        if isinstance(depends, dict) and depends.get("probe"):
            told = "was ignored there and is obeyed here: see that it says what you mean"
            conversion.note(f"spec.flows[{number}].dependsOn.probe", told)
        if step.get("patch"):
            told = "was ignored there and is obeyed here: see that it says what you mean"
            conversion.note(f"spec.flows[{number}].patch", told)
            _schedulers(step["patch"])


def _queue(conversion: Conversion) -> None:
    spec = conversion.spec()
    if spec.get("weight") == 0:
        del spec["weight"]
    if spec.get("parent") == "":
        del spec["parent"]


def _command(conversion: Conversion) -> None:
    target = conversion.body.get("target")
    if isinstance(target, dict):
        kinds = {"Job": ("BatchJob", names.BATCH_V1ALPHA1), "Queue": ("Queue", names.SCHEDULING_V1BETA1)}
        target["kind"], target["apiVersion"] = kinds.get(
            str(target.get("kind")), (target.get("kind"), target.get("apiVersion"))
        )
        if target.get("uid"):
            conversion.note("target.uid", "is that of the object in the old cluster: give the new one's")


def _as_it_is(conversion: Conversion) -> None:
    """Names are all that has to be moved."""


_COUNTERPARTS: Mapping[tuple[str, str], Counterpart] = {
    ("batch.volcano.sh", "Job"): Counterpart(BatchJob, _job),
    ("batch.volcano.sh", "CronJob"): Counterpart(CronBatchJob, _cron),
    ("bus.volcano.sh", "Command"): Counterpart(Command, _command),
    ("flow.volcano.sh", "JobFlow"): Counterpart(JobFlow, _flow),
    ("flow.volcano.sh", "JobTemplate"): Counterpart(JobTemplate, _template),
    ("nodeinfo.volcano.sh", "Numatopology"): Counterpart(NumaTopology, _as_it_is),
    ("scheduling.volcano.sh", "PodGroup"): Counterpart(PodGroup, _as_it_is),
    ("scheduling.volcano.sh", "Queue"): Counterpart(Queue, _queue),
    ("topology.volcano.sh", "HyperNode"): Counterpart(HyperNode, _as_it_is),
}
