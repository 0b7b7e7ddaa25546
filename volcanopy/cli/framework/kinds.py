"""The kinds that commands show, as whole objects, with the words that people call them by."""

from dataclasses import dataclass
from typing import Any

from volcanopy.api import names
from volcanopy.kube.client.kinds import Json, Kind

JOBS: Kind[Json] = Kind(names.BATCH, "v1alpha1", "BatchJob", "batchjobs", True, dict)
CRON_JOBS: Kind[Json] = Kind(names.BATCH, "v1alpha1", "CronBatchJob", "cronbatchjobs", True, dict)
POD_GROUPS: Kind[Json] = Kind(names.SCHEDULING, "v1beta1", "PodGroup", "podgroups", True, dict)
QUEUES: Kind[Json] = Kind(names.SCHEDULING, "v1beta1", "Queue", "queues", False, dict)
FLOWS: Kind[Json] = Kind(names.FLOW, "v1alpha1", "JobFlow", "jobflows", True, dict)
TEMPLATES: Kind[Json] = Kind(names.FLOW, "v1alpha1", "JobTemplate", "jobtemplates", True, dict)
COMMANDS: Kind[Json] = Kind(names.BUS, "v1alpha1", "Command", "commands", True, dict)
PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)
NAMESPACES: Kind[Json] = Kind("", "v1", "Namespace", "namespaces", False, dict)
EVENTS: Kind[Json] = Kind("", "v1", "Event", "events", True, dict)

_WORDS = {
    "BatchJob": "job",
    "CronBatchJob": "cron job",
    "PodGroup": "pod group",
    "JobFlow": "job flow",
    "JobTemplate": "job template",
}


def word(kind: Kind[Any]) -> str:
    """What people call one of them."""
    return _WORDS.get(kind.kind, kind.kind.lower())


def resource(kind: Kind[Any]) -> str:
    """The kind as ``-o name`` says it: ``batchjob.batch.volcanopy.io``."""
    return f"{kind.kind.lower()}.{kind.group}" if kind.group else kind.kind.lower()


@dataclass(frozen=True)
class ObjectKey:
    """The identity of an object as commands speak of it."""

    namespace: str
    name: str


def key_of(body: Json) -> ObjectKey:
    """Where an object is, and its name."""
    metadata = body["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def status_of(body: Json) -> Json:
    """The object's status, empty if it has none yet."""
    return body.get("status") or {}


def spec_of(body: Json) -> Json:
    """The object's spec."""
    return body.get("spec") or {}


def labels_of(body: Json) -> dict[str, str]:
    """The object's labels."""
    return body["metadata"].get("labels") or {}
