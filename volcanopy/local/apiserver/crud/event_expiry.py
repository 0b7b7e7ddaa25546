"""Expiry of Events an hour after their last occurrence, as with the option ``--event-ttl`` of kube-apiserver."""

import asyncio
from datetime import datetime, timedelta

from volcanopy.local.apiserver.context import Context
from volcanopy.local.apiserver.store.object_store import Body, Store

LIFETIME = timedelta(hours=1)
PERIOD = 60.0
"""Seconds between two searches."""
_SECONDS = len("2026-01-01T00:00:00")


async def expire_events(ctx: Context) -> None:
    """Remove expired Events until cancelled."""
    while True:
        await asyncio.sleep(PERIOD)
        remove_expired(ctx.store, datetime.fromisoformat(ctx.now()))


def remove_expired(store: Store, now: datetime) -> int:
    """Remove the Events that have expired; return their number."""
    bucket, limit = store.bucket("events"), f"{now - LIFETIME:%Y-%m-%dT%H:%M:%S}"
    expired = [entry for entry in bucket.entries() if _last_time(entry.body) < limit]
    for entry in expired:
        store.remove(bucket, entry)
    return len(expired)


def _last_time(event: Body) -> str:
    """The last occurrence in RFC 3339, to the second: such texts are ordered by time."""
    times = (
        event["metadata"].get("creationTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        (event.get("series") or {}).get("lastObservedTime"),
    )
    return max((time or "")[:_SECONDS] for time in times)
