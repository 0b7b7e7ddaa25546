"""Locks of nodes: pods whose device plugin takes one at a time are bound one after another."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.kube.applier_setup import Rig
from tests.kube.cluster import EVENTS, Cluster, running_cluster
from tests.kube.flaky_client import refused
from volcanopy.api.times import format_time
from volcanopy.kube.cache.followed_kinds import NODES, PODS
from volcanopy.scheduler.model.plan import Bind
from volcanopy.services.scheduler.writers.applier import Applied
from volcanopy.services.scheduler.writers.node_locks import EXPIRY

LOCK = "hamivgpu"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """The embedded server with one node."""
    async with running_cluster() as running:
        await running.node("n1")
        await running.queue()
        yield running


def bind(pod: str, *locks: str) -> Bind:
    return Bind(f"default/{pod}", "n1", "default/a", locks=locks or (LOCK,))


async def lock_of(cluster: Cluster, lock: str = LOCK) -> str:
    node = await cluster.client.get(NODES, None, "n1")
    return node.metadata.annotations.get(lock, "")


async def set_lock(cluster: Cluster, value: str | None, lock: str = LOCK) -> None:
    """What a device plugin does with None, and another scheduler with a time."""
    await cluster.client.patch(NODES, None, "n1", {"metadata": {"annotations": {lock: value}}})


async def wait_for_event(cluster: Cluster, rig: Rig) -> str:
    async def recorded() -> bool:
        return any(event["reason"] == "WaitingForNode" for event in (await cluster.client.list(EVENTS)).items)

    await cluster.until(recorded, EVENTS)
    (message,) = {
        event["message"] for event in (await cluster.client.list(EVENTS)).items if event["reason"] == "WaitingForNode"
    }
    return str(message)


async def test_the_next_pod_is_bound_when_the_device_plugin_has_removed_the_lock(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 2)
    await rig.see()
    applying = rig.submit(bind("a-0"), bind("a-1"))
    message = await wait_for_event(cluster, rig)
    assert message.startswith(f'node "n1" has the annotation {LOCK} for another pod: waiting until the device plugin')
    assert await cluster.where() == {"a-0": "n1"}
    await set_lock(cluster, None)
    await rig.see()
    assert await applying == Applied(bound=2)
    assert await lock_of(cluster)


async def test_a_lock_that_was_not_removed_for_five_minutes_is_replaced(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 2)
    await rig.see()
    old = format_time(datetime.now(UTC) - EXPIRY - timedelta(seconds=1))
    for pod, value in (("a-0", old), ("a-1", "no time")):
        await set_lock(cluster, value)
        assert (await rig.apply(bind(pod))).bound == 1
        assert await lock_of(cluster) > old
        assert await lock_of(cluster) != value


async def test_the_locks_are_removed_when_the_bind_fails(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    rig.script.plan("bind", refused(403, "not you"))
    assert (await rig.apply(bind("a-0", LOCK, "gpu"))).failed == ("default/a-0",)
    assert (await lock_of(cluster), await lock_of(cluster, "gpu")) == ("", "")
    assert rig.store.waits("default/a-0")


async def test_a_node_that_cannot_be_locked_fails_the_bind_with_the_reason(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    await cluster.client.delete(NODES, None, "n1")
    assert (await rig.apply(bind("a-0"))).failed == ("default/a-0",)
    condition = await rig.condition("a-0")
    assert condition is not None
    assert condition[2].startswith('binding to node "n1" failed: ')
    assert "not found" in condition[2]
    assert await cluster.where() == {}


async def test_a_pod_that_is_deleted_while_it_waits_does_not_lock_the_node(cluster: Cluster, rig: Rig) -> None:
    await cluster.gang("a", 1)
    await rig.see()
    theirs = format_time(datetime.now(UTC))
    await set_lock(cluster, theirs)
    applying = rig.submit(bind("a-0"))
    await wait_for_event(cluster, rig)
    await cluster.client.delete(PODS, "default", "a-0")
    await rig.see()
    assert await applying == Applied(failed=("default/a-0",))
    assert await lock_of(cluster) == theirs
