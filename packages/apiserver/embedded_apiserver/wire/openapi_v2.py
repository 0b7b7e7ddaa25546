"""The OpenAPI v2 document in the protobuf encoding that kubectl and helm request: the names of the served kinds.

They look there whether the kinds of a `kind: List` exist, which the documents of v3 do not describe. The schemas have no fields:
everything else is read from v3, and objects are validated by the server. The field numbers are those of the published message
`openapi.v2.Document` (OpenAPIv2.proto of gnostic-models).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from embedded_apiserver.kinds.kinds import Kind

# Clients request `spec.v2@v1.0`, but "@" is no character of a media type: API servers answer with "." in its place.
CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_BYTES: Final = 2
"""The wire type of texts and messages."""


def document(kinds: Iterable[Kind], version: str) -> bytes:
    """Return the document with these kinds; `version` is the served Kubernetes version."""
    schemas = b"".join(_field(1, _named(f"{kind.group}/{kind.version}.{kind.kind}", _schema(kind))) for kind in kinds)
    info = _field(1, b"embedded API server") + _field(2, f"v{version}".encode())
    return _field(1, b"2.0") + _field(2, info) + _field(9, schemas)


def _schema(kind: Kind) -> bytes:
    """An object of this kind: its type, and the extension with the kind, whose value is YAML."""
    gvk = _field(2, msgspec.json.encode([kind.gvk]))
    return _field(22, _field(1, b"object")) + _field(31, _named("x-kubernetes-group-version-kind", gvk))


def _named(name: str, value: bytes) -> bytes:
    return _field(1, name.encode()) + _field(2, value)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
