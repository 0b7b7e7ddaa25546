"""Columns: a name and a function from an object to a cell; and how ages are written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from embedded_apiserver.schema.formats import parse_timestamp

Json = Any
Cell = Callable[[Mapping[str, Any], datetime], Json]


@dataclass(frozen=True, slots=True)
class Column:
    """One column; a priority above 0 is shown by `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        """The column as a Table's `columnDefinitions` describe it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def human_duration(length: timedelta) -> str:
    """A length as kubectl prints it, two units at most: 45s, 3m20s, 5h, 2d3h, 3y12d."""
    seconds = int(length.total_seconds())
    if seconds < 0:
        return "0s" if length > timedelta(seconds=-2) else "<invalid>"
    if seconds < 120:
        return f"{seconds}s"
    for limit, big, small in (
        (600, (60, "m"), (1, "s")),
        (3 * 3600, (60, "m"), None),
        (8 * 3600, (3600, "h"), (60, "m")),
        (48 * 3600, (3600, "h"), None),
        (8 * 86400, (86400, "d"), (3600, "h")),
        (2 * 365 * 86400, (86400, "d"), None),
        (8 * 365 * 86400, (365 * 86400, "y"), (86400, "d")),
    ):
        if seconds < limit:
            whole, rest = divmod(seconds, big[0])
            minor = rest // small[0] if small else 0
            return f"{whole}{big[1]}" + (f"{minor}{small[1]}" if small and minor else "")
    return f"{seconds // (365 * 86400)}y"


def age_since(text: str | None, now: datetime) -> str:
    """How long ago an RFC 3339 time was, as kubectl prints ages."""
    moment = parse_timestamp(text) if isinstance(text, str) else None
    return "<unknown>" if moment is None else human_duration(now - moment)


def age_of(obj: Mapping[str, Any], now: datetime) -> str:
    """How old an object is."""
    return age_since((obj.get("metadata") or {}).get("creationTimestamp"), now)


NAME: Final = Column(
    "Name",
    lambda obj, _: (obj.get("metadata") or {}).get("name", ""),
    format="name",
    description="The name of the object, unique among the objects of its kind in its namespace.",
)
AGE: Final = Column("Age", age_of, description="How long ago the object was created.")
