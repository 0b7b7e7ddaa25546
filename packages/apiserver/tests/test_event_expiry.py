"""Events do not fill the embedded server: they expire an hour after their last occurrence."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from embedded_apiserver.crud.event_expiry import HISTORY_PERIODS, LIFETIME, expire_events, remove_expired
from embedded_apiserver.store.object_store import Body, Store

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD, RECENT = (f"{NOW - LIFETIME + timedelta(seconds=shift):%Y-%m-%dT%H:%M:%SZ}" for shift in (-1, 1))


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({}, 1),
        ({"lastTimestamp": None, "eventTime": None, "series": None}, 1),
        ({"lastTimestamp": RECENT}, 0),
        ({"eventTime": RECENT.replace("Z", ".000001Z")}, 0),
        ({"series": {"count": 2, "lastObservedTime": RECENT}}, 0),
        ({"lastTimestamp": OLD}, 1),
    ],
)
def test_an_event_expires_after_its_last_occurrence(times: Body, expected: int) -> None:
    store = Store()
    bucket = store.bucket("events")
    for name, body in (("a", times), ("recent", {"lastTimestamp": RECENT})):
        meta = {"namespace": "default", "name": name, "uid": name, "creationTimestamp": OLD}
        store.put(bucket, {"apiVersion": "v1", "kind": "Event", "metadata": meta, **body})
    assert remove_expired(store, NOW) == expected
    assert len(bucket.entries()) == 2 - expected
    assert remove_expired(store, NOW) == 0
    assert remove_expired(store, NOW + LIFETIME) == 2 - expected


async def test_changes_are_remembered_for_five_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    bucket = store.bucket("pods")
    context: Any = SimpleNamespace(store=store, now=NOW.isoformat)
    oldest: list[int] = []

    async def a_change_in_each_period(_: float) -> None:
        if bucket.history:
            oldest.append(bucket.history[0].version)
        if len(oldest) == 3 * HISTORY_PERIODS:
            raise asyncio.CancelledError
        store.put(bucket, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "a"}, "spec": {}})

    monkeypatch.setattr("embedded_apiserver.crud.event_expiry.asyncio.sleep", a_change_in_each_period)
    with pytest.raises(asyncio.CancelledError):
        await expire_events(context)
    assert oldest == [*([1] * HISTORY_PERIODS), *range(2, 2 + 2 * HISTORY_PERIODS)]
