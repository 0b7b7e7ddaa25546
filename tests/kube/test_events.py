"""Recording events: counted, limited, never in the caller's way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from structlog.testing import capture_logs

from tests.kube.faulty_server import FakeTime, Fault, FaultyServer
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.metrics import registry
from volcanopy.kube.writes.event_writer import MESSAGE_LIMIT, EventRecorder, ObjectReference

POD = ObjectReference("v1", "Pod", "a-0", "ns", "u1")
NODE = ObjectReference("v1", "Node", "n1")
START = datetime(2030, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def recording(client: Client, time: FakeTime, **options: Any) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(
        client,
        "volcanopy-scheduler",
        instance="here",
        rng=Random(1),
        clock=time.clock,
        now=lambda: START + timedelta(seconds=time.now),
        **options,
    )
    async with recorder:
        yield recorder


def outcomes(outcome: str) -> int:
    """The metric of the Events with this outcome."""
    return int(registry.REGISTRY.get_sample_value("volcanopy_events_total", {"outcome": outcome}) or 0)


def events(server: FaultyServer) -> list[dict[str, Any]]:
    return [item for key, item in server.objects.items() if key[0] == "events"]


async def test_an_event_has_source_reason_and_involved_object(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    async with recording(client, time) as recorder:
        recorder.record(POD, "Warning", "Unschedulable", "0/2 nodes are available: 2 Insufficient cpu")
        assert await recorder.flush()
    (event,) = events(server)
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("a-0.")
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "a-0",
        "namespace": "ns",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "Unschedulable", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2030-01-01T00:00:00Z"
    assert event["source"] == {"component": "volcanopy-scheduler"}
    assert event["reportingInstance"] == "here"


async def test_an_event_about_a_cluster_scoped_object_is_in_namespace_default(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    async with recording(client, time) as recorder:
        recorder.record(NODE, "Normal", "NodeSeen", "hello")
    assert [event["metadata"]["namespace"] for event in events(server)] == ["default"]


async def test_a_repeated_message_is_one_event_with_a_count(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    async with recording(client, time) as recorder:
        recorder.record(POD, "Warning", "Unschedulable", "no room")
        await recorder.flush()
        time.now = 60
        for _ in range(3):
            recorder.record(POD, "Warning", "Unschedulable", "no room")
        recorder.record(POD, "Warning", "Unschedulable", "another reason")
    same, other = events(server)
    assert (same["count"], same["firstTimestamp"], same["lastTimestamp"]) == (
        4,
        "2030-01-01T00:00:00Z",
        "2030-01-01T00:01:00Z",
    )
    assert other["count"] == 1
    assert server.count("PATCH") == 1


async def test_a_message_repeated_during_the_write_is_counted(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    async with recording(client, time) as recorder:

        async def meanwhile(request: Any) -> None:
            if request.method == "POST":
                recorder.record(POD, "Normal", "Bound", "to n1")

        server.on_request = meanwhile
        recorder.record(POD, "Normal", "Bound", "to n1")
    assert [event["count"] for event in events(server)] == [2]
    assert server.count("POST") == 1


async def test_an_expired_event_is_created_again(client: Client, server: FaultyServer, time: FakeTime) -> None:
    async with recording(client, time) as recorder:
        recorder.record(POD, "Normal", "Bound", "to n1")
        await recorder.flush()
        server.remove("events", "ns", events(server)[0]["metadata"]["name"])
        recorder.record(POD, "Normal", "Bound", "to n1")
    assert [event["count"] for event in events(server)] == [2]


async def test_events_per_object_are_rate_limited(client: Client, server: FaultyServer, time: FakeTime) -> None:
    other = ObjectReference("v1", "Pod", "b-0", "ns", "u2")
    before = outcomes("limited")
    async with recording(client, time, burst=3, refill=100.0) as recorder:
        for number in range(10):
            recorder.record(POD, "Warning", "Unschedulable", f"reason {number}")
        recorder.record(other, "Warning", "Unschedulable", "reason")
        assert outcomes("limited") - before == 7
        time.now = 250
        for number in range(10, 20):
            recorder.record(POD, "Warning", "Unschedulable", f"reason {number}")
        assert outcomes("limited") - before == 15
    assert [event["message"] for event in events(server) if event["involvedObject"]["uid"] == "u1"] == [
        f"reason {number}" for number in (0, 1, 2, 10, 11)
    ]
    assert len(events(server)) == 6


async def test_a_full_queue_drops_and_counts(client: Client, server: FaultyServer, time: FakeTime) -> None:
    before = outcomes("overflowed")
    async with recording(client, time, queue=5, burst=100) as recorder:
        for number in range(8):
            recorder.record(POD, "Normal", "Said", str(number))
        assert outcomes("overflowed") - before == 3
    assert len(events(server)) == 5


async def test_rejected_events_are_counted_and_raise_nothing(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    before = {outcome: outcomes(outcome) for outcome in ("failed", "written")}
    server.faults.append(Fault("POST", code=403, reason="Forbidden"))
    async with recording(client, time, writers=1) as recorder:
        recorder.record(POD, "Normal", "Said", "refused")
        recorder.record(POD, "Normal", "Said", "taken")
        await recorder.flush()
        assert [outcomes(outcome) - count for outcome, count in before.items()] == [1, 1]
    assert [event["message"] for event in events(server)] == ["taken"]


async def test_an_event_of_a_namespace_that_is_being_deleted_is_no_warning(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    ending = {"causes": [{"reason": "NamespaceTerminating", "message": "namespace ns is being terminated"}]}
    server.faults += [Fault("POST", code=403, reason="Forbidden", details=ending), Fault("POST", code=403)]
    with capture_logs() as logs:
        async with recording(client, time, writers=1) as recorder:
            recorder.record(POD, "Normal", "Ended", "with its namespace")
            recorder.record(POD, "Normal", "Rejected", "by RBAC")
            await recorder.flush()
    assert [(line["reason"], line["log_level"]) for line in logs] == [("Ended", "info"), ("Rejected", "warning")]


async def test_an_event_with_a_lost_response_is_not_duplicated(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    server.faults.append(Fault("POST", cut="after"))
    async with recording(client, time) as recorder:
        recorder.record(POD, "Normal", "Said", "once")
        await recorder.flush()
        recorder.record(POD, "Normal", "Said", "once")
    assert [event["count"] for event in events(server)] == [2]


async def test_closing_waits_for_queued_events_up_to_a_timeout(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    recorder = EventRecorder(client, "c", burst=1000, writers=2)
    async with recorder:
        for number in range(50):
            recorder.record(POD, "Normal", "Said", str(number))
    assert len(events(server)) == 50

    async def hang(_: Any) -> None:
        await server.closed.wait()

    server.on_request = hang
    stuck = EventRecorder(client, "c")
    await stuck.__aenter__()
    stuck.record(POD, "Normal", "Said", "never")
    before = asyncio.get_running_loop().time()
    await stuck.close(deadline=0.05)
    assert asyncio.get_running_loop().time() - before < 2


async def test_a_message_is_truncated_to_the_server_limit(client: Client, server: FaultyServer, time: FakeTime) -> None:
    async with recording(client, time) as recorder:
        recorder.record(POD, "Normal", "Said", "x" * 5000)
    assert len(events(server)[0]["message"]) == MESSAGE_LIMIT


async def test_the_least_recently_used_event_is_forgotten_first(
    client: Client, server: FaultyServer, time: FakeTime
) -> None:
    async with recording(client, time, capacity=2) as recorder:
        for message in ("a", "b", "a", "c", "a", "b"):
            recorder.record(POD, "Normal", "Said", message)
            await recorder.flush()
    assert [(event["message"], event["count"]) for event in events(server)] == [("a", 3), ("b", 1), ("c", 1), ("b", 1)]
