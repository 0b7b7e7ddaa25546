"""The OpenAPI v2 document: complete, without what v2 does not know, and the same in its protobuf encoding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from embedded_apiserver.schema import openapi, openapi_v2
from embedded_apiserver.wire.openapi_protobuf import encode
from http_client import Client
from test_openapi import DEFINITIONS, JOB, NODE, POD, references

BUILT = openapi_v2.document(
    [
        openapi.document("", "v1", [POD, NODE], DEFINITIONS),
        openapi.document(JOB.group, JOB.version, [JOB], DEFINITIONS),
    ],
    "1.36.0",
)


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: number, and an integer or bytes."""
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
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            length = 8 if tag & 7 == 1 else varint()
            yield tag >> 3, message[position : position + length]
            position += length


def member(message: bytes, *path: int) -> bytes:
    """The first field along a path of numbers."""
    for number in path:
        message = next(value for key, value in fields(message) if key == number and isinstance(value, bytes))
    return message


def named(message: bytes, number: int) -> dict[str, bytes]:
    """The entries of a repeated field of names and values."""
    entries = [value for key, value in fields(message) if key == number and isinstance(value, bytes)]
    return {member(entry, 1).decode(): member(entry, 2) for entry in entries}


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    yield value
    for child in (*value.get("properties", {}).values(), value.get("items"), value.get("additionalProperties")):
        if isinstance(child, dict):
            yield from schemas(child)


def test_every_reference_resolves() -> None:
    names = {reference.removeprefix("#/definitions/") for reference in references(BUILT)}
    assert names
    assert names <= BUILT["definitions"].keys()
    json.dumps(BUILT)


def test_the_schemas_have_one_type_and_no_alternatives() -> None:
    for name, definition in BUILT["definitions"].items():
        for schema in schemas(definition):
            assert not {"oneOf", "anyOf", "allOf", "not", "nullable"} & schema.keys(), name
            assert isinstance(schema.get("type", ""), str), name
            assert schema.get("type") != "array" or "items" in schema, name
    assert BUILT["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] == {
        "type": "string",
        "format": "int-or-string",
    }


def test_a_custom_resource_is_described_by_its_own_schema() -> None:
    job = BUILT["definitions"]["io.volcanopy.batch.v1alpha1.BatchJob"]
    assert job["properties"]["spec"] == {"type": "object", "description": "What is wanted."}
    assert job["x-kubernetes-group-version-kind"][0]["kind"] == "BatchJob"


def test_the_encoding_has_every_definition_with_its_properties_and_kind() -> None:
    encoded = encode(BUILT)
    assert member(encoded, 1) == b"2.0"
    definitions = named(member(encoded, 9), 1)
    assert definitions.keys() == BUILT["definitions"].keys()
    for name, message in definitions.items():
        source = BUILT["definitions"][name]
        properties = named(member(message, 25), 1) if source.get("properties") else {}
        assert properties.keys() == source.get("properties", {}).keys()
        assert [
            value.decode() for key, value in fields(message) if key == 19 and isinstance(value, bytes)
        ] == source.get("required", [])
    extensions = named(definitions["io.k8s.api.core.v1.Pod"], 31)
    kinds = json.loads(member(extensions["x-kubernetes-group-version-kind"], 2))
    assert kinds == [{"group": "", "kind": "Pod", "version": "v1"}]
    spec = named(member(definitions["io.k8s.api.core.v1.PodSpec"], 25), 1)
    assert member(spec["containers"], 22, 1) == b"array"
    assert member(spec["containers"], 23, 1, 1) == b"#/definitions/io.k8s.api.core.v1.Container"


async def test_the_server_answers_in_both_encodings(client: Client) -> None:
    code, body = await client.ask("GET", "/openapi/v2")
    assert (code, body["swagger"]) == (200, "2.0")
    assert "io.k8s.api.core.v1.Pod" in body["definitions"]
