"""Annotations of another API on a pod: it would silently run alone, or in the default queue."""

from typing import Any

import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import validate


def warnings(scheduler: str, annotations: dict[str, str], served: list[str]) -> list[str]:
    """Return the warnings about a pod that is created."""
    spec = {"schedulerName": scheduler, "containers": [{"name": "a", "image": "b"}]}
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "team",
        "name": "x",
        "userInfo": {"username": "ana", "groups": ["system:authenticated"]},
        "object": {"metadata": {"name": "x", "namespace": "team", "annotations": annotations}, "spec": spec},
    }
    policy = AdmissionPolicy.read({"schedulerNames": served}, unknown="forbid")
    response: dict[str, Any] = validate({"request": request}, Context(policy=policy))["response"]
    return [text for text in response.get("warnings", ()) if "no effect" in text]


@pytest.mark.parametrize("name", ["group-name", "queue-name"])
def test_a_key_of_volcano_has_no_effect_with_our_scheduler(name: str) -> None:
    key = f"scheduling.volcano.sh/{name}"
    cause = f'metadata.annotations[{key}]: no effect with schedulerName "volcanopy": use scheduling.volcanopy.io/{name}'
    assert warnings("volcanopy", {key: "g"}, ["volcanopy"]) == [cause]
    assert warnings("volcanopy", {key: "g"}, ["volcanopy", "volcano"]) == [f'{cause}, or schedulerName "volcano"']


@pytest.mark.parametrize(
    ("scheduler", "key"),
    [
        ("volcano", "scheduling.volcano.sh/queue-name"),
        ("volcanopy", "scheduling.volcanopy.io/queue-name"),
        ("volcanopy", "example.com/queue-name"),
    ],
)
def test_other_keys_have_no_such_warning(scheduler: str, key: str) -> None:
    assert warnings(scheduler, {key: "default"}, ["volcanopy", "volcano"]) == []
