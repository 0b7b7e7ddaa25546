"""Expiry of Events an hour after their last occurrence, as with the option ``--event-ttl`` of kube-apiserver.

The history of watches ends five minutes ago, as with its option ``--etcd-compaction-interval``.
"""

import asyncio
from collections import deque
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from embedded_apiserver.context import Context
from embedded_apiserver.store.object_store import Store

LIFETIME = timedelta(hours=1)
PERIOD = 60.0
"""Seconds between two searches."""
HISTORY_PERIODS = 5
"""Periods for which changes are remembered."""
_SECONDS = len("2026-01-01T00:00:00")


async def expire_events(ctx: Context) -> None:
    """Remove expired Events and old history until cancelled."""
    versions = deque([ctx.store.version], maxlen=HISTORY_PERIODS)
    while True:
        await asyncio.sleep(PERIOD)
        remove_expired(ctx.store, datetime.fromisoformat(ctx.now()))
        if len(versions) == HISTORY_PERIODS:
            ctx.store.compact(versions[0])
        versions.append(ctx.store.version)


def remove_expired(store: Store, now: datetime) -> int:
    """Remove the Events that have expired; return their number."""
    bucket, limit = store.bucket("events"), f"{now - LIFETIME:%Y-%m-%dT%H:%M:%S}"
    expired = [entry for entry in bucket.entries() if _last_time(entry.raw) < limit]
    for entry in expired:
        store.remove(bucket, entry)
    return len(expired)


class _Meta(Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Series(Struct, rename="camel"):
    last_observed_time: str | None = None


class _Times(Struct, rename="camel"):
    """The times of an Event."""

    metadata: _Meta
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_TIMES = msgspec.json.Decoder(_Times)


def _last_time(event: bytes) -> str:
    """The last occurrence in RFC 3339, to the second: such texts are ordered by time."""
    times = _TIMES.decode(event)
    observed = times.series.last_observed_time if times.series is not None else None
    known = (times.metadata.creation_timestamp, times.last_timestamp, times.event_time, observed)
    return max((time or "")[:_SECONDS] for time in known)
