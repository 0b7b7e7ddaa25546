"""An OpenAPI v2 document in the protobuf encoding that kubectl and helm request.

The field numbers are those of the published message definition `openapi.v2.Document` (OpenAPIv2.proto of gnostic-models).
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

import msgspec

# Clients request `spec.v2@v1.0`, but "@" is no character of a media type: API servers answer with "." in its place.
CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_TEXT, _INTEGER, _BOOLEAN, _DOUBLE, _ANY, _TEXTS, _ANYS = "text", "integer", "boolean", "double", "any", "texts", "anys"
_SCHEMA: Final = {
    "$ref": (1, _TEXT), "format": (2, _TEXT), "title": (3, _TEXT), "description": (4, _TEXT), "default": (5, _ANY),
    "multipleOf": (6, _DOUBLE), "maximum": (7, _DOUBLE), "exclusiveMaximum": (8, _BOOLEAN), "minimum": (9, _DOUBLE),
    "exclusiveMinimum": (10, _BOOLEAN), "maxLength": (11, _INTEGER), "minLength": (12, _INTEGER), "pattern": (13, _TEXT),
    "maxItems": (14, _INTEGER), "minItems": (15, _INTEGER), "uniqueItems": (16, _BOOLEAN), "maxProperties": (17, _INTEGER),
    "minProperties": (18, _INTEGER), "required": (19, _TEXTS), "enum": (20, _ANYS),
}  # fmt: skip
_SCHEMA_EXTENSIONS: Final = 31
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def encode(document: Mapping[str, Any]) -> bytes:
    """The document as an `openapi.v2.Document` message."""
    info = document["info"]
    definitions = _named_schemas(document["definitions"])
    return b"".join((
        _text(1, document["swagger"]),
        _message(2, _text(1, info["title"]) + _text(2, info["version"])),
        _message(9, definitions),
    ))  # fmt: skip


def _schema(schema: Mapping[str, Any]) -> bytes:
    parts = [_fields(schema, _SCHEMA)]
    if "additionalProperties" in schema:
        parts.append(_message(21, _message(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(_message(25, _named_schemas(schema["properties"])))
    parts.append(_extensions(schema, _SCHEMA_EXTENSIONS))
    return b"".join(parts)


def _named_schemas(schemas: Mapping[str, Any]) -> bytes:
    """The one field of Properties and of Definitions."""
    return b"".join(_message(1, _named(name, _schema(schema))) for name, schema in schemas.items())


def _extensions(source: Mapping[str, Any], number: int) -> bytes:
    return b"".join(_message(number, _named(key, _any(value))) for key, value in source.items() if key.startswith("x-"))


def _fields(source: Mapping[str, Any], numbers: Mapping[str, tuple[int, str]]) -> bytes:
    return b"".join(_field(*numbers[key], value) for key, value in source.items() if key in numbers)


def _field(number: int, kind: str, value: Any) -> bytes:
    match kind:
        case "text":
            return _text(number, value)
        case "integer" | "boolean":
            return _key(number, _VARINT) + _varint(int(value))
        case "double":
            return _key(number, _FIXED64) + struct.pack("<d", value)
        case "any":
            return _message(number, _any(value))
        case "texts":
            return b"".join(_text(number, item) for item in value)
        case _:
            return b"".join(_message(number, _any(item)) for item in value)


def _any(value: Any) -> bytes:
    """An Any: its value as YAML, of which JSON is a part."""
    return _message(2, msgspec.json.encode(value))


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _message(2, value)


def _text(number: int, value: str) -> bytes:
    return _message(number, value.encode())


def _message(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
