"""What a service awaits before it observes the event that ends it, such as the first answer of the API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def cancelled_by(stop: asyncio.Event) -> AsyncIterator[None]:
    """Cancel the task in the block when ``stop`` is set: SIGTERM ends a service that waits for an unreachable API server."""
    task = asyncio.current_task()
    assert task is not None

    async def cancel() -> None:
        await stop.wait()
        task.cancel()

    waiting = asyncio.create_task(cancel())
    try:
        yield
    finally:
        waiting.cancel()
