"""Errors of single fields, worded as by a real API server."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

INVALID: Final = "FieldValueInvalid"
TYPE_INVALID: Final = "FieldValueTypeInvalid"
REQUIRED: Final = "FieldValueRequired"
DUPLICATE: Final = "FieldValueDuplicate"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
FORBIDDEN: Final = "FieldValueForbidden"
NOT_FOUND: Final = "FieldValueNotFound"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"

_REASON_TEXTS: Final = {
    INVALID: "Invalid value",
    TYPE_INVALID: "Invalid value",
    REQUIRED: "Required value",
    DUPLICATE: "Duplicate value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    NOT_FOUND: "Not found",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
}
_VALUELESS: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG})

FieldPath = tuple["str | int", ...]


class _Omitted:
    """The value of an error whose message has no value."""

    def __repr__(self) -> str:
        return "OMITTED"


OMITTED: Final = _Omitted()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: where, which reason (a Status cause's reason), what is wrong, and the value found there.

    `steps` is the place whose value was judged; it can be above `path`, as for a field that is missing.
    """

    path: str
    reason: str
    message: str
    value: Any = OMITTED
    steps: FieldPath = field(default=(), compare=False)
    transition: bool = field(default=False, compare=False)

    @property
    def body(self) -> str:
        """The text without the path: the message of a Status cause."""
        text = _REASON_TEXTS[self.reason]
        if self.reason not in _VALUELESS and not isinstance(self.value, _Omitted):
            text += f": {go_json(self.value)}"
        return f"{text}: {self.message}" if self.message else text

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"


def path_text(steps: FieldPath) -> str:
    """The usual spelling of a place, `spec.tasks[0].name`; the object itself is `<nil>`."""
    if not steps:
        return "<nil>"
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def go_number(value: float) -> str:
    """A number as Go's default formatting prints it: exponents only below 1e-4 and from 1e21 on."""
    if isinstance(value, int):
        return str(value)
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def go_json(value: Any) -> str:
    """A value as an error message shows it: compact JSON with sorted keys, plain numbers."""
    if isinstance(value, float):
        return go_number(value)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    if isinstance(value, (dict, list)):
        for character, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
            text = text.replace(character, escaped)
    return text
