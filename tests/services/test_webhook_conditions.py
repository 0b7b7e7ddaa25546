"""The conditions of webhooks: which requests are reviewed at all."""

from typing import Any

import cel
import pytest

from volcanopy.admission.context import AdmissionPolicy
from volcanopy.services.admission.webhook_configuration import Registration

Labels = dict[str, str]


def is_reviewed(before: dict[str, Labels], after: dict[str, Labels]) -> Any:
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
