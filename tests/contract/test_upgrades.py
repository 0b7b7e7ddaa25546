"""Objects of the first release under the definitions of this one, moved between the versions of the API, and back."""

import asyncio
import base64
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded_apiserver.server import ApiServer
from tests.controlplane.fixtures import chart_crds, real_control_plane
from tests.controlplane.plane import ControlPlane
from volcanopy.api.crd import RESOURCES
from volcanopy.cli import storage_migration
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.storage_migration import DEFINITIONS, migrate
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Invalid, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import NAMESPACES
from volcanopy.local.cluster import self_signed

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
        cluster: ClusterOptions,
        stored: Callable[[str, str, str], Json],
        kinds: AbstractSet[str],
        settle: float = 0.0,
    ) -> None:
        self.client, self.cluster, self.kinds, self.settle = client, cluster, kinds, settle
        self._stored = stored

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

    async def read(self, manifest: Json, version: str = "") -> Json:
        """The object as it is served now, by default in its own version."""
        kind = self._kind(manifest, version)
        return await self.client.get(kind, manifest["metadata"].get("namespace"), manifest["metadata"]["name"])

    def stored_version(self, manifest: Json) -> str:
        """The version that the object is stored in."""
        resource = BY_KIND[manifest["kind"]]
        group = resource.api_version.partition("/")[0]
        meta = manifest["metadata"]
        body = self._stored(f"{group}/{resource.plural}", meta.get("namespace", ""), meta["name"])
        return str(body["apiVersion"]).partition("/")[2]

    async def clean_up(self) -> None:
        """Restore the definitions of the chart, and delete the objects."""
        await self.define(definitions_of_the_chart(self.kinds))
        for manifest in documents("first_objects.yaml", self.kinds):
            if "namespace" not in manifest["metadata"]:
                await self.client.delete(self._kind(manifest), None, manifest["metadata"]["name"])
        await self.client.delete(NAMESPACES, None, "first")

    @staticmethod
    def _kind(manifest: Json, version: str = "") -> Kind[Json]:
        resource = BY_KIND[manifest["kind"]]
        group, _, own = manifest["apiVersion"].rpartition("/")
        return Kind(group, version or own, resource.kind, resource.plural, resource.namespaced, dict)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """Both servers; the real one is shared, and gets the definitions of the chart back."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_control_plane")
        cluster = ClusterOptions(plane.kubeconfig)
        async with Client(load_connection(plane.kubeconfig)) as client:
            # The API server takes a changed definition over when its own watch of it has seen the change.
            made = Site(client, cluster, lambda *key: stored_in_etcd(plane, *key), SMALL, settle=1.0)
            yield made
            await made.clean_up()
        return
    server = await ApiServer.start(tls=self_signed())
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())

    def stored(resource: str, namespace: str, name: str) -> Json:
        group, _, plural = resource.partition("/")
        entry = server.context.store.bucket(f"{plural}.{group}").get(namespace, name)
        assert entry is not None
        return entry.body

    async with Client(load_connection(path)) as client:
        yield Site(client, ClusterOptions(path), stored, BY_KIND.keys())
    await server.stop()


def stored_in_etcd(plane: ControlPlane, resource: str, namespace: str, name: str) -> Json:
    """The object as etcd has it."""
    key = "/".join(part for part in ("/registry", resource, namespace, name) if part)
    query = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{plane.etcd}/v3/kv/range", query), timeout=120) as answer:
        found: list[Any] = json.load(answer)["kvs"]
    body: Json = json.loads(base64.b64decode(found[0]["value"]))
    return body


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """The paths of the content that an object had before, and has no more. Defaults of later releases may be added."""
    if path == ".apiVersion" or path in {".metadata.resourceVersion", ".metadata.managedFields"}:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return [each for key, value in before.items() for each in lost(value, after.get(key), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [each for index, value in enumerate(before) for each in lost(value, after[index], f"{path}[{index}]")]
    return [] if before == after else [path]


async def test_objects_of_the_first_release_survive_the_upgrade_a_migration_and_the_way_back(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = [resource for resource in RESOURCES if resource.kind in site.kinds]
    monkeypatch.setattr(storage_migration, "RESOURCES", moved)
    first, objects = documents("first_definitions.yaml", site.kinds), documents("first_objects.yaml", site.kinds)
    await site.define(first)
    await site.client.create(NAMESPACES, None, {"metadata": {"name": "first"}})
    before = [await site.create(each) for each in objects]
    assert {each["kind"] for each in before} == site.kinds

    # The definitions of this release serve v1beta1 too, with the same content.
    await site.define(definitions_of_the_chart(site.kinds))
    for old, manifest in zip(before, objects, strict=True):
        for version in ("v1beta1", manifest["apiVersion"].rpartition("/")[2]):
            served = await site.read(manifest, version)
            assert lost(old, served) == []
            assert served["apiVersion"].rpartition("/")[2] == version
            assert BY_KIND[old["kind"]].model.problems(served) == ()

    # Migrated, all objects are stored in v1beta1, and the definitions know no other stored version.
    await migrate(site.cluster, "v1beta1", site.settle)
    # A control plane that tests share may have more Commands.
    assert re.search(r"commands: [1-9]\d* objects stored in v1beta1, none in v1alpha1", capsys.readouterr().out)
    for old, manifest in zip(before, objects, strict=True):
        assert site.stored_version(manifest) == "v1beta1"
        assert lost(old, await site.read(manifest)) == []
    for resource in moved:
        definition = await site.client.get(DEFINITIONS, None, resource.name)
        assert definition["status"]["storedVersions"] == ["v1beta1"]
    await migrate(site.cluster, None, 0)
    assert "commands: all objects are stored in v1beta1" in capsys.readouterr().out

    # The definitions of the first release are rejected, until the objects are stored in its version again.
    with pytest.raises(
        Invalid, match=r'status.storedVersions\[0\]: Invalid value: "v1beta1": missing from spec.versions'
    ):
        await site.define(first)
    await migrate(site.cluster, "v1alpha1", site.settle)
    await site.define(first)
    for old, manifest in zip(before, objects, strict=True):
        assert site.stored_version(manifest) == manifest["apiVersion"].rpartition("/")[2]
        assert lost(old, await site.read(manifest)) == []
