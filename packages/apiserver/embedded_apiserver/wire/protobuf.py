"""Request bodies in Kubernetes' protobuf encoding: kubectl sends some built-in kinds so, controllers in Go all of them.

The embedded API server answers in JSON always; it only has to read protobuf.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_TABLE: Final = Path(__file__).with_name("protobuf_fields.txt")
Wire = int | bytes


class ProtobufError(ValueError):
    """A body that cannot be decoded, with the reason."""


class _Field(NamedTuple):
    """One field of a message: `shape` is one, list or map."""

    name: str
    kind: str
    shape: str
    pointer: bool
    always: bool


def decode(body: bytes) -> dict[str, Any]:
    """The JSON object of a protobuf body; raises ProtobufError, naming the kind or field that is not known."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not start with the Kubernetes protobuf magic number")
    try:
        return _unwrap(body[len(_MAGIC) :])
    except (UnicodeDecodeError, msgspec.DecodeError, OverflowError, OSError) as fault:
        raise ProtobufError(f"the body contains a text or time that cannot be decoded: {fault}") from None


def _unwrap(envelope: bytes) -> dict[str, Any]:
    parts = dict(_wire(envelope))
    type_meta = dict(_wire(_bytes(parts.get(1, b""))))
    api_version, kind = (_bytes(type_meta.get(number, b"")).decode() for number in (1, 2))
    name = message_of(api_version, kind)
    if name not in messages():
        raise ProtobufError(f"{api_version} {kind} is not accepted as protobuf: send it as application/json")
    return {"apiVersion": api_version, "kind": kind, **_message(name, _bytes(parts.get(2, b"")))}


def message_of(api_version: str, kind: str) -> str:
    """The name of the message of a kind in the table."""
    qualified = f"{api_version.partition('/')[0].partition('.')[0]}.{kind}"
    return qualified if qualified in messages() else kind


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtobufError("the body ends within a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _wire(data: bytes) -> Iterator[tuple[int, Wire]]:
    """The fields of a message as they stand: number, and an integer or bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
                yield tag >> 3, value
            case 2:
                length, position = _varint(data, position)
                if position + length > len(data):
                    raise ProtobufError("the body ends within a field")
                yield tag >> 3, data[position : position + length]
                position += length
            case other:
                raise ProtobufError(f"wire type {other} is not used by Kubernetes")


@cache
def messages() -> dict[str, dict[int, _Field]]:
    """The fields of each message by their numbers."""
    messages: dict[str, dict[int, _Field]] = {}
    for line in _TABLE.read_text("utf-8").splitlines():
        name, _, fields = line.partition(": ")
        if not line.startswith("#"):
            parts = [part.split(" ") for part in fields.split(", ") if part]
            messages[name] = {int(number): _field(json_name, kind) for number, json_name, kind in parts}
    return messages


def _field(name: str, text: str) -> _Field:
    """Return a field from its entry in the table, whose head describes the form."""
    kind = text.strip("{}*!+")
    shape = "map" if text.startswith("{") else "list" if "*" in text else "one"
    return _Field(name, kind, shape, "!" in text, "+" in text)


def _message(name: str, data: bytes) -> dict[str, Any]:
    fields = messages()[name]
    result: dict[str, Any] = {}
    for number, raw in _wire(data):
        field = fields.get(number)
        if field is None:
            raise ProtobufError(f"field {number} of {name} is not known: send the object as application/json")
        if field.kind != "-":
            _put(result, field, raw)
    return result


def _put(result: dict[str, Any], field: _Field, raw: Wire) -> None:
    if field.shape == "map":
        key, value = _map_entry(field, raw)
        result.setdefault(field.name, {})[key] = value
    elif field.shape == "list":
        result.setdefault(field.name, []).append(_value(field.kind, raw))
    else:
        value = _value(field.kind, raw)
        if field.name == "^":
            result.update(value or {})
        elif field.pointer or field.always or value not in (None, "", 0, {}):
            result[field.name] = value


def _map_entry(field: _Field, raw: Wire) -> tuple[str, Any]:
    key, value = "", _value(field.kind, 0 if field.kind in "ib" else b"")
    for number, part in _wire(_bytes(raw)):
        if number == 1:
            key = _bytes(part).decode()
        else:
            value = _value(field.kind, part)
    return key, value


def _bytes(raw: Wire) -> bytes:
    if not isinstance(raw, bytes):
        raise ProtobufError("a number stands where a text or message was expected")
    return raw


def _signed(raw: Wire) -> int:
    if isinstance(raw, bytes):
        raise ProtobufError("a text or message stands where a number was expected")
    return raw - (1 << 64) if raw >= 1 << 63 else raw


def _value(kind: str, raw: Wire) -> Any:
    """One value as JSON has it."""
    match kind:
        case "s":
            return _bytes(raw).decode()
        case "i":
            return _signed(raw)
        case "b":
            return bool(raw)
        case "y":
            return base64.b64encode(_bytes(raw)).decode()
        case "q":
            return "".join(_bytes(part).decode() for number, part in _wire(_bytes(raw)) if number == 1) or "0"
        case "t" | "u":
            return _time(dict(_wire(_bytes(raw))), precise=kind == "u")
        case "o":
            parts = dict(_wire(_bytes(raw)))
            return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(parts.get(2, 0))
        case "r":
            text = _bytes(dict(_wire(_bytes(raw))).get(1, b""))
            return msgspec.json.decode(text) if text else None
    if kind.startswith("@"):
        return [_value(kind[1:], item) for _, item in _wire(_bytes(raw))]
    return _message(kind, _bytes(raw))


def _time(parts: dict[int, Wire], *, precise: bool) -> str | None:
    """A time as RFC 3339 text; None for the zero time, which Kubernetes writes as an empty message."""
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if not parts or seconds <= -62135596800:
        return None
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{nanos // 1000:06d}Z" if precise else f"{moment}Z"
