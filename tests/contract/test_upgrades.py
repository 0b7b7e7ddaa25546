"""Objects of the first release under the definitions of this one, and back."""

import asyncio
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded_apiserver.server import ApiServer
from tests.controlplane.fixtures import chart_crds, real_control_plane
from tests.controlplane.plane import ControlPlane
from volcanopy.api.crd import RESOURCES
from volcanopy.client.manifests import DEFINITIONS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import NAMESPACES
from volcanopy_local.cluster import self_signed

__all__ = ["real_control_plane"]

FOLDER = Path(__file__).parent
BY_KIND = {resource.kind: resource for resource in RESOURCES}
SMALL = {"Command", "HyperNode", "JobHistory", "NumaTopology", "Queue"}
"""The kinds that are moved on the real server, which takes long to serve definitions that contain the fields of pods."""


def documents(name: str, kinds: AbstractSet[str]) -> list[Json]:
    """The documents of a file of this folder about these kinds."""
    found = list(yaml.load_all((FOLDER / name).read_text(), yaml.CSafeLoader))
    return [each for each in found if kind_of(each) in kinds]


def definitions_of_the_chart(kinds: AbstractSet[str]) -> list[Json]:
    """The definitions of this release of these kinds."""
    return [each for each in chart_crds() if kind_of(each) in kinds]


def kind_of(manifest: Json) -> str:
    """The kind of an object, or the one that a definition defines."""
    kind: str = manifest["kind"]
    return str(manifest["spec"]["names"]["kind"]) if kind == "CustomResourceDefinition" else kind


class Site:
    """An API server that served the first release: definitions and objects of all kinds."""

    def __init__(
        self,
        client: Client,
        kinds: AbstractSet[str],
    ) -> None:
        self.client, self.kinds = client, kinds

    async def define(self, definitions: list[Json]) -> None:
        """Create or replace definitions, and wait until just their versions are served."""
        for definition in definitions:
            try:
                known = await self.client.get(DEFINITIONS, None, definition["metadata"]["name"])
            except NotFound:
                await self.client.create(DEFINITIONS, None, definition)
            else:
                await self.client.update(
                    DEFINITIONS, None, definition["metadata"]["name"], {**known, "spec": definition["spec"]}
                )
        for definition in definitions:
            spec = definition["spec"]
            versions = {version["name"] for version in spec["versions"]}
            for version in ("v1alpha1", "v1beta1"):
                path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1"

                while True:
                    if await self._is_served(path) is (version in versions):
                        break
                    await asyncio.sleep(0.02)

    async def _is_served(self, path: str) -> bool:
        try:
            await self.client.get_raw(path)
        except NotFound:
            return False
        return True

    async def create(self, manifest: Json) -> Json:
        """Create an object, with its status."""
        kind, namespace = self._kind(manifest), manifest["metadata"].get("namespace")
        made = await self.client.create(kind, namespace, manifest)
        if "status" in manifest:
            made = await self.client.patch_status(
                kind, namespace, made["metadata"]["name"], {"status": manifest["status"]}
            )
        return made

    async def read(self, manifest: Json) -> Json:
        """The object as it is served now."""
        kind = self._kind(manifest)
        return await self.client.get(kind, manifest["metadata"].get("namespace"), manifest["metadata"]["name"])

    async def clean_up(self) -> None:
        """Restore the definitions of the chart, and delete the objects."""
        await self.define(definitions_of_the_chart(self.kinds))
        for manifest in documents("first_objects.yaml", self.kinds):
            if "namespace" not in manifest["metadata"]:
                await self.client.delete(self._kind(manifest), None, manifest["metadata"]["name"])
        await self.client.delete(NAMESPACES, None, "first")

    @staticmethod
    def _kind(manifest: Json) -> Kind[Json]:
        resource = BY_KIND[manifest["kind"]]
        group, _, version = manifest["apiVersion"].rpartition("/")
        return Kind(group, version, resource.kind, resource.plural, resource.namespaced, dict)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """Both servers; the real one is shared, and gets the definitions of the chart back."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_control_plane")
        async with Client(load_connection(plane.kubeconfig)) as client:
            made = Site(client, SMALL)
            yield made
            await made.clean_up()
        return
    server = await ApiServer.start(tls=self_signed())
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())

    async with Client(load_connection(path)) as client:
        yield Site(client, BY_KIND.keys())
    await server.stop()


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """The paths of the content that an object had before, and has no more. Defaults of later releases may be added."""
    if path == ".apiVersion" or path in {".metadata.resourceVersion", ".metadata.managedFields"}:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return [each for key, value in before.items() for each in lost(value, after.get(key), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [each for index, value in enumerate(before) for each in lost(value, after[index], f"{path}[{index}]")]
    return [] if before == after else [path]


async def test_objects_of_the_first_release_survive_the_upgrade_and_the_way_back(site: Site) -> None:
    first, objects = documents("first_definitions.yaml", site.kinds), documents("first_objects.yaml", site.kinds)
    await site.define(first)
    await site.client.create(NAMESPACES, None, {"metadata": {"name": "first"}})
    before = [await site.create(each) for each in objects]
    assert {each["kind"] for each in before} == site.kinds

    await site.define(definitions_of_the_chart(site.kinds))
    for old, manifest in zip(before, objects, strict=True):
        served = await site.read(manifest)
        assert lost(old, served) == []
        assert BY_KIND[old["kind"]].model.problems(served) == ()

    await site.define(first)
    for old, manifest in zip(before, objects, strict=True):
        assert lost(old, await site.read(manifest)) == []
