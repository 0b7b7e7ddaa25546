"""Logs of containers on process nodes: one file a run, every line with its time."""

import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from volcanopy.local.log_queries import selected, shown
from volcanopy.local.process.program_run import ProgramRun


def read(path: Path, query: Mapping[str, str], now: float, size: int | None = None) -> bytes:
    """Return the part of the log of a run (of its first ``size`` bytes) that a query selects. Raises NoLogError."""
    return selected(path.read_bytes()[:size].splitlines(keepends=True) if path.exists() else [], query, now)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _lines_from(path: Path, position: int) -> list[bytes]:
    with path.open("rb") as file:
        file.seek(position)
        return file.readlines()


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
