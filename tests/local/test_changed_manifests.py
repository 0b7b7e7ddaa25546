"""Manifests that were changed at random, posted to the embedded API server: stored, or rejected for what is wrong with them."""

import random
from collections.abc import AsyncIterator

import pytest

from embedded_apiserver.kinds.builtin import builtin_kinds
from embedded_apiserver.server import ApiServer
from http_client import Client
from tests.changed_manifests import changed, manifests
from volcanopy.api.crd import crds

SEEDS, AT_ONCE = 600, 200


def paths() -> dict[tuple[str, str], str]:
    """Return the path of each kind in the namespace ``default``, by API version and kind."""
    kinds = {(kind.api_version, kind.kind): (kind.plural, kind.namespaced) for kind in builtin_kinds()}
    for spec in (definition["spec"] for definition in crds()):
        place = (spec["names"]["plural"], spec["scope"] == "Namespaced")
        kinds |= {(f"{spec['group']}/{version['name']}", spec["names"]["kind"]): place for version in spec["versions"]}
    return {
        (version, kind): f"/api{'s' if '/' in version else ''}/{version}{'/namespaces/default' * namespaced}/{plural}"
        for (version, kind), (plural, namespaced) in kinds.items()
    }


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """A client of an empty cluster."""
    connected = Client(server.url)
    yield connected
    await connected.close()


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
async def test_a_changed_manifest_is_stored_or_rejected(client: Client, first: int) -> None:
    for definition in crds():
        await client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    known, places = manifests(), paths()
    for seed in range(first, first + AT_ONCE):
        rng = random.Random(seed)
        body = changed(rng.choice(known), rng)
        code, answer = await client.ask("POST", places[body["apiVersion"], body["kind"]], body)
        assert code in {201, 400, 403, 409, 422}, f"seed {seed}: {answer}"
