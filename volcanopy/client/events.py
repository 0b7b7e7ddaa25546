"""Events of objects."""

from datetime import datetime

from volcanopy.api.read_model import Meta, ReadModel
from volcanopy.client.kinds import readable
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden
from volcanopy.kube.client.raw_kinds import EVENTS


class ObjectReference(ReadModel, frozen=True, kw_only=True, gc=False):
    """Kind and name of an event's object."""

    kind: str = ""
    name: str = ""


class EventSeries(ReadModel, frozen=True, kw_only=True, gc=False):
    """Repetitions of an event."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(ReadModel, frozen=True, kw_only=True, gc=False):
    """An event of an object."""

    metadata: Meta
    involved_object: ObjectReference = ObjectReference()
    type: str | None = ""
    reason: str | None = ""
    message: str | None = ""
    count: int | None = None
    series: EventSeries | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def time(self) -> datetime | None:
        """The time of the last occurrence."""
        observed = self.series.last_observed_time if self.series else None
        return observed or self.last_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def occurrences(self) -> int:
        """How often the event occurred."""
        return (self.series.count if self.series else 0) or self.count or 1


async def events_of(client: Client, *objects: Meta) -> list[Event] | None:
    """Return the events of these objects, the latest last; None if the user may not list them."""
    events: list[Event] = []
    for metadata in objects:
        # Events of cluster-scoped objects are in the default namespace.
        namespace = metadata.namespace or "default"
        try:
            listing = await client.list(EVENTS, namespace, field_selector=f"involvedObject.uid={metadata.uid}")
        except Forbidden:
            return None
        events += readable(Event, listing.items)
    return sorted(events, key=lambda event: (event.time.timestamp() if event.time else 0.0, event.metadata.name))
