"""The values for gangs and queues of other APIs give the controller its arguments and rights."""

from typing import Any

import pytest

from tests.charts.rendering import RenderError, Right, one, render, rights_of
from volcanopy.api.gang_apis import GANG_APIS, StatusForm

Json = dict[str, Any]


def arguments(objects: list[Json]) -> list[str]:
    """The arguments of the controller."""
    deployment = one(objects, "Deployment", "volcanopy-controller")
    return list(deployment["spec"]["template"]["spec"]["containers"][0]["args"])


def rights(objects: list[Json]) -> set[Right]:
    """The rights of the controller for kinds of these APIs."""
    groups = {api.group for api in GANG_APIS.values()}
    return {right for right in rights_of(objects, "controller") if right[0] in groups and right[1] != "priorityclasses"}


def test_each_gang_api_is_an_argument_of_the_controller_with_its_rights() -> None:
    objects = render({"controller": {"gangApis": list(GANG_APIS)}})
    assert {f"--gang-api={name}" for name in GANG_APIS} <= set(arguments(objects))
    expected = {(api.group, "podgroups", verb) for api in GANG_APIS.values() for verb in ("list", "watch")}
    written = {api.group for api in GANG_APIS.values() if api.status is not StatusForm.NONE}
    assert rights(objects) == expected | {(group, "podgroups/status", "patch") for group in written}


def test_by_default_no_other_gang_api_is_read() -> None:
    objects = render()
    assert rights(objects) == set()
    assert not any(argument.startswith(("--gang-api", "--queue-label")) for argument in arguments(objects))


def test_an_unknown_gang_api_is_refused() -> None:
    with pytest.raises(RenderError, match="gangApis"):
        render({"controller": {"gangApis": ["yunikorn"]}})


def test_labels_that_name_queues_are_given_to_admission_and_the_controller_by_one_value() -> None:
    label = "kueue.x-k8s.io/queue-name"
    objects = render({"admission": {"policy": {"queueLabels": [label]}}})
    assert f"--queue-label={label}" in arguments(objects)
    [config] = [
        item for item in objects if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "volcanopy-admission"
    ]
    assert label in str(config["data"])
