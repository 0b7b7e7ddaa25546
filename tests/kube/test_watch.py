"""The reflector: one sequence of changes, none lost or doubled, whatever happens to the connection."""

import asyncio
import time as clock
from random import Random
from typing import Any

import msgspec
import pytest

from tests.kube.faulty_server import FakeTime, Fault, FaultyServer, WatchPlan, connect
from tests.kube.reflector_runs import Follower, following, names_and_values, stored
from tests.kube.shapes import NODES, PODS, Thing, ThingSpec
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Credentials, Headers, headers_of
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.lines import Lines
from volcanopy.kube.client.raw_kinds import JOBS


async def test_existing_objects_are_one_batch_followed_by_changes(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.put("pods", "ns", "a")
    server.put("pods", "ns", "b")
    async with following(client, time) as (reflector, follower):
        assert (follower.descriptions, follower.batches) == (["Added a", "Added b"], 1)
        server.put("pods", "ns", "a", spec={"size": 2})
        server.remove("pods", "ns", "b")
        server.put("pods", "ns", "c")
        await follower.until("ns/c")
        assert follower.descriptions[2:] == ["Modified a", "Deleted b", "Added c"]
        assert names_and_values(reflector.objects) == stored(server) == names_and_values(follower.state)
        assert reflector.resource_version == str(server.revision)
        assert (server.count("GET", "?limit"), server.count("GET", "watch")) == (1, 1)


async def test_an_empty_cluster_is_synced_too(client: Client, time: FakeTime) -> None:
    async with following(client, time) as (reflector, follower):
        assert reflector.synced.is_set()
        assert follower.batches == 0


async def test_a_list_that_takes_longer_than_a_minute_does_not_begin_again(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    for number in range(9):
        server.put("pods", "ns", f"p{number}")

    async def slowly(_: Any) -> None:
        time.now += 25.0
        if server.count("GET") == 3:
            server.faults.append(Fault("GET", code=503))

    server.on_request = slowly
    async with following(client, time, page=3) as (_, follower):
        assert len(follower.descriptions) == 9
        assert (server.count("GET", "limit=3"), follower.ends("fault")) == (4, 0), "three pages, one of them twice"


async def test_selectors_and_bookmarks_are_sent(client: Client, server: FaultyServer, time: FakeTime) -> None:
    async with following(
        client, time, "ns", label_selector="a in (b,c)", field_selector="spec.nodeName=", watch_timeout=(60, 60)
    ) as (_, follower):
        server.put("pods", "ns", "p")
        await follower.until("ns/p")
    listed, watched = (path for _, path in server.requests)
    assert "labelSelector=a+in+%28b%2Cc%29&fieldSelector=spec.nodeName%3D" in listed
    for part in (
        "/api/v1/namespaces/ns/pods?watch=true",
        "allowWatchBookmarks=true",
        "timeoutSeconds=60",
        "labelSelector",
    ):
        assert part in watched


async def test_a_cluster_scoped_object_goes_by_its_name(client: Client, server: FaultyServer, time: FakeTime) -> None:
    server.put("nodes", "", "n1")
    async with following(client, time, kind=NODES) as (reflector, _):
        assert list(reflector.objects) == ["n1"]


async def test_a_transform_is_applied_before_objects_are_stored(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.put("pods", "ns", "a", spec={"size": 5})

    def drop_spec(pod: Thing) -> Thing:
        return msgspec.structs.replace(pod, spec=ThingSpec())

    async with following(client, time, transform=drop_spec) as (reflector, follower):
        server.put("pods", "ns", "b", spec={"size": 5})
        await follower.until("ns/b")
        assert [pod.spec.size for pod in reflector.objects.values()] == [0, 0]


@pytest.mark.parametrize("ending", ["close", "cut", "mid-line", "error", "garbage"])
async def test_a_closed_watch_resumes_at_its_last_version(
    client: Client, server: FaultyServer, time: FakeTime, ending: str
) -> None:
    server.watches.append(WatchPlan(events=2, ending=ending))
    async with following(client, time) as (reflector, follower):
        for name in "abcd":
            server.put("pods", "ns", name)
        await follower.until("ns/d")
        assert follower.descriptions == ["Added a", "Added b", "Added c", "Added d"]
        assert server.count("GET", "limit=") == 1
        assert follower.ends("fault") == (0 if ending == "close" else 1)
        assert reflector.fault == ""


async def test_an_expired_version_causes_a_relist_with_differences(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    for name in ("gone", "same", "changed", "replaced"):
        server.put("pods", "ns", name)
    server.watches.extend([WatchPlan(events=0), WatchPlan(code=410)])
    held = asyncio.Event()

    async def meanwhile(request: Any) -> None:
        if "watch" in request.query and not held.is_set():
            held.set()
            server.remove("pods", "ns", "gone")
            server.put("pods", "ns", "changed", spec={"size": 2})
            server.remove("pods", "ns", "replaced")
            server.put("pods", "ns", "replaced")
            server.put("pods", "ns", "new")
            server.compact()

    server.on_request = meanwhile
    async with following(client, time) as (reflector, follower):
        before = reflector.objects["ns/same"]
        await follower.until("ns/new")
        assert sorted(follower.descriptions[4:]) == sorted(
            ["Deleted gone", "Modified changed", "Deleted replaced", "Added replaced", "Added new"]
        )
        assert follower.descriptions.index("Deleted replaced") < len(follower.descriptions) - 1 - follower.descriptions[
            ::-1
        ].index("Added replaced")
        assert names_and_values(reflector.objects) == stored(server) == names_and_values(follower.state)
        assert reflector.objects["ns/same"] is before
        assert server.count("GET", "limit=") == 2


async def test_an_expiry_inside_the_stream_causes_a_relist(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.watches.append(WatchPlan(events=1, ending="gone"))
    async with following(client, time) as (_, follower):
        server.put("pods", "ns", "a")
        server.put("pods", "ns", "b")
        await follower.until("ns/b")
        assert follower.descriptions == ["Added a", "Added b"]
        assert server.count("GET", "limit=") == 2


async def test_a_recreated_object_is_deleted_before_it_is_added(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    first = server.put("pods", "ns", "p")["metadata"]["uid"]

    async def replace(request: Any) -> None:
        if "watch" in request.query and server.objects["pods", "ns", "p"]["metadata"]["uid"] == first:
            # The deletion itself is not in the stream: the history keeps the successor only.
            server.remove("pods", "ns", "p")
            server.history.pop()
            server.put("pods", "ns", "p")
            server.put("pods", "ns", "last")

    server.on_request = replace
    async with following(client, time) as (_, follower):
        await follower.until("ns/last")
        assert follower.descriptions == ["Added p", "Deleted p", "Added p", "Added last"]


async def test_repeated_events_are_ignored(client: Client, server: FaultyServer, time: FakeTime) -> None:
    server.put("pods", "ns", "a")
    server.remove("pods", "ns", "a")
    server.put("pods", "ns", "a")
    server.put("pods", "ns", "a", spec={"size": 2})
    server.watches.append(WatchPlan(replay=4, repeat=True))
    async with following(client, time) as (_, follower):
        server.put("pods", "ns", "b")
        server.remove("pods", "ns", "b")
        server.put("pods", "ns", "c")
        await follower.until("ns/c")
        assert follower.descriptions == ["Added a", "Added b", "Deleted b", "Added c"]


async def test_a_silent_connection_is_closed(client: Client, server: FaultyServer, time: FakeTime) -> None:
    server.watches.append(WatchPlan(events=0, ending="silence"))
    async with following(client, time, stall=0.05) as (_, follower):
        server.put("pods", "ns", "a")
        await follower.until("ns/a")
        assert follower.ends("stalled") >= 1
        assert server.count("GET", "limit=") == 1


async def test_bookmarks_advance_the_resource_version(client: Client, server: FaultyServer, time: FakeTime) -> None:
    async with following(client, time) as (reflector, follower):
        server.put("nodes", "", "n1")
        while reflector.resource_version != str(server.revision):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.001)
        assert not follower.changes


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_an_overloaded_server_is_retried_with_growing_backoff(
    client: Client, server: FaultyServer, time: FakeTime, code: int
) -> None:
    server.watches.extend(WatchPlan(code=code) for _ in range(6))
    async with following(client, time) as (_, follower):
        server.put("pods", "ns", "a")
        await follower.until("ns/a")
        assert server.count("GET", "limit=") == 1
        assert len(time.pauses) == 6
        for number, pause in enumerate(time.pauses):
            assert 0.1 * 2**number <= pause <= 0.2 * 2**number


async def test_watches_that_end_immediately_are_reopened_with_backoff(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.watches.extend(WatchPlan(events=0) for _ in range(5))
    async with following(client, time) as (_, follower):
        server.put("pods", "ns", "a")
        await follower.until("ns/a")
        assert len(time.pauses) == 5
        assert time.pauses == sorted(time.pauses)
        assert follower.ends("fault") == 0


async def test_the_error_of_a_missing_kind_names_the_kind_and_the_remedy(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    reflector = Reflector(client, JOBS, sleep=time.sleep, clock=time.clock, rng=Random(1))
    server.faults.append(Fault("GET", code=404))
    running = asyncio.create_task(reflector.run(lambda _: None))
    await asyncio.wait_for(reflector.answered.wait(), 60)
    expected = "the cluster does not serve BatchJob of batch.volcanopy.io/v1alpha1: install it (volcanopy crd)"
    assert reflector.fault == expected
    running.cancel()


async def test_a_failing_list_is_retried_and_its_error_reported(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.faults.extend(Fault("GET", code=403, reason="Forbidden") for _ in range(3))
    faults: list[str] = []

    async def note(_: Any) -> None:
        faults.append(reflector.fault)

    server.on_request = note
    reflector = Reflector(client, PODS, sleep=time.sleep, clock=time.clock, rng=Random(1))
    follower = Follower()
    running = asyncio.create_task(reflector.run(follower))
    await asyncio.wait_for(reflector.synced.wait(), 60)
    assert faults[:4] == ["", "Forbidden", "Forbidden", "Forbidden"]
    assert follower.ends("fault") == 3
    running.cancel()


class _Rotated(Credentials):
    """Credentials that the server no longer takes, until they are asked to refresh."""

    def __init__(self) -> None:
        super().__init__({"Authorization": "Bearer old"})
        self.refreshed = 0

    async def refresh(self, refused: Headers) -> bool:
        self.refreshed += 1
        self._headers = headers_of({"Authorization": "Bearer new"})
        return True


async def test_rejected_credentials_are_renewed_once(server: FaultyServer, time: FakeTime) -> None:
    credentials = _Rotated()
    server.tokens = {"Bearer old"}

    async def expire(request: Any) -> None:
        if "watch" in request.query:
            server.tokens = {"Bearer new"}

    server.on_request = expire
    async with (
        Client(connect(server, credentials), sleep=time.sleep, clock=time.clock) as client,
        following(client, time) as (_, follower),
    ):
        server.put("pods", "ns", "a")
        await follower.until("ns/a")
        assert (credentials.refreshed, follower.ends("fault"), time.pauses) == (1, 0, [])


def restore_a_backup_at_the_next_watch(server: FaultyServer) -> None:
    """From then on the server has another object and lower versions."""

    async def restore(request: Any) -> None:
        if "watch" in request.query and server.revision > 50:
            server.revision = 5
            server.history.clear()
            server.objects.clear()
            server.put("pods", "ns", "z")

    server.on_request = restore


async def test_an_older_resource_version_of_the_server_is_accepted(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    """As after a restore from a backup: versions are lower than those we have seen."""
    for name in "abc":
        server.put("pods", "ns", name)
    server.watches.append(WatchPlan(events=0, ending="gone"))

    restore_a_backup_at_the_next_watch(server)
    async with following(client, time) as (reflector, follower):
        await follower.until("ns/z")
        server.put("pods", "ns", "y")
        await follower.until("ns/y")
        assert names_and_values(reflector.objects) == stored(server) == names_and_values(follower.state)


async def test_a_watch_from_a_future_version_is_detected(client: Client, server: FaultyServer, time: FakeTime) -> None:
    """A server accepts such a watch without an error; its first bookmark shows the older version."""
    for name in "abc":
        server.put("pods", "ns", name)
    server.watches.append(WatchPlan(events=0, ending="cut"))

    restore_a_backup_at_the_next_watch(server)
    async with following(client, time) as (reflector, follower):
        await follower.until("ns/z")
        assert names_and_values(reflector.objects) == stored(server) == names_and_values(follower.state)
        assert server.count("GET", "limit=") == 2


async def test_what_can_be_read_of_a_malformed_object_is_the_object(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.put("pods", "ns", "a", spec={"size": 1})
    server.put("pods", "ns", "b", spec={"size": "many", "nodeName": "n"})
    async with following(client, time) as (reflector, follower):
        assert reflector.rejected.keys() == {"ns/b"}
        assert reflector.objects["ns/b"].spec.node_name == "n"
        server.put("pods", "ns", "a", spec={"size": "many"})
        server.put("pods", "ns", "b", spec={"size": 2})
        server.put("pods", "ns", "c")
        await follower.until("ns/c")
        assert reflector.rejected.keys() == {"ns/a"}
        server.remove("pods", "ns", "a")
        server.put("pods", "ns", "d")
        await follower.until("ns/d")
        assert follower.descriptions == [
            *("Added a", "Added b", "Modified a", "Modified b", "Added c", "Deleted a", "Added d")
        ]
        assert not reflector.rejected


async def test_a_malformed_object_without_readable_metadata_counts_as_absent(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.put("pods", "ns", "a")
    async with following(client, time) as (_, follower):
        server.put("pods", "ns", "a", metadata={"labels": 1})
        server.put("pods", "ns", "b")
        await follower.until("ns/b")
        assert follower.descriptions == ["Added a", "Deleted a", "Added b"]


async def test_what_can_be_read_of_a_malformed_object_is_delivered_on_request(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.put("pods", "ns", "a", spec={"size": "many", "nodeName": "n"})
    server.put("pods", "ns", "b", spec={"size": 1})
    async with following(client, time, unreadable=True) as (reflector, follower):
        assert reflector.rejected.keys() == {"ns/a"}
        server.put("pods", "ns", "b", spec={"size": "many"})
        server.put("pods", "ns", "a", spec={"size": 1})
        server.remove("pods", "ns", "b")
        server.put("pods", "ns", "c")
        await follower.until("ns/c")
        assert follower.descriptions == [
            *("Added b", "Unreadable a", "Deleted b", "Unreadable b", "Added a", "Deleted b", "Added c")
        ]
        assert follower.changes[1].object.spec.node_name == "n"
        assert follower.changes[1].error == "Expected `int`, got `str` - at `$.spec.size`"
        assert not reflector.rejected


async def test_events_with_other_formatting_are_read(client: Client, server: FaultyServer, time: FakeTime) -> None:
    server.watches.append(WatchPlan(spaced=True))
    async with following(client, time) as (_, follower):
        server.put("pods", "ns", "a")
        await follower.until("ns/a")


async def test_an_object_of_two_megabytes_is_one_event(client: Client, server: FaultyServer, time: FakeTime) -> None:
    async with following(client, time) as (reflector, follower):
        server.put("pods", "ns", "big", metadata={"labels": {"x": "y" * (2 << 20)}})
        server.put("pods", "ns", "after")
        await follower.until("ns/big", "ns/after")
        assert len(reflector.objects["ns/big"].metadata.labels["x"]) == 2 << 20
        assert follower.ends("fault") == 0


async def test_events_of_one_read_are_one_batch(client: Client, server: FaultyServer, time: FakeTime) -> None:
    async with following(client, time) as (_, follower):
        for number in range(500):
            server.put("pods", "ns", f"p{number}")
        await follower.until("ns/p499")
        assert len(follower.changes) == 500
        assert follower.batches < 250


async def test_an_error_of_the_consumer_ends_the_run(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "a")

    def broken(_: list[Change[Thing]]) -> None:
        raise KubeError("even one of ours")

    with pytest.raises(KubeError, match="even one of ours"):
        await Reflector(client, PODS).run(broken)


async def test_batches_can_be_iterated(client: Client, server: FaultyServer) -> None:
    server.put("pods", "ns", "a")
    batches = Reflector(client, PODS).batches()
    first = await anext(batches)
    assert [(change.type, change.old) for change in first] == [(ChangeType.ADDED, None)]
    await batches.aclose()


def test_lines_are_split_independently_of_chunks() -> None:
    text = b"first\n" + b"x" * 1000 + b"\n\nlast\n"
    for size in (1, 2, 3, 7, 64, 5000):
        lines = Lines()
        assert b"".join(lines.feed(text[at : at + size]) for at in range(0, len(text), size)) == text


def test_a_long_line_takes_linear_time() -> None:
    """Joining at each chunk would copy 300 GB here."""
    lines, start = Lines(), clock.process_time()
    for _ in range(100_000):
        lines.feed(b"x" * 64)
    assert len(lines.feed(b"\n")) == 6_400_001
    assert clock.process_time() - start < 5.0
