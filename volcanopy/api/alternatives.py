"""Alternative requests of a job, of which the scheduler selects one: with GPUs or without, few large pods or small ones.

Batch systems call such jobs moldable (OAR lists several resource requests with a walltime each). The alternatives of a job
change the templates of its tasks; what applies is the job with one alternative merged into it.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from volcanopy.api.model import Duration, Int32, Json, Label, Model, ResourceList, keyed

_PartialTemplate = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


def _definition(kind: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "object", "x-volcanopy-definition": f"io.k8s.api.core.v1.{kind}"})


class AlternativeTask(Model):
    """Changes of a task in an alternative."""

    name: Label
    """Name of the task."""
    template: _PartialTemplate = Field(default_factory=dict)
    """Changes of the template. Objects are merged, lists of named items are merged by name, other values are replaced; null
    removes a field."""


class Alternative(Model):
    """One of the alternatives of a job."""

    name: Label
    """Name of the alternative."""
    running_estimate: Duration | None = None
    """Expected running time of the job with this alternative, such as 30m. Defaults to runningEstimate of the job."""
    tasks: list[AlternativeTask] = Field(default_factory=list, max_length=128, json_schema_extra=keyed("name"))
    """Changes of tasks. Tasks that are not named have their template."""


class PodGroupAlternativeTask(Model):
    """Pods of a task in an alternative, as far as they select nodes."""

    name: str = Field(default="", max_length=253)
    """Name of the task."""
    pods: Int32 = Field(default=1, ge=0)
    """Number of pods that must be placed."""
    requests: ResourceList = Field(default_factory=dict)
    """Resource requests of a pod."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Node selector of the pods."""
    node_affinity: Annotated[dict[str, Any] | None, _definition("NodeAffinity")] = None
    """Node affinity of the pods."""
    tolerations: list[Annotated[dict[str, Any], _definition("Toleration")]] = Field(default_factory=list)
    """Tolerations of the pods."""


class PodGroupAlternative(Model):
    """One of the alternatives of a PodGroup whose pods do not exist yet."""

    name: Label
    """Name of the alternative."""
    min_resources: ResourceList = Field(default_factory=dict)
    """Total resource requests of the minimum number of pods."""
    running_estimate: Duration | None = None
    """Expected running time."""
    tasks: list[PodGroupAlternativeTask] = Field(default_factory=list, max_length=128)
    """Pods by task."""


class SelectedAlternative(Model):
    """Alternative that the scheduler selected."""

    name: str = Field(default="", max_length=63)
    """Name of the alternative."""
    message: str = Field(default="", max_length=1024)
    """Expected finishes of the alternatives when the job was admitted."""


def merged(base: object, patch: object) -> object:
    """Return ``base`` with ``patch`` merged into it: objects by field, lists of named items by name, others replaced.

    A field that is null in the patch is removed.
    """
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        fields = {key: value for key, value in base.items() if key not in patch}
        laid = {key: merged(base.get(key), value) for key, value in patch.items() if value is not None}
        return fields | laid
    if isinstance(base, list) and isinstance(patch, list) and _named(base) and _named(patch):
        changes = {item["name"]: item for item in patch}
        item_names = {item["name"] for item in base}
        items = [merged(item, changes[item["name"]]) if item["name"] in changes else item for item in base]
        return items + [item for item in patch if item["name"] not in item_names]
    return patch


def _named(items: list[Json]) -> bool:
    return all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items)
