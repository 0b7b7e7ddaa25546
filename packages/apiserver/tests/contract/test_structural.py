"""Schema validation gives the same errors as a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_apiserver.schema.structural import Structural
from tests.controlplane.plane import ControlPlane, CreateError

pytestmark = pytest.mark.real

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
ENTRY = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "size": {"type": "integer", "format": "int32", "minimum": 0, "default": 1}},
    "x-kubernetes-validations": [
        {"rule": "self.size >= oldSelf.size", "message": "no shrinking", "reason": "FieldValueForbidden"}
    ],
}
SUM_RULES = [
    {"rule": "self.min <= self.parts.sum()", "message": "min above sum", "fieldPath": ".min"},
    {"rule": "!has(self.min) || self.min != 7"},
]
PAIR = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}}
EITHER = [{"required": ["a"]}, {"required": ["b"]}]
FORMATS = ("date-time", "duration", "ipv4", "uri", "email", "uuid", "cidr", "hostname", "mac", "byte", "date")
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["req"],
    "properties": {
        "req": TEXT,
        "i": {"type": "integer", "minimum": 0, "maximum": 5},
        "ix": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        "i32": {"type": "integer", "format": "int32"},
        "n": {"type": "number", "multipleOf": 2, "maximum": 10.5},
        "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "e": {"type": "string", "enum": ["a", "b"]},
        "ei": {"type": "integer", "enum": [1, 2]},
        "b": {"type": "boolean"},
        "nb": {"type": "string", "nullable": True},
        "ios": {"x-kubernetes-int-or-string": True},
        "m": {"type": "object", "additionalProperties": NUMBER, "maxProperties": 2, "minProperties": 1},
        "l": {"type": "array", "items": TEXT, "maxItems": 2, "minItems": 1},
        "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", "maxItems": 10},
        "tasks": {
            "type": "array", "items": ENTRY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 9,
        },
        "one": {**PAIR, "oneOf": EITHER},
        "any": {**PAIR, "anyOf": EITHER},
        "not": {"type": "integer", "not": {"enum": [3]}},
        "all": {"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 4}]},
        "imm": {
            "type": "string", "maxLength": 9,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "messageExpression": "'imm was ' + oldSelf"}],
        },
        "sum": {
            "type": "object", "x-kubernetes-validations": SUM_RULES,
            "properties": {"min": NUMBER, "parts": {"type": "array", "maxItems": 5, "items": NUMBER}},
        },
        "emb": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "dup": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3", "reason": "FieldValueDuplicate", "message": "dup"}]},
        "big": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3"}]},
        **{f"f-{name}": {"type": "string", "format": name} for name in FORMATS},
    },
}  # fmt: skip
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}
COMPILED = Structural.compile(SCHEMA)


def each(field: str, *values: Any) -> list[dict[str, Any]]:
    return [{field: value} for value in values]


CREATES: list[dict[str, Any]] = [
    *each("i", -1, 6, "x", 1.5, 1.0, True, [], {}, None),
    *each("i32", 2**31, True, "x", 1.5),
    *each("n", 3, 12, "x"),
    *each("s", "a", "abcde", "A1", 3, {}, "日本日本日"),
    *each("e", "x", 1),
    *each("ei", 3, "1"),
    *each("b", "true", 0),
    *each("nb", None, 1),
    *each("ios", True, 1, "x", 1.5),
    *each("m", {"a": "x"}, {}, {"a": 1, "b": 2, "c": 3}, 3),
    *each("l", [], ["a", "b", "c"], [1], {}),
    *each("tasks", [{"name": "a"}, {"name": "a"}], [{}], [{"name": "a", "size": -1}], ["x"], [None]),
    *each("sum", {"min": 3, "parts": [1]}, {"parts": [1]}, {"min": 7, "parts": [8]}),
    {"ix": 0}, {"set": ["a", "b", "a", "a"]}, {"one": {}}, {"one": {"a": 1, "b": 1}}, {"any": {}}, {"not": 3}, {"all": 1}, {"all": 3},
    {"emb": {}}, {"emb": {"kind": "X", "apiVersion": "v1"}}, {"dup": 1}, {"big": 1}, {"i": -1, "big": 1}, {"i": "x", "big": 1}, {"req": None},
    *({f"f-{name}": "x"} for name in FORMATS),
    *({f"f-{name}": 3} for name in FORMATS),
    {"f-date-time": "2020-01-01T00:00:00Z"}, {"f-date-time": "2020-01-01 00:00:00Z"}, {"f-duration": "1h30m"}, {"f-duration": "1 day"},
    {"f-ipv4": "::1"}, {"f-uri": "http://a"}, {"f-uri": "/a"}, {"f-email": "a@b"}, {"f-cidr": "10.0.0.1/8"}, {"f-hostname": "a.b"},
    {"f-hostname": "a.bc"}, {"f-mac": "00:11:22:33:44:55"}, {"f-byte": "aGk="}, {"f-byte": ""}, {"f-date": "2020-1-1"},
]  # fmt: skip
UPDATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"imm": "a"}, {"imm": "b"}),
    ({"imm": "a"}, {}),
    (
        {"tasks": [{"name": "a", "size": 2}, {"name": "b", "size": 5}]},
        {"tasks": [{"name": "b", "size": 4}, {"name": "a", "size": 2}]},
    ),
    ({"tasks": [{"name": "a", "size": 2}]}, {"tasks": [{"name": "c", "size": 0}]}),
]
PATH = "/apis/structural.volcanopy.test/v1/namespaces/default/things"


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> ControlPlane:
    started: ControlPlane = request.getfixturevalue("real_control_plane")
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    started.establish(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.structural.volcanopy.test"},
            "spec": {
                "group": "structural.volcanopy.test",
                "scope": "Namespaced",
                "names": names,
                "versions": [version],
            },
        }
    )
    return started


def thing(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "structural.volcanopy.test/v1",
        "kind": "Thing",
        "metadata": {"name": name},
        "spec": {"req": "r", **spec},
    }


def verdict(plane: ControlPlane, method: str, path: str, obj: dict[str, Any]) -> tuple[Any, list[tuple[str, str, str]]]:
    """What the real server stores, or why it does not."""
    try:
        return plane.request(method, f"{path}?dryRun=All", obj)["spec"], []
    except CreateError as error:
        causes = error.body["details"]["causes"]
        return None, sorted((cause.get("field", ""), cause["reason"], cause["message"]) for cause in causes)


def our_verdict(obj: dict[str, Any], old: dict[str, Any] | None = None) -> tuple[Any, list[tuple[str, str, str]]]:
    filled = COMPILED.default(COMPILED.prune(obj)[0])
    errors = sorted((error.path, error.reason, error.body) for error in COMPILED.validate(filled, old))
    return (None if errors else filled["spec"]), errors


def test_new_objects_are_validated_and_defaulted_like_the_real_server(plane: ControlPlane) -> None:
    for number, spec in enumerate(CREATES):
        obj = thing(f"made-{number}", spec)
        assert our_verdict(obj) == verdict(plane, "POST", PATH, obj), spec


def test_updates_are_validated_like_the_real_server(plane: ControlPlane) -> None:
    for number, (before, after) in enumerate(UPDATES):
        live = plane.request("POST", PATH, thing(f"kept-{number}", before))
        obj = {**live, "spec": {"req": "r", **after}}
        assert our_verdict(obj, live) == verdict(plane, "PUT", f"{PATH}/kept-{number}", obj), (before, after)
