"""The OpenAPI v2 document: the names of all served kinds, in protobuf."""

from __future__ import annotations

import json
from collections.abc import Iterator

from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.kinds.strategy import Strategy
from embedded_apiserver.wire.openapi_v2 import document
from test_openapi import JOB, POD


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protobuf message, all of them bytes."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        tag, length = varint(), varint()
        assert tag & 7 == 2
        yield tag >> 3, message[position : position + length]
        position += length


def member(message: bytes, *path: int) -> bytes:
    """The first field along a path of numbers."""
    for number in path:
        message = next(value for key, value in fields(message) if key == number)
    return message


def named(message: bytes, number: int) -> dict[str, bytes]:
    """The entries of a repeated field of names and values."""
    return {member(entry, 1).decode(): member(entry, 2) for key, entry in fields(message) if key == number}


def test_the_document_names_each_kind() -> None:
    long = Kind("example.io", "v1", "K" * 200, "ks", True, Strategy())
    encoded = document([POD, JOB, long], "1.36.0")
    assert (member(encoded, 1), member(encoded, 2, 2)) == (b"2.0", b"v1.36.0")
    kinds = []
    for schema in named(member(encoded, 9), 1).values():
        assert member(schema, 22, 1) == b"object"
        kinds += json.loads(member(named(schema, 31)["x-kubernetes-group-version-kind"], 2))
    assert kinds == [POD.gvk, JOB.gvk, long.gvk]
