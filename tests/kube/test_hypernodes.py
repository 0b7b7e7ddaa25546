"""HyperNodes are read into the scheduler's cluster state, if the server has them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import yaml
from msgspec.structs import replace

from tests.kube.cluster import CHART, CRDS, Cluster, body, running_cluster
from volcanopy.api import topology_read
from volcanopy.kube.cache.followed_kinds import HYPER_NODES
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.errors import Invalid
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.services.scheduler.dump import objects
from volcanopy.services.scheduler.state.store import Store
from volcanopy_testing.notation import world

NOW = datetime(2031, 1, 1, tzinfo=UTC)
WORLD = """
    node n1 cpu=4
    hypernode rack-1 tier=1: n1
"""


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as started:
        yield started


async def hypernodes_of(store: Store, cluster: Cluster) -> tuple[str, ...]:
    """What the store knows of the network once everything was listed."""
    following = asyncio.create_task(store.follow(cluster.client))
    try:
        await store.synced()
        return store.snapshot(NOW).hypernodes.names
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_hypernodes_are_followed(cluster: Cluster) -> None:
    definition = (CHART / "hypernodes.topology.volcanopy.io.yaml").read_text("utf-8")
    await cluster.client.create(CRDS, None, yaml.safe_load(definition))
    await cluster.node("n1")
    members = [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]
    await cluster.client.create(
        HYPER_NODES, None, body(HYPER_NODES, "rack-1", spec={"tier": 1, "tierName": "rack", "members": members})
    )
    store = Store()
    assert await hypernodes_of(store, cluster) == ("rack-1", "<cluster>")
    assert store.snapshot(NOW).hypernodes.tier_numbers == {"rack": 1}


async def test_a_server_without_hypernodes_is_supported(cluster: Cluster) -> None:
    await cluster.node("n1")
    assert await hypernodes_of(Store(), cluster) == ("<cluster>",)


def cycle_triggered(store: Store) -> bool:
    """Whether a scheduling cycle has been triggered."""
    return store.changed.since is not None


def test_a_status_update_does_not_trigger_a_cycle() -> None:
    store = Store(clock=lambda: 5.0)
    things = world(WORLD)
    store.take([Change(ChangeType.ADDED, obj) for obj in things])
    store.changed.clear()
    table = store.snapshot(NOW).hypernodes
    rack = next(obj for obj in things if isinstance(obj, topology_read.HyperNode))
    store.take([Change(ChangeType.MODIFIED, replace(rack, metadata=replace(rack.metadata, resource_version="7")))])
    assert not cycle_triggered(store)
    assert store.snapshot(NOW).hypernodes is table
    store.take([Change(ChangeType.DELETED, rack)])
    assert cycle_triggered(store)
    assert store.snapshot(NOW).hypernodes.names == ("<cluster>",)


def test_a_dump_contains_the_hypernodes() -> None:
    state = State()
    for obj in world(WORLD):
        state.upsert(obj)
    dumped = [item for item in objects(state.snapshot(NOW)) if item["kind"] == "HyperNode"]
    assert dumped[0]["apiVersion"] == "topology.volcanopy.io/v1alpha1"
    assert dumped[0]["spec"]["members"][0]["selector"] == {"exactMatch": {"name": "n1"}}


@pytest.mark.parametrize(
    ("member", "complaint"),
    [
        ({"type": "Node", "selector": {}}, "exactly one of exactMatch, regexMatch and labelMatch must be set"),
        (
            {"type": "Node", "selector": {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}}},
            "exactly one of exactMatch, regexMatch and labelMatch must be set",
        ),
        ({"type": "HyperNode", "selector": {"regexMatch": {"pattern": "a"}}}, "must be selected by exactMatch"),
        (
            {"type": "HyperNode", "selector": {"exactMatch": {"name": "rack-1"}}},
            "must not contain the HyperNode itself",
        ),
    ],
)
async def test_an_invalid_hypernode_is_rejected(cluster: Cluster, member: dict[str, object], complaint: str) -> None:
    definition = (CHART / "hypernodes.topology.volcanopy.io.yaml").read_text("utf-8")
    await cluster.client.create(CRDS, None, yaml.safe_load(definition))
    with pytest.raises(Invalid, match=complaint):
        await cluster.client.create(
            HYPER_NODES, None, body(HYPER_NODES, "rack-1", spec={"tier": 1, "members": [member]})
        )
