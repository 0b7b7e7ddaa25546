"""``volcanopy convert``: Volcano's objects as ours, with a note for each field that is lost or needs attention.

The result is validated with the models that admission uses.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml

from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import InvalidObjectError, Json, Model, path_of
from volcanopy.api.scheduling import PodGroup, Queue
from volcanopy.api.topology import HyperNode, NumaTopology
from volcanopy.cli.manifests import read
from volcanopy.client.errors import CommandError
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, plugin_problems

_DOMAIN = "volcano.sh"
_OUR_DOMAIN = "volcanopy.io"
_CONTROLLER_ACTIONS = ("EnqueueJob", "SyncJob", "SyncQueue", "OpenQueue", "CloseQueue")
_SCHEDULERS = {"volcano": names.SCHEDULER}
_SCHEDULER_LINE = re.compile(r"schedulerName[\"']?\s*:\s*[\"']?volcano\b(?!py)")
_DEVICES = frozenset(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in names.GPU_NAMES)
"""Resources and annotations of Volcano's device plugins."""
_READ_HERE = re.compile(
    r"[^.]*|(admissionregistration|apiextensions|networking|node|rbac\.authorization|resource|scheduling|storage)\.k8s\.io"
    rf"|jobset\.x-k8s\.io|.*\.{re.escape(_DOMAIN)}"
)
"""Groups in whose objects volcanopy reads labels and annotations. In those of others, operators may read Volcano's names."""
_KEY = re.compile(r"([\w-]+\.)*volcano\.sh/[\w.-]+")
"""A label, an annotation, or a group and version of Volcano."""
_FIELD_PATH = re.compile(r"(metadata\.(?:labels|annotations)\[')(.+)('\])")
"""The field path of a label or annotation, in an environment variable or a volume of a pod."""
_SHOWN = 80
"""Length of a text in a note."""
Steps = tuple[str | int, ...]
"""A path: keys and indexes."""


@dataclass(frozen=True)
class Counterpart:
    """Our model of a kind of Volcano's, and what to change besides names."""

    model: type[Model]
    adapt: Callable[["Conversion"], None]


@dataclass
class Conversion:
    """A converted object, and notes for the user."""

    body: Json
    notes: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    """What was renamed: of no concern unless something else still uses the name."""

    def changed(self, steps: Steps, before: str, after: str) -> None:
        """Add a change of a key or a text."""
        self.changes.append(f"{path_of(steps)}: {before} changed to {after}")

    def note(self, path: str, message: str) -> None:
        """Add a note on a field."""
        self.notes.append(f"{path}: {message}")

    def spec(self) -> Json:
        """The object's spec."""
        spec = self.body.setdefault("spec", {})
        return spec if isinstance(spec, dict) else {}


def converted(body: Json, *, stored: bool = False) -> Conversion:
    """Return the object as ours; of other kinds only scheduler name, labels and annotations change.

    ``stored``: the status and the metadata that an API server has written are kept.
    """
    conversion = Conversion({})
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    conversion.body = _renamed_all(conversion, deepcopy(body), (), renaming=bool(_READ_HERE.fullmatch(group)))
    if not group.endswith(_DOMAIN):
        _set_scheduler(conversion, conversion.body, ())
        _note_remains(conversion)
        return conversion
    counterpart = _COUNTERPARTS.get((group, str(body.get("kind"))))
    if counterpart is None:
        return Conversion({}, [f"{group}/{version}: kind {body.get('kind')} is not supported: omitted"])
    model = counterpart.model
    conversion.body["apiVersion"] = model.model_fields["api_version"].default
    conversion.body["kind"] = model.__name__
    if body["kind"] != model.__name__:
        conversion.changed(("kind",), str(body["kind"]), model.__name__)
    if not stored:
        if conversion.body.pop("status", None):
            conversion.note("status", "written by the controllers: omitted")
        _remove_server_fields(conversion.body.get("metadata"))
    counterpart.adapt(conversion)
    _remove_unknown_fields(conversion, model)
    _note_remains(conversion)
    return conversion


def _note_remains(conversion: Conversion) -> None:
    """Note the texts that still contain Volcano's names: RBAC groups, manifests inside of strings, device resources."""
    for steps, text in _texts(conversion.body, ()):
        path = path_of(steps)
        if text in _DEVICES:
            conversion.note(path, f"{text} left as it is: a name of device plugins")
        elif text in _NAMES:
            detail = f"the operator of {conversion.body.get('kind')} may read it; volcanopy reads {_NAMES[text]}"
            conversion.note(path, f"{text} left as it is: {detail}, and Volcano's names with --api both")
        elif _KEY.fullmatch(text):
            conversion.note(path, f"{text} left as it is: volcanopy does not read it")
        elif _DOMAIN in text.replace(_OUR_DOMAIN, "") or _SCHEDULER_LINE.search(text):
            shown = next((line.strip() for line in text.splitlines() if _DOMAIN in line or "volcano" in line), text)
            conversion.note(path, f"contains {shown[:_SHOWN]!r}: left as it is, change it if it is meant for volcanopy")


def _texts(value: Any, steps: Steps) -> Iterator[tuple[Steps, str]]:
    """Yield the keys and the strings of a value with their paths."""
    if isinstance(value, str):
        yield steps, value
    elif isinstance(value, dict):
        for key, field_value in value.items():
            if isinstance(key, str) and _DOMAIN in key.replace(_OUR_DOMAIN, ""):
                yield (*steps, key), key
            yield from _texts(field_value, (*steps, str(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*steps, number))


def _renamed_all(conversion: Conversion, value: Any, steps: Steps, *, renaming: bool) -> Any:
    """Return a value with volcanopy's names in keys, and in values that are keys; without ``renaming`` in pod templates only."""
    if isinstance(value, dict):
        renaming = renaming or (isinstance(value.get("spec"), dict) and "containers" in value["spec"])
        renamed = {key: _renamed(key) if renaming else key for key in value}
        for key, after in renamed.items():
            if after != key:
                conversion.changed((*steps, str(key)), str(key), after)
        return {
            renamed[key]: _renamed_all(conversion, entry, (*steps, str(key)), renaming=renaming)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [
            _renamed_all(conversion, item, (*steps, number), renaming=renaming) for number, item in enumerate(value)
        ]
    after = _renamed(value) if renaming else value
    if after != value:
        conversion.changed(steps, value, after)
    return after


def _renamed(text: Any) -> Any:
    """Return volcanopy's name of a label, an annotation, a field path of these, or a group and version that it implements.

    Others are returned unchanged.
    """
    if not isinstance(text, str):
        return text
    field_path = _FIELD_PATH.fullmatch(text)
    if field_path is None:
        return _NAMES.get(text, text)
    head, name, tail = field_path.groups()
    return f"{head}{_NAMES.get(name, name)}{tail}"


def _set_scheduler(conversion: Conversion, value: Any, steps: Steps) -> None:
    """Replace the name of Volcano's scheduler at any depth."""
    if isinstance(value, dict):
        name = value.get("schedulerName")
        if isinstance(name, str) and name in _SCHEDULERS:  # in the schema of a CRD it is a property
            value["schedulerName"] = _SCHEDULERS[name]
            conversion.changed((*steps, "schedulerName"), name, _SCHEDULERS[name])
        for key, entry in value.items():
            _set_scheduler(conversion, entry, (*steps, str(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _set_scheduler(conversion, item, (*steps, number))


def _remove_server_fields(metadata: Any) -> None:
    """Remove the metadata that an API server has written."""
    if not isinstance(metadata, dict):
        return
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"):
        metadata.pop(key, None)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)


def _remove_unknown_fields(conversion: Conversion, model: type[Model]) -> None:
    """Remove the fields that the model does not have; note what else is invalid."""
    for _ in range(200):
        problems = model.problems(conversion.body)
        unknown = [problem.path for problem in problems if problem.message.startswith("Unknown field")]
        removed = [path for path in unknown if _remove(conversion.body, path)]
        for path in removed:
            conversion.note(path, "not supported: omitted")
        if not removed:
            for problem in problems:
                conversion.note(problem.path, f"{problem.message}")
            return


def _remove(body: Any, path: str) -> bool:
    """Remove a field by its path, ``spec.tasks[0].name``; return whether it exists. Keys may contain dots and brackets."""
    if isinstance(body, list):
        index, bracket, rest = path.removeprefix("[").partition("]")
        if not (path.startswith("[") and bracket and index.isdecimal() and int(index) < len(body)):
            return False
        return _remove(body[int(index)], rest.removeprefix("."))
    if not isinstance(body, dict):
        return False
    if path in body:
        del body[path]
        return True
    for key in sorted((key for key in body if isinstance(key, str)), key=len, reverse=True):
        rest = path.removeprefix(key)
        if path.startswith(key) and rest[:1] in {".", "["} and _remove(body[key], rest.removeprefix(".")):
            return True
    return False


def convert(files: list[str], output: Path | None, strict: bool) -> None:
    """Write Volcano's manifests as ours; what changed, is lost or needs attention is listed on standard error."""
    manifests = read(files)
    if not manifests:
        raise CommandError(f"no manifest in {', '.join(files)}")
    documents, notes = [], 0
    for manifest in manifests:
        conversion = converted(manifest.body)
        if conversion.body:
            documents.append(conversion.body)
        notes += len(conversion.notes)
        for line in (*conversion.changes, *conversion.notes):
            print(f"{manifest.place}: {line}", file=sys.stderr)
    text = yaml.safe_dump_all(documents, sort_keys=False, width=120, allow_unicode=True)
    if output is None:
        sys.stdout.write(text)
    else:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"--output: cannot write {output}: {error.strerror}", 2) from None
        print(f"{len(documents)} of {len(manifests)} objects written to {output}", file=sys.stderr)
    if strict and notes:
        raise CommandError(f"{notes} {'note' if notes == 1 else 'notes'} on the conversion")


# The kinds


def _job(conversion: Conversion) -> None:
    _job_spec(conversion, conversion.spec(), "spec")
    name = str((conversion.body.get("metadata") or {}).get("name", ""))
    if "." in name:
        conversion.note(
            "metadata.name", f"{name!r} contains a dot, which host names of pods may not contain: choose another name"
        )
    _plugins(conversion, conversion.spec(), "spec")


def _job_spec(conversion: Conversion, spec: Json, path: str) -> None:
    _set_scheduler(conversion, spec, tuple(path.split(".")))
    for number, task in _mappings(spec.get("tasks")):
        if not task.get("name"):
            task["name"] = f"default{number}"
        # The default is 0 in Volcano, 1 here.
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
    """Note policies with actions that only the controller itself takes."""
    for number, policy in _mappings(holder.get("policies")):
        if policy.get("action") in _CONTROLLER_ACTIONS:
            where = f"{path}.policies[{number}].action"
            conversion.note(where, f"action {policy['action']} is not supported in policies: choose another action")


def _mappings(value: Any) -> list[tuple[int, Json]]:
    """Return the items of a list that are mappings, with their indexes."""
    items = enumerate(value if isinstance(value, list) else ())
    return [(number, item) for number, item in items if isinstance(item, dict)]


def _plugins(conversion: Conversion, spec: Json, path: str) -> None:
    """Remove unknown plugins; note arguments that are not valid."""
    plugins = spec.get("plugins")
    if not isinstance(plugins, dict):
        return
    for name in sorted(set(plugins) - set(JOB_PLUGINS)):
        del plugins[name]
        conversion.note(f"{path}.plugins.{name}", "unknown plugin: omitted")
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
    for number, step in _mappings(conversion.spec().get("flows")):
        depends = step.get("dependsOn")
        if isinstance(depends, dict) and depends.get("probe"):
            conversion.note(
                f"spec.flows[{number}].dependsOn.probe", "ignored by Volcano, but effective here: check its value"
            )
        if step.get("patch"):
            conversion.note(f"spec.flows[{number}].patch", "ignored by Volcano, but effective here: check its value")
            _set_scheduler(conversion, step["patch"], ("spec", "flows", number, "patch"))


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
            conversion.note("target.uid", "belongs to the object in the old cluster: set the uid of the new object")


def _names_only(conversion: Conversion) -> None:
    """Change nothing besides names."""


_COUNTERPARTS: Mapping[tuple[str, str], Counterpart] = {
    ("batch.volcano.sh", "Job"): Counterpart(BatchJob, _job),
    ("batch.volcano.sh", "CronJob"): Counterpart(CronBatchJob, _cron),
    ("bus.volcano.sh", "Command"): Counterpart(Command, _command),
    ("flow.volcano.sh", "JobFlow"): Counterpart(JobFlow, _flow),
    ("flow.volcano.sh", "JobTemplate"): Counterpart(JobTemplate, _template),
    ("nodeinfo.volcano.sh", "Numatopology"): Counterpart(NumaTopology, _names_only),
    ("scheduling.volcano.sh", "PodGroup"): Counterpart(PodGroup, _names_only),
    ("scheduling.volcano.sh", "Queue"): Counterpart(Queue, _queue),
    ("topology.volcano.sh", "HyperNode"): Counterpart(HyperNode, _names_only),
}
_NAMES: Mapping[str, str] = VOLCANO.aliases | {
    VOLCANO.api_version(version): version
    for counterpart in _COUNTERPARTS.values()
    for version in get_args(counterpart.model.model_fields["api_version"].annotation)
    or (counterpart.model.model_fields["api_version"].default,)
}
"""What volcanopy implements: its name of each label, annotation, and group and version of Volcano."""
