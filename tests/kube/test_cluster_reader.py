"""A snapshot read once has the objects of the store that watches."""

import asyncio
from typing import Any

import pytest

from tests.kube.cluster import Cluster
from volcanopy.kube.cache import cluster_reader, followed_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.decoding import Listing
from volcanopy.kube.client.errors import Forbidden, from_response
from volcanopy.kube.client.kinds import Kind
from volcanopy.services.scheduler.dump import objects
from volcanopy.services.scheduler.state.store import Store
from volcanopy_testing.notation import NOW


async def test_a_single_read_has_the_same_kinds_and_objects_as_the_store(cluster: Cluster) -> None:
    await cluster.gang("a", 2)
    followed, taken = Store(), Store()
    following = asyncio.create_task(followed.follow(cluster.client))
    try:
        await followed.synced()
        assert await cluster_reader.read_all(ApiViews(cluster.client), taken.take) == []
        assert {reflector.kind.kind for reflector in followed.reflectors} == {
            kind.kind for kind in (*followed_kinds.REQUIRED, *followed_kinds.OPTIONAL)
        }
        first, second = (objects(item.snapshot(NOW, "s")) for item in (followed, taken))
        assert sorted(map(str, first)) == sorted(map(str, second))
        assert [item["metadata"]["name"] for item in first if item["kind"] == "Pod"] == ["a-0", "a-1"]
    finally:
        following.cancel()


class ForbiddenKinds(Client):
    """A client that may not list some kinds."""

    hidden: frozenset[str] = frozenset()

    async def list(self, kind: Kind[Any], *given: Any, **more: Any) -> Listing[Any]:
        if kind.plural in self.hidden:
            raise from_response(403, b'{"kind": "Status", "message": "no", "reason": "Forbidden", "code": 403}', None)
        return await super().list(kind, *given, **more)


async def test_forbidden_kinds_are_omitted_unless_required(cluster: Cluster) -> None:
    async with ForbiddenKinds(cluster.connection) as client:
        client.hidden = frozenset({"persistentvolumes", "storageclasses"})
        assert await cluster_reader.read_all(ApiViews(client), Store().take) == ["persistentvolumes", "storageclasses"]
        client.hidden = frozenset({"nodes"})
        with pytest.raises(Forbidden):
            await cluster_reader.read_all(ApiViews(client), Store().take)
