"""Read models against the full models: every field of a custom resource can be read, under the name that users write."""

from typing import Any, get_args

import msgspec
import pytest
from pydantic import BaseModel

from volcanopy.api import batch, batch_read, core, cron, flow, history, lifecycle, scheduling, topology, topology_read
from volcanopy.api.crd import RESOURCES
from volcanopy.api.model import Condition, Model, OwnerReference

PAIRS: dict[type[Model], Any] = {
    batch.BatchJob: batch_read.BatchJob,
    cron.CronBatchJob: batch_read.CronBatchJob,
    flow.JobFlow: batch_read.JobFlow,
    flow.JobTemplate: batch_read.JobTemplate,
    scheduling.PodGroup: core.PodGroup,
    scheduling.Queue: core.Queue,
    topology.HyperNode: topology_read.HyperNode,
    topology.NumaTopology: topology_read.NumaTopology,
}
SHARED = {"apiVersion", "kind", "metadata"}
"""Fields that a read model does not have, or that all kinds have in common."""
OPTIONAL: dict[type[Any], set[str]] = {OwnerReference: {"blockOwnerDeletion"}, Condition: {"transitionID"}}
"""Fields that are not read, or that one kind has and the shared read model of all kinds too."""


def classes(annotation: Any, base: type[Any]) -> list[type[Any]]:
    """Return the classes below ``base`` that a type annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, base):
        return [annotation]
    return [cls for part in get_args(annotation) for cls in classes(part, base)]


def differences(full: type[BaseModel], read: Any, path: str) -> list[str]:
    """Return the fields that only one of the two models has, at every depth."""
    ours = {field.alias or name: field for name, field in full.model_fields.items()}
    theirs = {field.encode_name: field for field in msgspec.structs.fields(read)}
    skipped = SHARED | OPTIONAL.get(full, set())
    result = [f"{path}.{name}" for name in sorted((ours.keys() ^ theirs.keys()) - skipped)]
    for name in sorted((ours.keys() & theirs.keys()) - skipped):
        for inner, other in zip(
            classes(ours[name].annotation, BaseModel), classes(theirs[name].type, msgspec.Struct), strict=False
        ):
            result += differences(inner, other, f"{path}.{name}")
    return result


def test_every_custom_resource_that_is_read_often_has_a_read_model() -> None:
    # A Command is read once, by the controller that executes it, with the full model; records of jobs by reports only.
    assert {resource.model for resource in RESOURCES} - {lifecycle.Command, history.JobHistory} == set(PAIRS)


@pytest.mark.parametrize("full", PAIRS, ids=lambda model: model.__name__)
def test_a_read_model_has_the_fields_of_the_full_model(full: type[Model]) -> None:
    assert full.__name__ == PAIRS[full].__name__
    assert differences(full, PAIRS[full], full.__name__) == []
