"""The cache and the audit of the kinds that users write: an edge may repeat, reorder and omit, the controllers see the truth."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.services.service_cluster import Cluster
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.decoding import Listing
from volcanopy.kube.client.errors import NoAnswer
from volcanopy.kube.client.kinds import Bare, Json, Kind
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.services.controllers import user_kinds
from volcanopy.services.controllers.user_kinds import GRACE, EdgeError, UserKinds, WatchedKind


def job(version: int, uid: str = "u", name: str = "a") -> Json:
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"namespace": "n", "name": name, "uid": uid, "resourceVersion": str(version)},
    }


class Server:
    """Lists what it is given."""

    def __init__(self) -> None:
        self.version, self.jobs = 0, list[Json]()
        self.fault: Exception | None = None

    async def list(self, kind: Any, **_: Any) -> Listing[Bare]:
        assert kind.type is Bare
        if self.fault:
            raise self.fault
        return Listing(msgspec.convert(self.jobs, list[Bare]), str(self.version), ())


class World:
    """A kind, its server, and what its controllers have been told."""

    def __init__(self) -> None:
        self.now, self.server, self.changes = 0.0, Server(), list[tuple[str, str, str]]()
        self.watched = WatchedKind(JOBS, self._deliver, clock=lambda: self.now)

    def _deliver(self, changes: list[Change[Json]]) -> None:
        for change in changes:
            identity = JOBS.identify(change.object)
            self.changes.append((change.type.value, identity.uid, identity.version))

    def receive(self, event: str | None, manifest: Json) -> None:
        self.watched.receive(event, manifest)

    async def audit(self, version: int, *jobs: Json) -> None:
        self.server.version, self.server.jobs = version, list(jobs)
        await self.watched.audit(self.server)  # type: ignore[arg-type]


def test_an_object_is_added_modified_and_deleted() -> None:
    world = World()
    for event, version in ((None, 1), ("MODIFIED", 2), ("DELETED", 3)):
        world.receive(event, job(version))
    assert world.changes == [("Added", "u", "1"), ("Modified", "u", "2"), ("Deleted", "u", "3")]
    assert world.watched.objects == {}


def test_repeated_and_older_versions_are_dropped() -> None:
    world = World()
    for event, version in (("ADDED", 5), (None, 5), (None, 4), ("MODIFIED", 3)):
        world.receive(event, job(version))
    assert world.changes == [("Added", "u", "5")]


def test_a_changed_uid_is_a_deletion_and_an_addition() -> None:
    world = World()
    world.receive("ADDED", job(1, "old"))
    world.receive("ADDED", job(4, "new"))
    world.receive("MODIFIED", job(2, "old"))
    world.receive("DELETED", job(3, "old"))
    assert world.changes == [("Added", "old", "1"), ("Deleted", "old", "1"), ("Added", "new", "4")]


async def test_an_audit_deletes_what_the_server_does_not_list() -> None:
    world = World()
    world.receive("ADDED", job(1))
    await world.audit(2)
    assert world.changes[1:] == [("Deleted", "u", "1")]
    world.receive("MODIFIED", job(2))  # the edge is late
    assert len(world.changes) == 2


async def test_an_audit_keeps_an_object_that_is_newer_than_its_list() -> None:
    world = World()
    world.receive("ADDED", job(3))
    world.watched._newest = 0  # the event came while the list was read
    await world.audit(2)
    assert world.changes == [("Added", "u", "3")]


async def test_a_kind_is_synced_when_all_that_is_listed_has_been_delivered() -> None:
    world = World()
    await world.audit(9, job(3), job(4, "v", "b"))
    world.receive(None, job(3))
    assert not world.watched.synced.is_set()
    world.receive(None, job(4, "v", "b"))
    assert world.watched.synced.is_set()


async def test_a_kind_without_objects_is_synced_by_its_list() -> None:
    world = World()
    await world.audit(9)
    assert world.watched.synced.is_set()


async def test_an_audit_finds_an_unseen_object() -> None:
    world = World()
    await world.audit(1)
    await world.audit(5, job(4))
    world.now += GRACE + 1
    with pytest.raises(EdgeError, match="batchjobs n/a is listed, and was not delivered within 60 s"):
        await world.audit(6, job(4))


async def test_an_audit_finds_an_unseen_change_of_a_known_object() -> None:
    world = World()
    world.receive(None, job(1))
    await world.audit(1, job(1))
    await world.audit(5, job(4))
    world.now += GRACE + 1
    with pytest.raises(EdgeError, match="not delivered"):
        await world.audit(9, job(8))


async def test_an_edge_that_is_behind_by_less_than_the_grace_goes_on() -> None:
    world = World()
    await world.audit(1)
    for version in range(2, 20):
        await world.audit(version, job(version))
        world.now += GRACE - 1
        world.receive("MODIFIED", job(version))


async def test_an_edge_that_still_delivers_its_first_list_goes_on() -> None:
    world = World()
    await world.audit(9, *(job(1, str(number), str(number)) for number in range(5)))
    for number in range(4):
        world.now += GRACE - 1
        world.receive(None, job(1, str(number), str(number)))
        await world.audit(9, *(job(1, str(number), str(number)) for number in range(5)))
    world.now += GRACE + 1
    with pytest.raises(EdgeError, match="n/4 is listed"):
        await world.audit(9, *(job(1, str(number), str(number)) for number in range(5)))


async def test_a_restored_server_is_read_from_the_start() -> None:
    world = World()
    world.receive(None, job(8))
    world.receive(None, job(9, "v", "b"))
    with pytest.raises(EdgeError, match="went back from 9 to 3"):
        await world.audit(3, job(2))
    world.watched.start()
    world.receive(None, job(2))
    await world.audit(3, job(2))
    assert world.changes[2:] == [("Modified", "u", "2"), ("Deleted", "v", "9")]


async def test_an_audit_that_fails_is_a_fault_until_one_succeeds() -> None:
    world = World()
    world.server.fault = NoAnswer("url", "connection refused", maybe_applied=False)
    await world.audit(1)
    world.now = 7.0
    await world.audit(1)
    assert (world.watched.faulty_since, world.watched.answered.is_set()) == (0.0, True)
    assert "connection refused" in world.watched.fault
    world.server.fault = None
    await world.audit(1)
    assert (world.watched.faulty_since, world.watched.fault) == (None, "")


async def test_a_list_of_metadata_has_the_versions_of_all_objects(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.submit(name)
    jobs = await cluster.client.list(JOBS, cluster.namespace)
    metadata = await cluster.client.list(JOBS.of(Bare), cluster.namespace)
    assert [item.identity for item in metadata.items] == [JOBS.identify(item) for item in jobs.items]


def test_all_events_have_a_name() -> None:
    from volcanopy.services.controllers.user_kinds import _EVENTS

    assert set(ChangeType) - set(_EVENTS) == {ChangeType.UNREADABLE}


async def test_a_kind_that_is_served_later_ends_the_edge_which_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[list[SimpleNamespace] | Exception] = [
        [],
        NoAnswer("url", "refused", maybe_applied=False),
        [SimpleNamespace(name=JOBS.plural)],
    ]

    async def discovery(*_: Any) -> list[SimpleNamespace]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def edge(kinds: Sequence[Kind[Json]], _: Any) -> None:
        assert not kinds
        await asyncio.Event().wait()

    monkeypatch.setattr(user_kinds, "served_kinds", discovery)
    users = UserKinds(cast("Client", None), [JOBS], [], lambda *_: None, edge, sleep=lambda _: asyncio.sleep(0))
    with pytest.raises(EdgeError, match=f"^{JOBS.plural}.{JOBS.group} is served now$"):
        await users.run()
    await users.listed()
