"""With the value `api` the parts serve Volcano's API, with the same rights for its kinds as for those of volcanopy."""

from typing import Any

import pytest

from tests.charts.rendering import RenderError, Right, render, rights_of
from volcanopy.api.bindings import VOLCANO

Json = dict[str, Any]
ROLES = ("scheduler", "controller", "admission", "view", "edit", "queue-view", "queue-admin")


def rights(objects: list[Json], role: str) -> set[Right]:
    """Every right that a role gives for kinds of one of the APIs."""
    return {right for right in rights_of(objects, role) if right[0].endswith((".volcanopy.io", ".volcano.sh"))}


def named_by_volcano(right: Right) -> Right:
    """A right under the names of Volcano's API, where the status of a PodGroup is written with the object."""
    group, resource, verb = right
    plural, _, part = resource.partition("/")
    part = "" if (plural, part) == ("podgroups", "status") else part
    return VOLCANO.group(group), VOLCANO.plural(plural) + (f"/{part}" if part else ""), verb


def test_every_right_for_a_kind_is_given_for_that_of_volcano() -> None:
    discovery = {"networkTopologyDiscovery": [{"source": "label"}]}
    objects = render({"controller": {"config": discovery}})
    for role in ROLES:
        ours = {right for right in rights(objects, role) if right[1] != "jobhistories"}
        assert ours
        assert rights(objects, f"volcano-{role}") == set(map(named_by_volcano, ours)), role


@pytest.mark.parametrize(
    ("values", "argument"), [({}, ""), ({"api": "volcano"}, "--api=volcano")], ids=["both", "volcano"]
)
def test_the_services_have_their_roles_and_the_argument(values: Json, argument: str) -> None:
    objects = render(values)
    bound = {item["roleRef"]["name"]: item["subjects"] for item in objects if item["kind"] == "ClusterRoleBinding"}
    for part in ("scheduler", "controller", "admission"):
        assert [subject["name"] for subject in bound[f"volcanopy-volcano-{part}"]] == [f"volcanopy-{part}"]
    arguments = [
        container["args"]
        for item in objects
        if item["kind"] == "Deployment"
        for container in item["spec"]["template"]["spec"]["containers"]
    ]
    assert len(arguments) == 3
    assert all(
        [arg for arg in args if arg.startswith("--api")] == ([argument] if argument else []) for args in arguments
    )


def test_the_controller_may_write_objects_of_jobs_of_both_apis() -> None:
    [policy] = [
        item
        for item in render()
        if item["kind"] == "ValidatingAdmissionPolicy" and item["metadata"]["name"] == "volcanopy-controller-objects"
    ]
    expressions = " ".join(validation["expression"] for validation in policy["spec"]["validations"])
    assert "o.kind == 'Job' && o.apiVersion.startsWith('batch.volcano.sh/')" in expressions
    assert "o.kind == 'BatchJob' && o.apiVersion.startsWith('batch.volcanopy.io/')" in expressions


def test_without_volcanos_api_nothing_names_volcano() -> None:
    text = str(render({"api": "volcanopy"}))
    assert "volcano.sh" not in text
    assert text.count("--api=volcanopy") == 3


def test_another_api_is_refused() -> None:
    with pytest.raises(RenderError, match="api"):
        render({"api": "kueue"})
