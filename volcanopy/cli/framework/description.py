"""Descriptions of objects in lines, with conditions and events."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volcanopy.api import quantity
from volcanopy.api.read_model import Condition, Meta
from volcanopy.cli.framework.tables import table_of
from volcanopy.client.durations import current_time, local_time, since
from volcanopy.client.events import events_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.printable import printable

_WIDTH = 18
"""Width of the titles."""
_HIDDEN = ("kubectl.kubernetes.io/last-applied-configuration",)


class Description:
    """Lines of a description, collected title by title."""

    def __init__(self, metadata: Meta) -> None:
        """Begins with the lines of every kind."""
        self.now = current_time()
        self._lines: list[str] = []
        self.line("Name", metadata.name)
        self.line("Namespace", metadata.namespace)
        self.pairs("Labels", metadata.labels)
        self.pairs("Annotations", {key: text for key, text in metadata.annotations.items() if key not in _HIDDEN})
        if owner := metadata.controller:
            self.line("Controlled By", f"{owner.kind}/{owner.name}")
        if created := metadata.creation_timestamp:
            self.line("Created", f"{local_time(created)} ({since(created, self.now)} ago)")

    def line(self, title: str, text: Any) -> None:
        """Add a title with its text; nothing if that is empty."""
        if text not in (None, ""):
            self._lines.append(f"{title + ':':<{_WIDTH}} {text}")

    def pairs(self, title: str, values: Mapping[str, Any]) -> None:
        """Add a title with names and values, one a line."""
        texts = [f"{name}={value}" for name, value in sorted(values.items())] or ["<none>"]
        self._lines.append(f"{title + ':':<{_WIDTH}} {texts[0]}")
        self._lines += [f"{'':<{_WIDTH}} {text}" for text in texts[1:]]

    def table(self, title: str, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add a title with a table below it; nothing without rows."""
        if rows := list(rows):
            self._lines += [f"{title}:", table_of(headings, rows)]

    def conditions(self, conditions: Iterable[Condition]) -> None:
        """Add the object's conditions."""
        self.table(
            "Conditions",
            ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"),
            (
                (
                    condition.type,
                    condition.status,
                    since(condition.last_transition_time, self.now),
                    condition.reason,
                    " ".join(condition.message.split()),
                )
                for condition in conditions
            ),
        )

    async def events(self, client: Client, *objects: Meta) -> None:
        """Add the events of objects, the latest last."""
        events = await events_of(client, *objects)
        if events is None:
            self.line("Events", "<forbidden: listing events>")
        elif not events:
            self.line("Events", "<none>")
        else:
            self.table(
                "Events",
                ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"),
                (
                    (
                        since(event.time, self.now) + (f" (x{event.occurrences})" if event.occurrences > 1 else ""),
                        event.type or "",
                        event.reason or "",
                        f"{event.involved_object.kind.lower()}/{event.involved_object.name}",
                        " ".join((event.message or "").split()),
                    )
                    for event in events
                ),
            )

    def text(self) -> str:
        """Return all lines."""
        return printable("\n".join(self._lines))


def amounts(quantities: Mapping[str, Any] | None, default: str = "-") -> str:
    """Return quantities in one cell: ``cpu=4,memory=8Gi``."""
    return ",".join(f"{name}={_amount(name, given)}" for name, given in sorted((quantities or {}).items())) or default


def _amount(name: str, given: Any) -> str:
    """Return a quantity for people; as it is if it cannot be read."""
    try:
        return quantity.shown(name, quantity.amount(name, given)) if name == "cpu" else str(given)
    except quantity.QuantityError:
        return str(given)
