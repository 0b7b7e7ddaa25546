"""Time as an event loop sees it, for limits that hold on a busy machine as well."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

_TURN = 0.01


@contextlib.asynccontextmanager
async def loop_time() -> AsyncIterator[Callable[[], float]]:
    """Yield a function that returns the seconds since the beginning, in turns of 10 ms of this event loop.

    A turn that comes late counts once: while other processes use the machine, less time passes here than on a clock.
    """
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(_TURN)
            turns += 1

    counting = asyncio.create_task(count())
    try:
        yield lambda: turns * _TURN
    finally:
        counting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await counting
