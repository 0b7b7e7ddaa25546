"""Logs of containers on process nodes: one file a run, every line with its time."""

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from volcanopy.local.log_queries import selected, shown
from volcanopy.local.process.program_run import ProgramRun

MOST_BYTES = 16 * 2**20
"""The end of a log that is read: a kubelet answers with the newest file, of 10 MiB, of a log that it has rotated."""
PIECE = 2**20
"""Bytes that are read at once of a log that is followed."""


def read(path: Path, query: Mapping[str, str], now: float, size: int | None = None) -> bytes:
    """Return the part of the log of a run (of its first ``size`` bytes) that a query selects. Raises NoLogError."""
    return selected(_last_lines(path, _size(path) if size is None else size), query, now)


def _last_lines(path: Path, size: int) -> list[bytes]:
    """Return the whole lines in the last :data:`MOST_BYTES` of the first ``size`` bytes."""
    if not path.exists():
        return []
    first = max(size - MOST_BYTES, 0)
    with path.open("rb") as file:
        file.seek(first)
        lines = file.read(size - first).splitlines(keepends=True)
    return lines[1:] if first else lines


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _lines_from(path: Path, position: int) -> list[bytes]:
    with path.open("rb") as file:
        file.seek(position)
        return file.readlines(PIECE)


async def follow(path: Path, query: Mapping[str, str], run: ProgramRun | None) -> AsyncIterator[bytes]:
    """The log and what is added to it, until the run (None: it has ended) closes its output."""
    position = _size(path)
    yield read(path, query, time.time(), size=position)
    while run is not None:
        next_output = run.next_output()
        lines = _lines_from(path, position)
        position += sum(map(len, lines))
        if lines:
            yield b"".join(shown(line, query) for line in lines)
        elif run.output_closed:
            return
        else:
            await next_output.wait()
