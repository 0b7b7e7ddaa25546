"""The store keeps its objects across restarts, whatever ended the process."""

import asyncio
import os
import signal
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest

from embedded_apiserver.server import ApiServer
from embedded_apiserver.store import object_store
from embedded_apiserver.store.journal import JournalError, open_journal
from embedded_apiserver.store.object_store import Store
from http_client import MAPS, PODS, Client, binding, map_of, owner, pod


async def _serve(path: Path) -> tuple[ApiServer, Client]:
    server = await ApiServer.start(persist=path)
    return server, Client(server.url)


async def test_objects_are_restored_and_versions_continue(tmp_path: Path) -> None:
    path = tmp_path / "state"
    server, client = await _serve(path)
    await client.create(MAPS, map_of("gone"))
    parent = await client.create(MAPS, map_of("parent"))
    await client.create(PODS, {**pod("p"), "metadata": {"name": "p", "ownerReferences": [owner(parent)]}})
    await client.ask("POST", f"{PODS}/p/binding", binding("p", "n1"))
    deleted = await client.delete(f"{MAPS}/gone")
    assert deleted["status"] == "Success"
    before = await client.get(f"{PODS}/p")
    await client.close()
    await server.stop()

    server, client = await _serve(path)
    assert await client.get(f"{PODS}/p") == before
    assert (await client.ask("GET", f"{MAPS}/gone"))[0] == 404
    on_node = await client.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")
    assert len(on_node["items"]) == 1
    async with client.watching(f"{MAPS}?resourceVersion={parent['metadata']['resourceVersion']}") as watch:
        event = await watch.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    later = await client.create(MAPS, map_of("later"))
    assert int(later["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    async with client.watching(f"{PODS}?resourceVersion={later['metadata']['resourceVersion']}") as watch:
        await client.delete(f"{MAPS}/parent")
        assert "deletionTimestamp" in (await watch.next())["object"]["metadata"], "who owns whom is known again"
    await client.close()
    await server.stop()


async def test_a_killed_server_keeps_all_confirmed_writes(tmp_path: Path) -> None:
    path = tmp_path / "state"
    command = [sys.executable, "-m", "embedded_apiserver", "--persist", str(path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    client = Client(url)
    made = [await client.create(MAPS, map_of(f"m{number}")) for number in range(50)]
    confirmed = [body["metadata"]["uid"] for body in made]
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await client.close()

    server, client = await _serve(path)
    result = [item["metadata"]["uid"] for item in (await client.get(MAPS))["items"]]
    assert sorted(result) == sorted(confirmed)
    await client.close()
    await server.stop()


def test_a_truncated_last_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "state"
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m", "namespace": "d", "uid": "1"}}
    store = Store()
    journal = open_journal(path, store)
    store.put(store.bucket("configmaps"), body)
    journal.close()
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(whole.splitlines()[-1][:40])
    again = Store()
    open_journal(path, again).close()
    assert again.bucket("configmaps").get("d", "m") is not None
    assert again.version == store.version


def test_a_corrupt_file_is_rejected_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = b'["=",1,2]'
    content = b"%b\t%08x\nnonsense\n" % (first, zlib.crc32(first))
    path.write_bytes(content)
    with pytest.raises(JournalError, match="the record at byte 19 is damaged"):
        open_journal(path, Store())
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"not ours", b"not ours\n", b"{}"])
def test_another_file_is_rejected_and_not_changed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "thesis.txt"
    path.write_bytes(content)
    with pytest.raises(JournalError):
        open_journal(path, Store())
    assert path.read_bytes() == content


def test_the_journal_is_compacted_when_it_outgrows_its_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedded_apiserver.store.journal.REWRITE_FLOOR", 10_000)
    path = tmp_path / "state"
    store = Store()
    journal = open_journal(path, store)
    for number in range(500):
        metadata = {"name": "m", "namespace": "d", "uid": "1"}
        store.put(
            store.bucket("configmaps"), {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "n": number}
        )
    journal.close()
    assert os.path.getsize(path) < 20_000
    again = Store()
    open_journal(path, again).close()
    entry = again.bucket("configmaps").get("d", "m")
    assert entry is not None
    assert entry.body["n"] == 499


def test_a_journal_is_read_without_all_its_objects_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "DECODED", 10)
    store = Store()
    journal = open_journal(tmp_path / "state", store)
    for number in range(500):
        names = {"name": f"m{number}", "namespace": "x", "uid": f"u{number}"}
        data = {f"k{key}": f"{number}" for key in range(300)}
        store.put(store.bucket("maps"), {"kind": "M", "apiVersion": "v1", "metadata": names, "data": data})
    journal.close()
    tracemalloc.start()
    try:
        open_journal(tmp_path / "state", restored := Store()).close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [entry.raw for entry in restored.bucket("maps").entries()] == [
        entry.raw for entry in store.bucket("maps").entries()
    ]
    assert peak < 1.5 * (tmp_path / "state").stat().st_size
