"""Events do not fill the embedded server: they expire an hour after their last occurrence."""

from datetime import UTC, datetime, timedelta

import pytest

from volcanopy.local.apiserver.crud.event_expiry import LIFETIME, remove_expired
from volcanopy.local.apiserver.store.object_store import Body, Store

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
