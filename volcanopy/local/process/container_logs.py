"""Logs of containers on process nodes: one file a run, every line with its time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from volcanopy.local.process.container_run import ContainerRun
from volcanopy.local.simulated.pod_status import micro_stamp


class NoLogError(LookupError):
    """There is no log; the message is that of a kubelet."""


def read(path: Path, query: Mapping[str, str], now: datetime, size: int | None = None) -> bytes:
    """The log of a run (its first `size` bytes) with tailLines, sinceSeconds, sinceTime, timestamps and limitBytes."""
    lines = path.read_bytes()[:size].splitlines(keepends=True) if path.exists() else []
    since = query.get("sinceTime", "")
    if "sinceSeconds" in query:
        since = micro_stamp((now - timedelta(seconds=int(query["sinceSeconds"]))).timestamp())
    if since:
        lines = [line for line in lines if line.split(b" ", 1)[0].decode() >= since]
    if "tailLines" in query:
        count = int(query["tailLines"])
        lines = lines[-count:] if count > 0 else []
    body = b"".join(_shown(line, query) for line in lines)
    return body[: int(query["limitBytes"])] if "limitBytes" in query else body


def _shown(line: bytes, query: Mapping[str, str]) -> bytes:
    return line if query.get("timestamps") in {"true", "1"} else line.partition(b" ")[2]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _lines_from(path: Path, position: int) -> list[bytes]:
    with path.open("rb") as file:
        file.seek(position)
        return file.readlines()


async def follow(path: Path, query: Mapping[str, str], run: ContainerRun | None) -> AsyncIterator[bytes]:
    """The log and what is added to it, until the run (None: it has ended) closes its output."""
    position = _size(path)
    yield read(path, query, datetime.now(UTC), size=position)
    while run is not None:
        changed = run.next_output()
        lines = _lines_from(path, position)
        position += sum(map(len, lines))
        if lines:
            yield b"".join(_shown(line, query) for line in lines)
        elif run.output_closed:
            return
        else:
            await changed.wait()
