"""The schema of a custom resource prunes, defaults and validates like a real API server, with its messages."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.schema import metadata_validation
from embedded_apiserver.schema.structural import Structural

UNCHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def of_spec(spec: dict[str, Any], **rest: Any) -> Structural:
    """A compiled schema whose only member is `spec`."""
    return Structural.compile({"type": "object", "properties": {"spec": spec, **rest}})


def faults(spec_schema: dict[str, Any], spec: Any, old: Any = None) -> list[str]:
    """The errors of `spec`, and of a change from `old` to it."""
    compiled = of_spec(spec_schema)
    return [str(error) for error in compiled.validate({"spec": spec}, None if old is None else {"spec": old})]


@pytest.mark.parametrize(
    ("schema", "value", "expected_error"),
    [
        ({"type": "integer", "minimum": 0}, -1, "Invalid value: -1: spec in body should be greater than or equal to 0"),
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            0,
            "Invalid value: 0: spec in body should be greater than 0",
        ),
        ({"type": "integer", "maximum": 5}, 6, "Invalid value: 6: spec in body should be less than or equal to 5"),
        (
            {"type": "number", "maximum": 5, "exclusiveMaximum": True},
            5,
            "Invalid value: 5: spec in body should be less than 5",
        ),
        ({"type": "number", "multipleOf": 2}, 3, "Invalid value: 3: spec in body should be a multiple of 2"),
        ({"type": "integer"}, "x", 'Invalid value: "string": spec in body must be of type integer: "string"'),
        ({"type": "integer", "format": "int32"}, True, 'Invalid value: "": spec in body must be of type int32: ""'),
        ({"type": "string"}, 3, 'Invalid value: "integer": spec in body must be of type string: "integer"'),
        ({"type": "boolean"}, "true", 'Invalid value: "string": spec in body must be of type boolean: "string"'),
        ({"type": "array"}, {}, 'Invalid value: "object": spec in body must be of type array: "object"'),
        ({"type": "string"}, None, 'Invalid value: "null": spec in body must be of type string: "null"'),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'Invalid value: "boolean": spec in body must be of type integer,string: "boolean"',
        ),
        ({"type": "string", "enum": ["a", "b"]}, "x", 'Unsupported value: "x": supported values: "a", "b"'),
        ({"type": "integer", "enum": [1, 2]}, 3, 'Unsupported value: 3: supported values: "1", "2"'),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "a", 'Invalid value: "a": spec in body should be at least 2 chars long'),
        ({"type": "string", "pattern": "^a+$"}, "b", "Invalid value: \"b\": spec in body should match '^a+$'"),
        (
            {"type": "string", "format": "date-time"},
            "x",
            'Invalid value: "x": spec in body must be of type date-time: "x"',
        ),
        ({"type": "array", "maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 item"),
        ({"type": "array", "minItems": 1}, [], "Invalid value: 0: spec in body should have at least 1 items"),
        (
            {"type": "object", "minProperties": 1},
            {},
            "Invalid value: 0: spec in body should have at least 1 properties",
        ),
    ],
)
def test_an_invalid_value_has_the_message_of_the_real_server(
    schema: dict[str, Any], value: Any, expected_error: str
) -> None:
    assert faults(schema, value) == [f"spec: {expected_error}"]


def test_a_fraction_is_no_integer() -> None:
    assert faults({"type": "integer"}, 1.5) == [
        'spec: Invalid value: "number": spec in body must be of type integer: "number"',
        '<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec',
    ]
    assert faults({"type": "integer", "format": "int32"}, 2**31) == [
        '<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec'
    ]
    assert faults({"type": "integer"}, 1.0) == []


def test_a_value_of_the_wrong_type_is_also_checked_against_the_enum() -> None:
    assert faults({"type": "string", "enum": ["a"]}, 1) == [
        'spec: Invalid value: "integer": spec in body must be of type string: "integer"',
        'spec: Unsupported value: 1: supported values: "a"',
    ]


def test_an_embedded_resource_requires_kind_and_api_version() -> None:
    schema = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert faults(schema, {}) == ["spec.apiVersion: Required value", "spec.kind: Required value"]
    assert faults(schema, {"apiVersion": "v1", "kind": "Pod"}) == []


def test_unknown_metadata_fields_are_pruned() -> None:
    compiled = of_spec({"type": "object", "properties": {}})
    pruned, unknown = compiled.prune({"metadata": {"name": "x", "nam": "y"}, "aaa": 1, "spec": {}})
    assert (pruned, unknown) == ({"metadata": {"name": "x"}, "spec": {}}, ["metadata.nam", "aaa"])


def test_missing_required_fields_are_named_with_their_path() -> None:
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {"b": {"type": "array", "items": {"type": "object", "required": ["c"]}}},
    }
    assert faults(schema, {"b": [{}]}) == ["spec.b[0].c: Required value", "spec.a: Required value"]


def test_duplicate_entries_of_maps_and_sets_are_named_once() -> None:
    keyed = {
        "type": "array",
        "items": {"type": "object"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    expected_error = faults(
        {"type": "object", "properties": {"tasks": keyed}}, {"tasks": [{"name": "a"}, {"name": "a"}, {"name": "a"}]}
    )
    assert expected_error == ['spec.tasks[1]: Duplicate value: {"name":"a"}']
    assert faults({"type": "array", "x-kubernetes-list-type": "set"}, ["x", "y", "x"]) == [
        'spec[2]: Duplicate value: "x"'
    ]


def test_one_of_any_of_and_all_of_are_validated() -> None:
    schema = {"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 3}]}
    assert faults(schema, 7) == []
    assert (
        faults(schema, 4)[0]
        == '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid'
    )
    assert faults({"type": "integer", "not": {"minimum": 5}}, 7) == [
        '<nil>: Invalid value: "": "spec" must not validate the schema (not)'
    ]
    expected_error = faults({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {})
    assert expected_error == [
        '<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)',
        "spec.a: Required value",
    ]


SUM = {
    "rule": "self.min <= self.tasks.map(t, t.replicas).sum()",
    "message": "min is above the replicas",
    "fieldPath": ".min",
}
WORKLOAD: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-validations": [SUM],
    "properties": {
        "min": {"type": "integer"},
        "tasks": {
            "type": "array",
            "items": {"type": "object", "properties": {"replicas": {"type": "integer"}, "data": {"type": "string"}}},
        },
    },
}


def test_a_rule_may_compare_several_fields() -> None:
    assert faults(WORKLOAD, {"min": 2, "tasks": [{"replicas": 1}, {"replicas": 1, "data": "x"}]}) == []
    assert faults(WORKLOAD, {"min": 3, "tasks": [{"replicas": 1}]}) == [
        "spec.min: Invalid value: min is above the replicas"
    ]


def test_rules_are_not_evaluated_on_an_object_of_the_wrong_type() -> None:
    assert faults(WORKLOAD, {"min": "x", "tasks": []})[-1] == UNCHECKED


def test_a_rule_with_an_evaluation_error_is_reported() -> None:
    expected_error = faults(WORKLOAD, {"tasks": []})
    assert expected_error == [
        'spec: Invalid value: "object": no such key: min evaluating rule: min is above the replicas'
    ]


def test_a_transition_rule_compares_with_the_old_object() -> None:
    rule = {"rule": "self == oldSelf", "messageExpression": "'queue was ' + oldSelf"}
    schema = {"type": "object", "properties": {"queue": {"type": "string", "x-kubernetes-validations": [rule]}}}
    assert faults(schema, {"queue": "a"}) == []
    assert faults(schema, {"queue": "a"}, {"queue": "a"}) == []
    assert faults(schema, {"queue": "b"}, {"queue": "a"}) == ['spec.queue: Invalid value: "b": queue was a']
    assert faults(schema, {"queue": "b"}, {}) == []


def test_whole_objects_can_be_compared_with_the_old_object() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is fixed"}],
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}},
    }
    assert faults(schema, {"a": {"b": 2}}, {"a": {"b": 1}}) == ["spec: Invalid value: spec is fixed"]
    assert faults(schema, {"a": {"b": 1}}, {"a": {"b": 1}}) == []


def test_entries_of_a_map_list_are_compared_by_their_key() -> None:
    rule = {"rule": "self.size >= oldSelf.size", "message": "no shrinking", "reason": "FieldValueForbidden"}
    entry = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
        "x-kubernetes-validations": [rule],
    }
    schema = {"type": "array", "items": entry, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    old = [{"name": "a", "size": 1}, {"name": "b", "size": 5}]
    assert faults(schema, [{"name": "b", "size": 5}, {"name": "c", "size": 0}], old) == []
    assert faults(schema, [{"name": "b", "size": 4}], old) == ["spec[0]: Forbidden: no shrinking"]


def test_unchanged_invalid_values_are_accepted_on_update() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5}, "b": {"type": "integer"}}}
    assert faults(schema, {"a": 1, "b": 2}, {"a": 1, "b": 1}) == []
    assert faults(schema, {"a": 2}, {"a": 1}) == [
        "spec.a: Invalid value: 2: spec.a in body should be greater than or equal to 5"
    ]


def test_pruning_removes_unknown_fields_and_names_them() -> None:
    compiled = of_spec(
        {
            "type": "object",
            "properties": {
                "tasks": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"k": {"type": "object"}},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "inner": {"type": "object", "x-kubernetes-embedded-resource": True},
            },
        }
    )
    given_object = {
        "apiVersion": "v1",
        "metadata": {"name": "x", "labels": {}},
        "extra": 1,
        "spec": {
            "tasks": [{"name": "a", "nam": "b"}],
            "free": {"x": {"y": 1}, "k": {"z": 1}},
            "labels": {"a": "b"},
            "inner": {"kind": "K", "metadata": {"name": "n"}, "spec": {}},
        },
    }
    before = copy.deepcopy(given_object)
    pruned, unknown = compiled.prune(given_object)
    assert unknown == ["extra", "spec.free.k.z", "spec.inner.spec", "spec.tasks[0].nam"]
    assert pruned["spec"] == {
        "tasks": [{"name": "a"}],
        "free": {"x": {"y": 1}, "k": {}},
        "labels": {"a": "b"},
        "inner": {"kind": "K", "metadata": {"name": "n"}},
    }
    assert given_object == before


def test_defaults_replace_missing_and_null_values() -> None:
    compiled = of_spec(
        {
            "type": "object",
            "default": {},
            "properties": {
                "queue": {"type": "string", "default": "default"},
                "note": {"type": "string"},
                "maybe": {"type": "string", "nullable": True},
                "tasks": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}},
                },
            },
        }
    )
    assert compiled.default({}) == {"spec": {"queue": "default"}}
    filled = compiled.default({"spec": {"queue": None, "note": None, "maybe": None, "tasks": [{}, {"n": 2}]}})
    assert filled == {"spec": {"queue": "default", "maybe": None, "tasks": [{"n": 1}, {"n": 2}]}}


def test_an_object_without_changes_is_returned_unchanged() -> None:
    compiled = of_spec(WORKLOAD)
    right = {"spec": {"min": 1, "tasks": [{"replicas": 1}]}}
    assert compiled.prune(right)[0] is right
    assert compiled.default(right) is right


leaf = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0])
    | st.sampled_from(["", "a", "b", "abc"])
)
values = st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
scalars = st.sampled_from(
    [
        {"type": "string", "maxLength": 2, "default": "a"},
        {"type": "integer", "minimum": 0},
        {"type": "number", "maximum": 1, "nullable": True},
        {"type": "boolean", "default": False},
        {"x-kubernetes-int-or-string": True},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    ]
)


def _composite(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = inner.map(lambda item: {"type": "array", "items": item, "maxItems": 2})
    sets = st.just({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})
    maps = inner.map(lambda member: {"type": "object", "additionalProperties": member})
    objects = st.tuples(
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3), st.lists(st.sampled_from("abc"), max_size=1)
    ).map(lambda parts: {"type": "object", "properties": parts[0], "required": parts[1]})
    return lists | sets | maps | objects


schemas = st.recursive(scalars, _composite, max_leaves=5)


@given(schemas, values)
def test_pruning_and_defaulting_are_idempotent_and_do_not_change_the_input(schema: dict[str, Any], value: Any) -> None:
    compiled = of_spec(schema)
    given_object = {"spec": value}
    before = copy.deepcopy(given_object)
    pruned, _ = compiled.prune(given_object)
    assert compiled.prune(pruned) == (pruned, [])
    filled = compiled.default(pruned)
    assert compiled.default(filled) == filled
    assert compiled.prune(filled) == (filled, [])
    assert given_object == before


@pytest.mark.parametrize("check", [metadata_validation.subdomain_faults, metadata_validation.label_value_faults])
def test_names_that_are_checked_once_take_no_memory_for_hours(check: Any) -> None:
    for number in range(5_000):
        assert not check(f"pod-{number}")
    assert check.cache_info().currsize <= 1_024
