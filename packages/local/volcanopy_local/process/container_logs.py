"""Logs of containers on process nodes: one file a run, every line with its time."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from volcanopy_local.log_queries import selected, shown
from volcanopy_local.process.program_run import ProgramRun

MOST_BYTES = 16 * 2**20
"""The end of a log that is read: a kubelet answers with the newest file, of 10 MiB, of a log that it has rotated."""
PIECE = 2**20
"""Bytes that are read at once of a log that is followed."""
_READER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="logs")
"""Reads one log after another: a large one takes a tenth of a second, in which the event loop answers other requests."""


def read(path: Path, query: Mapping[str, str], now: float, size: int) -> bytes:
    """Return what a query selects of the first ``size`` bytes: of the whole lines in the last :data:`MOST_BYTES` of them."""
    first, lines = max(size - MOST_BYTES, 0), list[bytes]()
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(first)
        lines = file.read(size - first).splitlines(keepends=True)
    return selected(lines[1:] if first else lines, query, now)


async def follow(path: Path, position: int, query: Mapping[str, str], run: ProgramRun | None) -> AsyncIterator[bytes]:
    """The log up to a position and, unless the run is None, what follows until it closes its output."""
    yield await asyncio.get_running_loop().run_in_executor(_READER, read, path, query, time.time(), position)
    while run is not None:
        next_output = run.next_output()
        with path.open("rb") as file:
            file.seek(position)
            lines = file.readlines(PIECE)
        position += sum(map(len, lines))
        if lines:
            yield b"".join(shown(line, query) for line in lines)
        elif run.output_closed:
            return
        else:
            await next_output.wait()
