"""Descriptions: an object told in lines for people, with its conditions and what has happened to it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from volcanopy.cli.framework.durations import age, since
from volcanopy.cli.framework.kinds import EVENTS, key_of, status_of
from volcanopy.cli.framework.tables import table_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden
from volcanopy.kube.client.kinds import Json

_WIDTH = 18
"""Characters of the titles."""
_HIDDEN = ("kubectl.kubernetes.io/last-applied-configuration",)


class Description:
    """Lines that are gathered, title by title."""

    def __init__(self, body: Json) -> None:
        """Begins with what every object has."""
        self.now = datetime.now(UTC)
        self._lines: list[str] = []
        metadata, where = body["metadata"], key_of(body)
        self.line("Name", where.name)
        if where.namespace:
            self.line("Namespace", where.namespace)
        self.pairs("Labels", metadata.get("labels"))
        notes = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _HIDDEN}
        self.pairs("Annotations", notes)
        for owner in metadata.get("ownerReferences") or ():
            if owner.get("controller"):
                self.line("Controlled By", f"{owner['kind']}/{owner['name']}")
        if metadata.get("creationTimestamp"):
            self.line("Created", f"{metadata['creationTimestamp']} ({age(body, self.now)} ago)")

    def line(self, title: str, text: Any) -> None:
        """One title and what stands to it; nothing if that is empty."""
        if text not in (None, ""):
            self._lines.append(f"{title + ':':<{_WIDTH}} {text}")

    def pairs(self, title: str, given: Mapping[str, Any] | None) -> None:
        """A title with names and values, one a line."""
        texts = [f"{name}={value}" for name, value in sorted((given or {}).items())] or ["<none>"]
        self._lines.append(f"{title + ':':<{_WIDTH}} {texts[0]}")
        self._lines += [f"{'':<{_WIDTH}} {one}" for one in texts[1:]]

    def table(self, title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A title with a table below it; nothing if that has no row."""
        if rows := list(rows):
            self._lines += [f"{title}:", table_of(headings, rows)]

    def conditions(self, body: Json) -> None:
        """The object's conditions."""
        self.table(
            "Conditions",
            ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"),
            (
                (
                    one.get("type", ""),
                    one.get("status", ""),
                    since(one.get("lastTransitionTime"), self.now),
                    one.get("reason", ""),
                    " ".join((one.get("message") or "").split()),
                )
                for one in status_of(body).get("conditions") or ()
            ),
        )

    def events(self, events: Sequence[Json] | None) -> None:
        """What has happened, the latest last; None where they may not be read."""
        if events is None:
            self.line("Events", "<you may not list events>")
            return
        if not events:
            self.line("Events", "<none>")
            return
        self.table(
            "Events",
            ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"),
            (
                (
                    since(_moment(one), self.now) + (f" (x{count})" if (count := _count(one)) > 1 else ""),
                    one.get("type", ""),
                    one.get("reason", ""),
                    f"{one['involvedObject'].get('kind', '').lower()}/{one['involvedObject'].get('name', '')}",
                    " ".join((one.get("message") or "").split()),
                )
                for one in sorted(events, key=lambda one: (_moment(one) or "", one["metadata"]["name"]))
            ),
        )

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines)


def _moment(event: Json) -> str | None:
    series = event.get("series") or {}
    moment: str | None = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return moment


def _count(event: Json) -> int:
    return int((event.get("series") or {}).get("count") or event.get("count") or 1)


async def events_of(client: Client, *bodies: Json) -> list[Json] | None:
    """What has happened to these objects; None if we may not know."""
    events: list[Json] = []
    for body in bodies:
        # What is cluster-scoped has its events in the default namespace.
        namespace, uid = key_of(body).namespace or "default", body["metadata"]["uid"]
        try:
            listing = await client.list(EVENTS, namespace, field_selector=f"involvedObject.uid={uid}")
        except Forbidden:
            return None
        events += listing.items
    return events
