"""The chart's CustomResourceDefinitions, as the real API server judges them: schemas, CEL rules and their cost."""

from pathlib import Path

import pytest

from tests.controlplane.fixtures import chart_crd, chart_crds, chart_files
from tests.controlplane.plane import CRDS, ControlPlane
from volcanopy.api.crd import RESOURCES, Resource

pytestmark = pytest.mark.real


@pytest.mark.parametrize("file", chart_files(), ids=lambda file: file.name.partition(".")[0])
def test_the_api_server_accepts_the_definition(plane: ControlPlane, file: Path) -> None:
    """Nothing is stored; any complaint, or any field that it does not know, is the failure's text."""
    plane.request("POST", f"{CRDS}?dryRun=All&fieldValidation=Strict", chart_crd(file))


def test_the_sessions_control_plane_serves_every_kind(real_control_plane: ControlPlane) -> None:
    for definition in chart_crds():
        spec = definition["spec"]
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            assert real_control_plane.request("GET", path)["kind"].endswith("List")


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda item: item.name)
def test_the_api_server_prefers_the_version_of_owner_references(
    real_control_plane: ControlPlane, resource: Resource
) -> None:
    """The garbage collector verifies a reference of any other version by two reads for each dependent."""
    group = resource.api_version.partition("/")[0]
    preferred = real_control_plane.request("GET", f"/apis/{group}")["preferredVersion"]["groupVersion"]
    assert preferred == resource.api_version
