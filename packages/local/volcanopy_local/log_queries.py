"""The part of a container's log that a query selects, as a kubelet does."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime


class NoLogError(LookupError):
    """There is no log; the message is that of a kubelet."""


def check(query: Mapping[str, str]) -> None:
    """Raise NoLogError if a query cannot be answered: its answer may be a stream, which has no place for an error."""
    _time(query)
    for key in ("sinceSeconds", "tailLines", "limitBytes"):
        if not (text := query.get(key, "0")).isdecimal():
            raise NoLogError(f'invalid {key} "{text}": must be a whole number, at least 0')


def selected(lines: Sequence[bytes], query: Mapping[str, str], now: float) -> bytes:
    """Return the text of lines that begin with their time, by tailLines, sinceSeconds, sinceTime, timestamps and limitBytes.

    ``now`` is in seconds. Raises NoLogError.
    """
    since = datetime.fromtimestamp(now - int(query["sinceSeconds"]), UTC) if "sinceSeconds" in query else _time(query)
    if since is not None:
        lines = [line for line in lines if datetime.fromisoformat(line.split(b" ", 1)[0].decode()) >= since]
    if "tailLines" in query:
        count = int(query["tailLines"])
        lines = lines[-count:] if count > 0 else []
    body = b"".join(shown(line, query) for line in lines)
    return body[: int(query["limitBytes"])] if "limitBytes" in query else body


def shown(line: bytes, query: Mapping[str, str]) -> bytes:
    """Return a line with or without its time, by the query."""
    return line if query.get("timestamps") in {"true", "1"} else line.partition(b" ")[2]


def _time(query: Mapping[str, str]) -> datetime | None:
    text = query.get("sinceTime", "")
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except ValueError:
        raise NoLogError(f'invalid sinceTime "{text}": must be a time such as 2030-01-01T00:00:00Z') from None
