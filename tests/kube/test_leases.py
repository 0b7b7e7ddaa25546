"""Leases on both API servers, and the fence that keeps who does not lead from writing."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from tests.kube.cluster import Cluster
from tests.loop_time import loop_time
from volcanopy.kube.cache.followed_kinds import NODES
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound, NotLeading
from volcanopy.kube.client.raw_kinds import LEASES
from volcanopy.kube.leader.elector import Elector, LeaseDurations, LostLeadership
from volcanopy.kube.leader.lease import LeaseChanged, LeaseLock, Record

NAMESPACE, NAME = "kube-system", "test-lease"
NOW = datetime(2026, 3, 1, 12, 0, 0, 250000, tzinfo=UTC)
BRIEF = LeaseDurations(duration=2, renew=1.2, retry=0.3)


@pytest.fixture
async def lock(cluster: Cluster) -> AsyncIterator[LeaseLock]:
    yield LeaseLock(cluster.client, NAMESPACE, NAME)
    await cluster.client.delete_collection(LEASES, NAMESPACE)


async def test_a_lease_has_the_standard_fields(cluster: Cluster, lock: LeaseLock) -> None:
    assert await lock.read(5) is None
    made = await lock.write(Record("a", 10, NOW, NOW, 3), None, 5)
    spec = (await cluster.client.get(LEASES, NAMESPACE, NAME))["spec"]
    assert spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 10,
        "acquireTime": "2026-03-01T12:00:00.250000Z",
        "renewTime": "2026-03-01T12:00:00.250000Z",
        "leaseTransitions": 3,
    }
    result = await lock.read(5)
    assert result is not None
    assert result.record == made.record


async def test_of_two_concurrent_writes_one_is_a_conflict(lock: LeaseLock) -> None:
    made = await lock.write(Record("", 1, NOW, NOW), None, 5)
    outcomes = await asyncio.gather(
        *(lock.write(Record(name, 10, NOW, NOW, 1), made, 5) for name in "abcd"), return_exceptions=True
    )
    assert sum(isinstance(outcome, LeaseChanged) for outcome in outcomes) == 3
    with pytest.raises(LeaseChanged):
        await lock.write(Record("e", 10), None, 5)


async def test_fields_of_other_writers_are_kept(cluster: Cluster, lock: LeaseLock) -> None:
    await lock.write(Record("a", 10, NOW, NOW), None, 5)
    await cluster.client.patch(LEASES, NAMESPACE, NAME, {"metadata": {"labels": {"team": "x"}}})
    result = await lock.read(5)
    await lock.write(Record("a", 10, NOW, NOW, 1), result, 5)
    assert (await cluster.client.get(LEASES, NAMESPACE, NAME))["metadata"]["labels"] == {"team": "x"}


async def test_a_missing_namespace_is_reported(cluster: Cluster) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await LeaseLock(cluster.client, "nowhere", NAME).write(Record("a", 10, NOW, NOW), None, 5)


async def test_the_standby_takes_over_immediately_when_the_leader_releases(lock: LeaseLock) -> None:
    first, second = Elector(lock, "first", BRIEF), Elector(lock, "second", BRIEF)
    await first.acquire()
    holding, waiting = asyncio.create_task(first.hold()), asyncio.create_task(second.acquire())
    done, _ = await asyncio.wait((holding, waiting), timeout=3)
    assert not done
    assert (first.may_act(), second.may_act(), second.leader) == (True, False, "first")
    holding.cancel()
    async with loop_time() as elapsed:
        await first.release()
        async with asyncio.timeout(60):
            await waiting
        # Without the watch it would be the first after a pause of 0.3 s at the least, or of two seconds.
        assert elapsed() < 1
    assert (first.may_act(), second.may_act()) == (False, True)
    result = await lock.read(5)
    assert result is not None
    assert (result.record.holder, result.record.transitions) == ("second", 1)


async def test_a_holder_stops_when_its_lease_is_taken(cluster: Cluster, lock: LeaseLock) -> None:
    elector = Elector(lock, "first", BRIEF)
    await elector.acquire()
    await cluster.client.patch(LEASES, NAMESPACE, NAME, {"spec": {"holderIdentity": "usurper"}})
    with pytest.raises(LostLeadership, match=r"lease kube-system/test-lease lost: held by usurper"):
        async with asyncio.timeout(60):
            await elector.hold()
    assert not elector.may_act()


async def test_a_standby_neither_reads_nor_writes(cluster: Cluster) -> None:
    leads = False
    async with Client(cluster.connection, fence=lambda: leads) as client:
        before = await client.get(NODES, None, "n1")
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9"}}
        with pytest.raises(NotLeading, match="POST /api/v1/nodes is not sent: this process does not lead"):
            await client.create(NODES, None, body)
        with pytest.raises(NotLeading):
            await client.patch(NODES, None, "n1", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(NotLeading):
            await client.delete(NODES, None, "n1")
        with pytest.raises(NotLeading):
            await client.bind("default", "p", "n1")
        after = await client.get(NODES, None, "n1")
        assert before.metadata.resource_version == after.metadata.resource_version
        leads = True
        await client.create(NODES, None, body)
    assert len((await cluster.client.list(NODES)).items) == 3


async def test_a_request_checks_the_fence_again_after_waiting_for_a_connection(cluster: Cluster) -> None:
    """One connection: the first request is under way when the lead is lost, the second waits behind it."""
    asked: list[bool] = []

    def fence() -> bool:
        # A request asks when it has its connection and is written.
        asked.append(len(asked) < 1)
        return asked[-1]

    async with Client(cluster.connection, connections=1, fence=fence) as client:
        bodies = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"m{number}"}} for number in range(3)]
        creating = (client.create(NODES, None, body) for body in bodies)
        outcomes = await asyncio.gather(*creating, return_exceptions=True)
    assert [isinstance(outcome, NotLeading) for outcome in outcomes] == [False, True, True]
    assert asked == [True, False, False]


async def test_a_write_checks_the_fence_before_it_is_sent(cluster: Cluster) -> None:
    """The lead is lost while a request gets its connection: nothing comes between the check and its bytes' leaving."""
    answers = iter([False, True])
    async with Client(cluster.connection, fence=lambda: next(answers)) as client:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m"}}
        with pytest.raises(NotLeading, match="POST /api/v1/nodes is not sent: this process does not lead"):
            await client.create(NODES, None, body)
        assert len((await cluster.client.list(NODES)).items) == 2
        await client.create(NODES, None, body)
    assert len((await cluster.client.list(NODES)).items) == 3
