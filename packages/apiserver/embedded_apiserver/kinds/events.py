"""The two kinds of Event are one resource: `events.k8s.io` objects are stored in the core form and renamed on the way."""

from embedded_apiserver.store.object_store import Body

_NAMES = (  # (events.k8s.io, core)
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)


def to_core(body: Body) -> Body:
    """An `events.k8s.io` Event as the core kind."""
    made = {**body, "apiVersion": "v1"}
    for new, old in _NAMES:
        if new in made:
            made[old] = made.pop(new)
    made.setdefault("involvedObject", {})
    return made


def from_core(body: Body) -> Body:
    """A core Event as the `events.k8s.io` kind."""
    made = {**body, "apiVersion": "events.k8s.io/v1"}
    for new, old in _NAMES:
        if old in made:
            made[new] = made.pop(old)
    return made
