"""Text of the cluster for terminals and log lines: control characters are shown, not executed.

Users write names, messages and annotations of objects. An escape sequence in them could move the cursor, hide lines or change the
title of the terminal of an administrator who describes the object.
"""

from collections.abc import MutableMapping
from typing import Any

_SHOWN = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if code not in (0x09, 0x0A)}
_SHOWN |= {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
"""Control characters except tab and newline, and those that reorder text."""


def printable(text: str) -> str:
    """Return a text with its control characters as escapes: ``\\x1b[31m``."""
    return text.translate(_SHOWN)


def printable_fields(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the fields of a log line (a structlog processor) as single lines, except tracebacks, and printable."""
    return {key: _single_line(key, value) if isinstance(value, str) else value for key, value in event.items()}


def _single_line(key: str, text: str) -> str:
    return printable(text if key in {"exception", "stack"} else text.replace("\n", "\\n"))
