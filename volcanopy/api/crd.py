"""From a model to its CustomResourceDefinition, so that an API server knows and enforces what the model says.

The schema is structural: references are put in place, nulls are absent fields, defaults are those of the spec (a
status has none), rules are CEL. :func:`render_crds` gives the files of ``charts/volcanopy/crds``, which the command
``volcanopy crd`` writes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from volcanopy.api.batch import BatchJob
from volcanopy.api.builtin_schemas import structural
from volcanopy.api.bus import Command
from volcanopy.api.cron import CronBatchJob
from volcanopy.api.flow import JobFlow, JobTemplate
from volcanopy.api.model import Json, Model
from volcanopy.api.nodeinfo import NumaTopology
from volcanopy.api.scheduling import PodGroup, Queue
from volcanopy.api.topology import HyperNode

HEADER = "# Written by `volcanopy crd` from the models in volcanopy/api: change them, not this file.\n"


@dataclass(frozen=True)
class Column:
    """A column of ``kubectl get``: shown always, or with ``-o wide`` only."""

    name: str
    path: str
    description: str
    type: str = "string"
    wide: bool = False

    def schema(self) -> Json:
        """The entry of ``additionalPrinterColumns``."""
        entry: Json = {"name": self.name, "type": self.type, "jsonPath": self.path, "description": self.description}
        return entry | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True)
class Resource:
    """How a model is served: its names, its scope, its columns."""

    model: type[Model]
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    status: bool = True
    columns: tuple[Column, ...] = ()

    @property
    def api_version(self) -> str:
        """Group and version, ``batch.volcanopy.io/v1alpha1``."""
        version: str = self.model.model_fields["api_version"].default
        return version

    @property
    def kind(self) -> str:
        """The kind, ``BatchJob``."""
        return self.model.__name__

    @property
    def name(self) -> str:
        """The name of the definition, ``batchjobs.batch.volcanopy.io``."""
        return f"{self.plural}.{self.api_version.partition('/')[0]}"


_AGE = Column("Age", ".metadata.creationTimestamp", "Time since it was made", type="date")

RESOURCES = (
    Resource(
        BatchJob,
        "batchjobs",
        ("bj",),
        columns=(
            Column("Phase", ".status.state.phase", "Where the job stands"),
            Column("Min", ".status.minAvailable", "Pods that must be able to run at once", "integer"),
            Column("Running", ".status.running", "Running pods", "integer"),
            Column("Succeeded", ".status.succeeded", "Pods that have ended well", "integer"),
            Column("Failed", ".status.failed", "Pods that have failed", "integer"),
            Column("Queue", ".spec.queue", "The queue that the job waits in"),
            _AGE,
            Column("Pending", ".status.pending", "Pods that have not started", "integer", wide=True),
            Column("Retries", ".status.retryCount", "Restarts so far", "integer", wide=True),
            Column("Reason", ".status.state.reason", "Why it stands there, in a word", wide=True),
            Column("Message", ".status.state.message", "Why it stands there, in a sentence", wide=True),
        ),
    ),
    Resource(
        CronBatchJob,
        "cronbatchjobs",
        ("cbj",),
        columns=(
            Column("Schedule", ".spec.schedule", "When jobs are made"),
            Column("TimeZone", ".spec.timeZone", "Where the schedule's clock stands"),
            Column("Suspend", ".spec.suspend", "Whether no further jobs are made", "boolean"),
            Column("Last", ".status.lastScheduleTime", "Time since the last job was due", "date"),
            _AGE,
            Column("Active", ".status.active[*].name", "Jobs that have not come to their end", wide=True),
            Column("Message", ".status.message", "What keeps it from making jobs", wide=True),
        ),
    ),
    Resource(
        JobFlow,
        "jobflows",
        ("jf",),
        columns=(
            Column("Phase", ".status.state.phase", "Where the flow stands"),
            _AGE,
            Column("Running", ".status.runningJobs", "Jobs that run", wide=True),
            Column("Message", ".status.state.message", "Why it stands there", wide=True),
        ),
    ),
    Resource(
        JobTemplate,
        "jobtemplates",
        ("jt",),
        columns=(Column("Queue", ".spec.queue", "The queue that its jobs wait in"), _AGE),
    ),
    Resource(
        PodGroup,
        "podgroups",
        ("pg",),
        columns=(
            Column("Phase", ".status.phase", "Where the gang stands"),
            Column("Min", ".spec.minMember", "Pods that must be able to run at once", "integer"),
            Column("Running", ".status.running", "Running pods", "integer"),
            Column("Queue", ".spec.queue", "The queue that the gang waits in"),
            _AGE,
            Column(
                "Message",
                '.status.conditions[?(@.type=="Unschedulable")].message',
                "Why the gang waits, or last waited",
                wide=True,
            ),
        ),
    ),
    Resource(
        Queue,
        "queues",
        ("q",),
        namespaced=False,
        columns=(
            Column("State", ".status.state", "Whether the queue takes new jobs"),
            Column("Parent", ".spec.parent", "The queue that this one is a part of"),
            Column("Weight", ".spec.weight", "Share of the cluster relative to other queues", "integer"),
            Column("CPU", ".status.allocated.cpu", "Cpu that its pods hold"),
            Column("Memory", ".status.allocated.memory", "Memory that its pods hold"),
            _AGE,
            Column("Jobs", ".status.jobs", "BatchJobs that have not come to their end", "integer", wide=True),
            Column("Pending", ".status.pending", "Pod groups that wait for admission", "integer", wide=True),
            Column("Inqueue", ".status.inqueue", "Pod groups that are admitted", "integer", wide=True),
            Column("Running", ".status.running", "Pod groups that run", "integer", wide=True),
            Column("Share", ".status.share", "How much of what it is due it holds", wide=True),
            Column("Deserved", ".status.deserved.cpu", "Cpu that it is due now", wide=True),
            Column("Borrowed", ".status.borrowed.cpu", "Cpu that it holds above what it is due", wide=True),
            Column("Waiting", ".status.waiting.cpu", "Cpu that its jobs wait for", wide=True),
        ),
    ),
    Resource(
        Command,
        "commands",
        status=False,
        columns=(
            Column("Action", ".action", "What to do"),
            Column("Target", ".target.name", "The job or queue to do it with"),
            _AGE,
        ),
    ),
    Resource(
        HyperNode,
        "hypernodes",
        ("hn",),
        namespaced=False,
        columns=(
            Column("Tier", ".spec.tier", "How far up in the network it is", "integer"),
            Column("TierName", ".spec.tierName", "A word for the tier"),
            Column("Nodes", ".status.nodeCount", "Number of its nodes", "integer"),
            _AGE,
        ),
    ),
    Resource(
        NumaTopology,
        "numatopologies",
        ("numatopo",),
        namespaced=False,
        status=False,
        columns=(
            Column("CpuManager", ".spec.policies.CPUManagerPolicy", "How the kubelet hands out cpus"),
            Column("TopologyManager", ".spec.policies.TopologyManagerPolicy", "How close together they must be"),
            Column("Free", ".spec.numares.cpu.allocatable", "The cpus that nobody has been given"),
            _AGE,
        ),
    ),
)


def crd(resource: Resource) -> Json:
    """The CustomResourceDefinition of a resource."""
    group, version = resource.api_version.split("/")
    served: Json = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema(resource.model)},
    }
    if resource.status:
        served["subresources"] = {"status": {}}
    if resource.columns:
        served["additionalPrinterColumns"] = [column.schema() for column in resource.columns]
    names: Json = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "categories": ["volcanopy"],
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [served],
        },
    }


def crds() -> tuple[Json, ...]:
    """All our CustomResourceDefinitions."""
    return tuple(map(crd, RESOURCES))


def render_crds() -> dict[str, str]:
    """The files of ``charts/volcanopy/crds``: file name -> YAML text, one definition each."""
    return {f"{made['metadata']['name']}.yaml": HEADER + _yaml(made) for made in crds()}


class _Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """YAML without anchors: what is shared in memory is written out each time."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(value: Json) -> str:
    text: str = yaml.dump(value, Dumper=_Plain, sort_keys=False, width=120, allow_unicode=True)
    return text


def schema(model: type[Model]) -> Json:
    """The structural schema of a kind: its own description, spec and status, and its rules."""
    generated = model.model_json_schema(by_alias=True, mode="validation")
    definitions: dict[str, Json] = generated.pop("$defs", {})
    whole = _structural(generated, definitions, defaults=True)
    properties = whole["properties"]
    if "status" in generated["properties"]:
        properties["status"] = _structural(generated["properties"]["status"], definitions, defaults=False)
    # What every object has is the API server's to describe; it allows `type` alone here.
    properties["apiVersion"] = {"type": "string", "description": "API group and version of this object."}
    properties["kind"] = {"type": "string", "description": "Kind of this object."}
    properties["metadata"] = {"type": "object"}
    required = [name for name in whole.get("required", ()) if name not in {"metadata", "status"}]
    return {key: value for key, value in whole.items() if key != "required"} | (
        {"required": required} if required else {}
    )


def _structural(source: Json, definitions: dict[str, Json], *, defaults: bool) -> Json:
    """One node of a pydantic schema as a structural one."""
    if "x-volcanopy-definition" in source:
        found = structural(source["x-volcanopy-definition"])
        return found | {key: source[key] for key in ("description",) if key in source}
    if "x-volcanopy-mutable" in source:
        rest = {key: value for key, value in source.items() if key != "x-volcanopy-mutable"}
        return _without_transitions(_structural(rest, definitions, defaults=defaults))
    if "$ref" in source:
        target = definitions[source["$ref"].rsplit("/", 1)[1]]
        return _structural(target | {k: v for k, v in source.items() if k != "$ref"}, definitions, defaults=defaults)
    alternatives = [one for one in source.get("anyOf", ()) if one.get("type") != "null"]
    if len(alternatives) == 1:
        rest = {key: value for key, value in source.items() if key != "anyOf"}
        return _structural(alternatives[0] | rest, definitions, defaults=defaults)
    return dict(_parts(source, definitions, defaults=defaults))


def _without_transitions(made: Json) -> Json:
    """The schema without the rules about how a thing that exists may change, at every depth."""
    kept: Json = {}
    for key, value in made.items():
        if key == "x-kubernetes-validations":
            if rules := [rule for rule in value if "oldSelf" not in rule["rule"]]:
                kept[key] = rules
        elif key == "properties":
            kept[key] = {name: _without_transitions(of) for name, of in value.items()}
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            kept[key] = _without_transitions(value)
        else:
            kept[key] = value
    return kept


_DROPPED = {
    "title",
    "default",
    "const",
    "propertyNames",
    "x-volcanopy-no-default",
    "properties",
    "items",
    "additionalProperties",
}


def _parts(source: Json, definitions: dict[str, Json], *, defaults: bool) -> Iterator[tuple[str, Any]]:
    for key, value in source.items():
        if key not in _DROPPED:
            yield key, " ".join(value.split()) if key == "description" else value
    default = source.get("default")
    # An empty default says nothing that absence does not say: it is not written into people's objects.
    if defaults and isinstance(default, (str, int)) and default != "" and "x-volcanopy-no-default" not in source:
        yield "default", default
    if "properties" in source:
        yield (
            "properties",
            {name: _structural(of, definitions, defaults=defaults) for name, of in source["properties"].items()},
        )
    if "items" in source:
        yield "items", _structural(source["items"], definitions, defaults=defaults)
    if isinstance(source.get("additionalProperties"), dict):
        yield "additionalProperties", _structural(source["additionalProperties"], definitions, defaults=defaults)
