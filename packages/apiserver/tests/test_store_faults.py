"""The file of the embedded server: one writer, a full disk, damage, old and new formats."""

import asyncio
import errno
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from embedded_apiserver.crud import garbage_collector
from embedded_apiserver.crud.garbage_collector import Collector
from embedded_apiserver.server import ApiServer
from embedded_apiserver.status_errors import ApiError
from embedded_apiserver.store.journal import JournalError, open_journal
from embedded_apiserver.store.object_store import Store
from http_client import MAPS, Client, map_of


def config_map(name: str, data: str = "x") -> dict[str, Any]:
    meta = {"name": name, "namespace": "d", "uid": name}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"v": data}}


def written(path: Path, count: int = 20) -> list[int]:
    """A journal with so many objects; returns the offset of each record behind the header."""
    store = Store()
    log = open_journal(path, store)
    for number in range(count):
        store.put(store.bucket("configmaps"), config_map(f"m{number:02}"))
    log.close()
    offsets, position = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        offsets.append(position)
        position += len(line)
    return offsets[1:]


def names(path: Path, **options: bool) -> list[str]:
    store = Store()
    open_journal(path, store, **options).close()
    return [entry.name for entry in store.bucket("configmaps").entries()]


def test_a_second_server_on_the_same_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = open_journal(path, Store())
    with pytest.raises(JournalError, match="in use by another server"):
        open_journal(path, Store())
    first.close()
    open_journal(path, Store()).close()


def test_a_second_server_process_ends_with_a_message_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = open_journal(path, Store())
    command = [sys.executable, "-m", "embedded_apiserver", "--persist", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.strip() == f"error: {path} is in use by another server: stop it, or choose another file"
    first.close()


def test_the_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.touch(mode=0o644)
    log = open_journal(path, Store())
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    log.close()


class FullDisk:
    """``os.write`` of a disk with room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sent = self._write(descriptor, data[: self.room])
        self.room -= sent
        return sent


async def test_a_full_disk_rejects_changes_cleanly_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    server = await ApiServer.start(persist=path)
    client = Client(server.url)
    disk = FullDisk(3000)
    monkeypatch.setattr(os, "write", disk)
    accepted: list[str] = []
    rejected: list[str] = []
    for number in range(30):
        code, body = await client.ask("POST", MAPS, map_of(f"m{number}"))
        (accepted if code == 201 else rejected).append(f"m{number}")
        if code != 201:
            assert (code, body["reason"]) == (507, "InsufficientStorage")
            assert "No space left on device" in body["message"]
    assert accepted
    assert rejected
    code, _ = await client.ask("DELETE", f"{MAPS}/{accepted[0]}")
    assert code == 507
    shown = {item["metadata"]["name"] for item in (await client.get(MAPS))["items"]}
    assert set(accepted) <= shown
    assert not shown & set(rejected), "what was rejected has no effect"
    disk.room = 10**9
    later = await client.create(MAPS, map_of("later"))
    await client.close()
    await server.stop()

    server = await ApiServer.start(persist=path)
    client = Client(server.url)
    kept = {item["metadata"]["name"]: item for item in (await client.get(MAPS))["items"]}
    assert set(accepted) | {"later"} <= set(kept)
    assert not set(kept) & set(rejected)
    assert kept["later"]["metadata"]["resourceVersion"] == later["metadata"]["resourceVersion"]
    await client.close()
    await server.stop()


async def test_a_garbage_collection_without_room_is_one_line_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = asyncio.Queue[int]()

    async def work(_: Collector) -> None:
        attempts.put_nowait(1)
        raise ApiError(507, "InsufficientStorage", "cannot write state: No space left on device")

    monkeypatch.setattr(Collector, "_work", work)
    monkeypatch.setattr(garbage_collector, "RETRY", 0)
    with capture_logs() as lines:
        server = await ApiServer.start()
        for _ in range(2):
            await attempts.get()
        await server.stop()
    failures = [line for line in lines if line["event"].startswith("garbage collection failed")]
    assert (failures[0]["error"], failures[0]["exc_info"]) == ("cannot write state: No space left on device", False)


def test_a_compaction_without_room_keeps_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    store = Store()
    log = open_journal(path, store)
    for number in range(5):
        store.put(store.bucket("configmaps"), config_map(f"m{number}"))
    before = path.read_bytes()
    log._floor = 1
    with monkeypatch.context() as full:
        full.setattr(os, "write", FullDisk(0))
        log.compact()
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state", "state.lock"]
    store.put(store.bucket("configmaps"), config_map("m5"))
    log.close()
    assert len(names(path)) == 6


@pytest.mark.parametrize("damage", ["bit", "zeros", "cut", "insert", "join"])
def test_a_damaged_record_is_named_with_its_offset_and_repaired_up_to_it(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "state"
    offsets = written(path)
    data = bytearray(path.read_bytes())
    at = offsets[7]
    match damage:
        case "bit":
            data[at + 30] ^= 0x04
        case "zeros":
            data[at + 10 : at + 200] = bytes(190)
        case "cut":
            del data[at + 10 : at + 40]
        case "insert":
            data[at + 10 : at + 10] = b"garbage"
        case "join":
            del data[offsets[8] - 1]
    path.write_bytes(data)
    with pytest.raises(
        JournalError, match=rf"the record at byte {at} is damaged .*--repair keeps everything before it"
    ):
        open_journal(path, Store())
    assert path.read_bytes() == data, "it is left as it is"
    assert names(path, repair=True) == [f"m{number:02}" for number in range(7)]
    assert (tmp_path / "state.damaged-1").read_bytes() == data
    assert names(path) == [f"m{number:02}" for number in range(7)]


def test_every_truncation_starts_with_the_whole_records_before_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    offsets = written(path)
    data = path.read_bytes()
    random = Random(5)
    for cut in [random.randrange(offsets[0], len(data)) for _ in range(40)]:
        path.write_bytes(data[:cut])
        whole = sum(
            1 for begin, end in zip(offsets, [*offsets[1:], len(data)], strict=True) if end <= cut and begin < cut
        )
        assert len(names(path)) == whole


def test_a_file_of_a_later_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = b'["=",4,3]'
    path.write_bytes(b"%b\t%08x\n" % (first, zlib.crc32(first)))
    with pytest.raises(JournalError, match="format 3, which a later version has written"):
        open_journal(path, Store())


def test_every_change_is_forced_to_the_disk_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, forced = Store(), list[int]()
    log = open_journal(tmp_path / "state", store, fsync=True)
    monkeypatch.setattr(os, "fsync", forced.append)
    for number in range(3):
        store.put(store.bucket("configmaps"), config_map(f"m{number}"))
    assert len(forced) == 3
    log.close()


async def test_garbage_collection_goes_on_after_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedded_apiserver.crud.garbage_collector.RETRY", 0.05)
    server = await ApiServer.start(persist=tmp_path / "state")
    client = Client(server.url)
    parent = await client.create(MAPS, map_of("parent"))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent["metadata"]["uid"]}
    child = map_of("child")
    child["metadata"]["ownerReferences"] = [owner]
    await client.create(MAPS, child)
    disk = FullDisk(80)  # for the deletion of the parent, not for that of the child
    monkeypatch.setattr(os, "write", disk)
    assert (await client.ask("DELETE", f"{MAPS}/parent"))[0] == 200
    await asyncio.sleep(0.2)
    assert (await client.ask("GET", f"{MAPS}/child"))[0] == 200
    async with client.watching(f"{MAPS}?resourceVersion={parent['metadata']['resourceVersion']}") as watch:
        disk.room = 10**9
        async with asyncio.timeout(60):
            while True:
                event = await watch.next()
                if event["type"] == "DELETED" and event["object"]["metadata"]["name"] == "child":
                    break
    await client.close()
    await server.stop()
