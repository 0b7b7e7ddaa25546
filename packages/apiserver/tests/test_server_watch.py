"""Watches and lists of the embedded API server."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import aiohttp
import pytest

from embedded_apiserver.crud import watch as watch_module
from embedded_apiserver.crud.selection import Filter
from embedded_apiserver.server import ApiServer
from embedded_apiserver.store.object_store import StoredObject
from embedded_apiserver.wire.representation import rows
from http_client import MAPS, PODS, Client, binding, map_of, pod


async def test_a_watch_from_a_version_sends_later_changes(client: Client) -> None:
    first = await client.create(MAPS, map_of("a"))
    await client.create(MAPS, map_of("b"))
    await client.delete(f"{MAPS}/a")
    async with client.watching(f"{MAPS}?resourceVersion={first['metadata']['resourceVersion']}") as watch:
        assert await watch.brief(2) == ["ADDED b", "DELETED a"]
        await client.patch(f"{MAPS}/b", {"data": {"k": "w"}})
        assert await watch.brief(1) == ["MODIFIED b"]


async def test_a_watch_without_a_version_starts_with_existing_objects(client: Client) -> None:
    await client.create(MAPS, map_of("b"))
    await client.create(MAPS, map_of("a"))
    async with client.watching(MAPS) as watch:
        assert await watch.brief(2) == ["ADDED a", "ADDED b"]


async def test_objects_enter_and_leave_a_selector(client: Client) -> None:
    async with client.watching(f"{MAPS}?labelSelector=x%3D1&resourceVersion=1") as watch:
        await client.create(MAPS, map_of("a"))
        await client.patch(f"{MAPS}/a", {"metadata": {"labels": {"x": "1"}}})
        await client.patch(f"{MAPS}/a", {"data": {"k": "w"}})
        gone = await client.patch(f"{MAPS}/a", {"metadata": {"labels": {"x": "2"}}})
        await client.delete(f"{MAPS}/a")
        await client.create(MAPS, map_of("b", {"x": "1"}))
        assert await watch.brief(2) == ["ADDED a", "MODIFIED a"]
        left = await watch.next()
        assert left["type"] == "DELETED"
        assert left["object"]["metadata"]["labels"] == {"x": "1"}, "the last state that the selector saw"
        assert left["object"]["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]
        assert await watch.brief(1) == ["ADDED b"]


async def test_a_watch_on_a_websocket_sends_each_event_as_a_message(client: Client) -> None:
    """Java's fabric8, which Spark and others are built on, watches this way."""
    await client.create(MAPS, map_of("b"))
    await client.create(MAPS, map_of("a"))
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{client.url}{MAPS}?watch=true") as watch,
    ):
        events = [await watch.receive_json() for _ in range(2)]
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]
        await client.delete(f"{MAPS}/b")
        assert (await watch.receive_json())["type"] == "DELETED"
        await watch.close()
        assert watch.close_code == aiohttp.WSCloseCode.OK, "the server takes part in the closing handshake"


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (bytes((0x81, 0x01)) + b"x", aiohttp.WSCloseCode.PROTOCOL_ERROR),
        (bytes((0xC1, 0x80)) + bytes(4), aiohttp.WSCloseCode.PROTOCOL_ERROR),
        (bytes((0x80, 0x80)) + bytes(4), aiohttp.WSCloseCode.PROTOCOL_ERROR),
        (bytes((0x81, 0x81)) + bytes(4) + b"\xff", aiohttp.WSCloseCode.INVALID_TEXT),
        (
            bytes((0x82, 0xFF)) + (17 << 20).to_bytes(8, "big") + bytes(4 + (17 << 20)),
            aiohttp.WSCloseCode.MESSAGE_TOO_BIG,
        ),
    ],
    ids=["without a mask", "reserved bit", "continuation of nothing", "no UTF-8", "longer than a message may be"],
)
async def test_a_client_that_breaks_the_websocket_protocol_is_told_the_reason(
    client: Client, frames: bytes, code: aiohttp.WSCloseCode
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(client.url.rpartition(":")[2]))
    writer.write(
        f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, "the example of RFC 6455"
    writer.write(frames)
    opcode, size = await reader.readexactly(2)
    assert opcode == 0x88
    assert int.from_bytes((await reader.readexactly(size))[:2], "big") == code
    writer.close()


async def test_the_initial_events_end_with_a_bookmark(client: Client) -> None:
    await client.create(MAPS, map_of("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion="
    async with client.watching(f"{MAPS}?{query}") as watch:
        assert (await watch.next())["type"] == "ADDED"
        mark = await watch.next()
        assert mark["type"] == "BOOKMARK"
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_bookmarks_are_sent_on_request(server: ApiServer, client: Client) -> None:
    server.context.bookmark_seconds = 0.05
    created = await client.create(PODS, pod("p"))
    async with client.watching(f"{MAPS}?resourceVersion=1&allowWatchBookmarks=true") as watch:
        mark = await watch.next()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_a_watch_ends_at_its_timeout(client: Client) -> None:
    async with client.watching(f"{MAPS}?resourceVersion=1&timeoutSeconds=1") as watch:
        assert await watch.next() == {}


async def test_an_expired_version_is_answered_410() -> None:
    server = await ApiServer.start(history=5)
    client = Client(server.url)
    try:
        page = None
        for number in range(8):
            await client.create(MAPS, map_of(f"m{number}"))
            page = page or (await client.get(f"{MAPS}?limit=1"))["metadata"]
        async with client.watching(f"{MAPS}?resourceVersion=5") as watch:
            event = await watch.next()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
            assert await watch.next() == {}
        await client.create(MAPS, map_of("one-more"))
        page = (await client.get(f"{MAPS}?limit=1"))["metadata"]
        for number in range(8):
            await client.delete(f"{MAPS}/m{number}")
        code, body = await client.ask("GET", f"{MAPS}?limit=1&continue={page['continue']}")
        assert (code, body["reason"]) == (410, "Expired")
    finally:
        await client.close()
        await server.stop()


async def test_pages_show_one_resource_version(client: Client) -> None:
    for name in "bdfh":
        await client.create(MAPS, map_of(name))
    page = await client.get(f"{MAPS}?limit=2")
    assert [item["metadata"]["name"] for item in page["items"]] == ["b", "d"]
    assert page["metadata"]["remainingItemCount"] == 2
    for name in "aceg":
        await client.create(MAPS, map_of(name))
    await client.delete(f"{MAPS}/f")
    await client.patch(f"{MAPS}/h", {"data": {"k": "new"}})
    last = await client.get(f"{MAPS}?limit=2&continue={page['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in last["items"]] == ["f", "h"]
    assert last["items"][1]["data"] == {"k": "v"}
    assert last["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    assert "continue" not in last["metadata"]


async def test_a_page_with_a_selector_compares_no_objects_behind_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    matches = Filter.matches

    def noting(self: Filter, entry: StoredObject) -> bool:
        compared.append(entry.name)
        return matches(self, entry)

    monkeypatch.setattr(Filter, "matches", noting)
    for name in "abcdefgh":
        await client.create(MAPS, map_of(name, {"x": str("aceg".count(name))}))
    token, pages = "", list[str]()
    while not pages or token:
        page = await client.get(f"{MAPS}?labelSelector=x%3D1&limit=2&continue={token}")
        pages.append("".join(item["metadata"]["name"] for item in page["items"]))
        token = page["metadata"].get("continue", "")
    assert pages == ["ac", "eg"]
    assert "".join(compared) == "abcde" + "defgh"


async def test_an_exact_list_shows_a_past_version(client: Client) -> None:
    made = await client.create(MAPS, map_of("a"))
    await client.delete(f"{MAPS}/a")
    version = made["metadata"]["resourceVersion"]
    past = await client.get(f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert [item["metadata"]["name"] for item in past["items"]] == ["a"]
    code, body = await client.ask("GET", f"{MAPS}?resourceVersion=999999")
    assert (code, body["reason"]) == (504, "Timeout")


async def test_pods_of_a_node_are_listed_and_watched(client: Client) -> None:
    for name in "abc":
        await client.create(PODS, pod(name))
    selector = "fieldSelector=spec.nodeName%3Dn1"
    async with client.watching(f"/api/v1/pods?{selector}") as watch:
        await client.ask("POST", f"{PODS}/a/binding", binding("a", "n1"))
        await client.ask("POST", f"{PODS}/b/binding", binding("b", "n2"))
        await client.ask("POST", f"{PODS}/c/binding", binding("c", "n1"))
        assert await watch.brief(2) == ["ADDED a", "ADDED c"]
    listed = await client.get(f"/api/v1/pods?{selector}")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "c"]
    await client.delete(f"{PODS}/a", gracePeriodSeconds=0)
    assert len((await client.get(f"/api/v1/pods?{selector}"))["items"]) == 1
    unbound = await client.get("/api/v1/pods?fieldSelector=spec.nodeName%3D")
    assert unbound["items"] == []


async def test_every_watcher_sees_every_change_once_and_in_order(client: Client) -> None:
    async def follow() -> list[int]:
        async with client.watching(f"{MAPS}?resourceVersion=1") as watch:
            return [int((await watch.next())["object"]["metadata"]["resourceVersion"]) for _ in range(60)]

    watchers = [asyncio.create_task(follow()) for _ in range(3)]
    await asyncio.gather(*(client.create(MAPS, map_of(f"m{number}")) for number in range(30)))
    await asyncio.gather(*(client.patch(f"{MAPS}/m{number}", {"data": {"k": "2"}}) for number in range(30)))
    seen = [await watcher for watcher in watchers]
    assert seen[0] == seen[1] == seen[2] == sorted(seen[0])
    assert max(Counter(seen[0]).values()) == 1


@pytest.mark.parametrize("form", ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
async def test_a_watch_that_nobody_reads_is_closed_and_others_see_all(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(watch_module, "BACKLOG", 1_000_000)
    await client.create(MAPS, map_of("m"))
    watchers = server.context.store.bucket("configmaps").watchers
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.write(f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: {host}\r\nAccept: {form}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    async with client.watching(f"{MAPS}?resourceVersion=1") as watch:
        assert await watch.brief(1) == ["ADDED m"]
        assert len(watchers) == 2
        count = 0
        while len(watchers) > 1:
            count += 1
            assert count < 200, "a client that does not read holds up more and more"
            await client.patch(f"{MAPS}/m", {"metadata": {"annotations": {"k": f"{count:04}" * 60_000}}})
            assert await watch.brief(1) == ["MODIFIED m"]
    writer.close()


async def test_a_row_is_made_once_for_all_watches(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def counted(*arguments: Any) -> Any:
        nonlocal made
        made += 1
        return rows(*arguments)

    monkeypatch.setattr(watch_module, "rows", counted)
    monkeypatch.setattr(watch_module, "time", lambda: 0.0)
    tables = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with contextlib.AsyncExitStack() as stack:
        viewer = Client(client.url, tables)
        stack.push_async_callback(viewer.close)
        watches = [await stack.enter_async_context(viewer.watching(f"{MAPS}?resourceVersion=1")) for _ in range(20)]
        await client.create(MAPS, map_of("m"))
        names = [
            event["object"]["rows"][0]["object"]["metadata"]["name"] for event in [await w.next() for w in watches]
        ]
    assert (names, made) == (["m"] * 20, 1)


async def test_a_table_has_columns_and_rows(client: Client) -> None:
    await client.create(PODS, pod("p"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    _, table = await client.ask("GET", PODS, Accept=accept)
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert table["rows"][0]["cells"][:3] == ["p", "0/1", "Pending"]
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, listed = await client.ask("GET", PODS, Accept=partial)
    assert listed["items"][0].keys() == {"kind", "apiVersion", "metadata"}


async def test_a_watch_ends_when_its_kind_is_deleted(client: Client) -> None:
    definitions, widgets = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/example.io/v1/widgets"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.io", "scope": "Cluster", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "widgets.example.io"}, "spec": spec}
    widget = {"kind": "Widget", "apiVersion": "example.io/v1", "metadata": {"name": "a"}}
    await client.create(definitions, definition)
    made = await client.create(widgets, widget)
    async with client.watching(widgets) as watch:
        assert await watch.brief(1) == ["ADDED a"]
        await client.delete(f"{definitions}/widgets.example.io")
        assert await watch.brief(1) == ["DELETED a"]
        assert await watch.next() == {}, "its objects are served no more"
    await client.create(definitions, definition)
    async with client.watching(f"{widgets}?resourceVersion={made['metadata']['resourceVersion']}") as watch:
        assert (await watch.next())["object"]["reason"] == "Expired", "the deletion is not in its history"
