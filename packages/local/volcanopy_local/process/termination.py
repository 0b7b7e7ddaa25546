"""The grace period of the containers of a pod."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


class Termination:
    """Waits for containers to end within a grace period, which can be shortened meanwhile."""

    def __init__(self) -> None:
        self._timeout: asyncio.Timeout | None = None

    async def run(self, grace: float, work: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run `work`, which stops the containers, for at most `grace` seconds."""
        try:
            async with asyncio.timeout(grace) as self._timeout:
                await asyncio.gather(*work)
        except TimeoutError:
            pass
        finally:
            self._timeout = None

    def shorten(self, grace: float) -> None:
        """End the period in `grace` seconds unless it ends before."""
        if self._timeout is not None and not self._timeout.expired():
            end = asyncio.get_running_loop().time() + grace
            self._timeout.reschedule(min(self._timeout.when() or end, end))
