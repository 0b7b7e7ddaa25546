"""The secret part of the webhooks' paths, by which a server recognizes requests of the API server.

The API server does not authenticate itself to webhooks. It reads the path from the webhook configurations, which only
administrators of the cluster can read. The part changes every ten minutes, because the API server shows the path in its errors
when it does not reach a webhook. All servers derive the same part from the key that they share.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from volcanopy.kube import machine

PERIOD = timedelta(minutes=10)
_REFRESH_AFTER = 1.0
"""Least number of seconds between two reads of the shared key because of an unknown part."""
_KEPT = 2


class ReviewPaths:
    """The current part, and those that are accepted: of this period, the one before and the next.

    ``key`` returns the shared key, ``refresh`` reads it again: another server may have replaced it.
    """

    def __init__(
        self,
        key: Callable[[], str],
        refresh: Callable[[], Awaitable[None]],
        now: Callable[[], datetime] = machine.utc_now,
    ) -> None:
        self._key, self._refresh, self._now = key, refresh, now
        self._keys: list[str] = []
        self._refreshed = float("-inf")
        self._refreshing = asyncio.Lock()
        """Requests that come while the key is read wait for it."""

    def current(self) -> str:
        """Return the part of the present period."""
        return _part(self._key(), self._period())

    async def accepts(self, part: str) -> bool:
        """Return whether a request with this part comes from the API server."""
        if self._matches(part):
            return True
        async with self._refreshing:
            if self._matches(part):
                return True
            if machine.monotonic() - self._refreshed < _REFRESH_AFTER:
                return False
            self._refreshed = machine.monotonic()
            await self._refresh()
            return self._matches(part)

    def _matches(self, part: str) -> bool:
        if (key := self._key()) not in self._keys:
            self._keys = [key, *self._keys][:_KEPT]
        period = self._period()
        known = (_part(key, period + shift) for key in self._keys for shift in (0, -1, 1))
        return any(hmac.compare_digest(part.encode(), other.encode()) for other in known)

    def _period(self) -> int:
        return int(self._now().timestamp() // PERIOD.total_seconds())


def _part(key: str, period: int) -> str:
    return hmac.new(key.encode(), f"review path {period}".encode(), hashlib.sha256).hexdigest()[:32]
