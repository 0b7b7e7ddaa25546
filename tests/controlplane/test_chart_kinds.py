"""The chart's CustomResourceDefinitions, as the real API server judges them: schemas, CEL rules and their cost."""

from typing import Any

import pytest

from tests.controlplane.fixtures import chart_crds
from tests.controlplane.plane import CRDS, ControlPlane

pytestmark = pytest.mark.real


@pytest.mark.parametrize("definition", chart_crds(), ids=lambda crd: crd["spec"]["names"]["plural"])
def test_the_api_server_accepts_the_definition(plane: ControlPlane, definition: dict[str, Any]) -> None:
    """Nothing is stored; any complaint, or any field that it does not know, is the failure's text."""
    plane.request("POST", f"{CRDS}?dryRun=All&fieldValidation=Strict", definition)


def test_the_sessions_control_plane_serves_every_kind(real_control_plane: ControlPlane) -> None:
    for definition in chart_crds():
        spec = definition["spec"]
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            assert real_control_plane.request("GET", path)["kind"].endswith("List")
