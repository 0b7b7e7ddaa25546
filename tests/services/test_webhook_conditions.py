"""The conditions of webhooks: which requests are reviewed at all."""

from typing import Any

import cel
import pytest

from volcanopy.admission.context import AdmissionPolicy
from volcanopy.services.admission.webhook_configuration import Registration


def is_reviewed(before: dict[str, Any], after: dict[str, Any]) -> Any:
    """Whether a change of the labels and annotations of a pod is reviewed."""
    registered = Registration("https://x:1", policy=AdmissionPolicy.read({"controllers": ["controller"]}))
    [changed] = [
        condition["expression"]
        for _, configuration in registered.configurations()
        for webhook in configuration["webhooks"]
        for condition in webhook.get("matchConditions", ())
        if condition["name"] == "changed-after-creation"
    ]
    objects = {"object": {"metadata": after}, "oldObject": {"metadata": before}}
    return cel.compile(changed).execute(cel.Context(objects))


@pytest.mark.parametrize("part", ["annotations", "labels"])
@pytest.mark.parametrize("value", ["false", ""])
def test_a_power_that_a_pod_gets_or_loses_is_reviewed_whatever_its_value(part: str, value: str) -> None:
    with_power = {part: {"volcanopy.io/preemptable": value}}
    assert is_reviewed({}, with_power)
    assert is_reviewed({part: {"a": "b"}}, with_power)
    assert is_reviewed(with_power, {})
    assert not is_reviewed(with_power, with_power)
    assert not is_reviewed({}, {part: {"a": ""}})


def test_another_kind_of_an_owner_with_the_same_uid_is_reviewed() -> None:
    """The uid of a job may be written into the reference to a workload first."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1"}
    before: dict[str, Any] = {"ownerReferences": [owner]}
    job = {**owner, "apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob"}
    assert is_reviewed(before, {"ownerReferences": [job]})
    assert not is_reviewed(before, before)


@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_another_queue_of_a_pod_of_a_job_is_reviewed(part: str) -> None:
    assert is_reviewed({part: {"volcanopy.io/queue-name": "a"}}, {part: {"volcanopy.io/queue-name": "b"}})
