"""Patches change only the given fields, do not modify their inputs, and are rejected if malformed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.apply.patches import PatchError, json_patch, merge_patch, strategic_merge

SCHEMA: dict[str, Any] = {
    "properties": {
        "containers": {
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge",
            "items": {
                "properties": {
                    "ports": {"x-kubernetes-patch-merge-key": "port", "x-kubernetes-patch-strategy": "merge"}
                }
            },
        },
        "finalizers": {"x-kubernetes-patch-strategy": "merge"},
        "strategy": {"x-kubernetes-patch-strategy": "retainKeys"},
        "args": {},
    }
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


@given(json_objects, json_objects)
def test_a_merge_patch_applied_twice_is_a_merge_patch_applied_once(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert (target, patch) == before


def test_merge_patches_follow_the_examples_of_their_standard() -> None:
    assert merge_patch({"a": "b"}, {"a": None}) == {}
    assert merge_patch({"a": [{"b": "c"}]}, {"a": [1]}) == {"a": [1]}
    assert merge_patch({"e": None}, {"a": 1}) == {"e": None, "a": 1}
    assert merge_patch([1, 2], {"a": "b", "c": None}) == {"a": "b"}
    assert merge_patch({}, {"a": {"bb": {"ccc": None}}}) == {"a": {"bb": {}}}
    assert merge_patch({"a": 1}, ["c"]) == ["c"]


def test_a_json_patch_does_not_double_an_object_again_and_again() -> None:
    target = {"data": {"a": "x" * 1000}}
    double = {"op": "copy", "from": "/data", "path": "/data/b"}
    assert json_patch(target, [double] * 3)["data"]["b"]["b"]["b"] == target["data"]
    with pytest.raises(PatchError, match="the copy operations of the patch exceed the limit of 3145728 bytes"):
        json_patch(target, [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(40)])
    with pytest.raises(PatchError, match="must have at most 10000 operations, has 10001"):
        json_patch(target, [{"op": "test", "path": "/data/a", "value": "x"}] * 10_001)


def test_a_json_patch_is_applied_whole_or_not_at_all() -> None:
    target = {"spec": {"replicas": 1}}
    done = json_patch(target, [{"op": "replace", "path": "/spec/replicas", "value": 2}])
    assert (done, target) == ({"spec": {"replicas": 2}}, {"spec": {"replicas": 1}})
    with pytest.raises(PatchError, match="the test operation of the patch failed"):
        json_patch(target, [{"op": "remove", "path": "/spec"}, {"op": "test", "path": "/spec", "value": 1}])
    with pytest.raises(PatchError, match="the patch cannot be applied"):
        json_patch(target, [{"op": "remove", "path": "/status"}])
    with pytest.raises(PatchError, match="must be a list of operations"):
        json_patch(target, {"op": "remove"})  # type: ignore[arg-type]


def test_lists_merge_by_their_key() -> None:
    live = {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "args": ["x"]}
    patch = {"containers": [{"name": "b", "image": "2"}, {"name": "c"}], "args": ["y"]}
    assert strategic_merge(live, patch, SCHEMA) == {
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}],
        "args": ["y"],
    }


def test_nested_lists_merge_too() -> None:
    live = {"containers": [{"name": "a", "ports": [{"port": 1}, {"port": 2}]}]}
    patch = {"containers": [{"name": "a", "ports": [{"port": 2, "name": "x"}]}]}
    merged = strategic_merge(live, patch, SCHEMA)
    assert merged == {"containers": [{"name": "a", "ports": [{"port": 1}, {"port": 2, "name": "x"}]}]}


def test_directives_delete_and_replace_items() -> None:
    live = {"containers": [{"name": "a"}, {"name": "b"}]}
    assert strategic_merge(live, {"containers": [{"name": "a", "$patch": "delete"}]}, SCHEMA) == {
        "containers": [{"name": "b"}]
    }
    replaced = strategic_merge(live, {"containers": [{"$patch": "replace"}, {"name": "z"}]}, SCHEMA)
    assert replaced == {"containers": [{"name": "z"}]}


def test_directives_delete_and_replace_maps() -> None:
    live = {"m": {"a": 1, "b": 2}}
    assert strategic_merge(live, {"m": {"$patch": "replace", "c": 3}}, None) == {"m": {"c": 3}}
    assert strategic_merge(live, {"m": {"$patch": "delete"}}, None) == {"m": {}}
    with pytest.raises(PatchError, match="unknown patch type: what"):
        strategic_merge(live, {"m": {"$patch": "what"}}, None)


def test_primitive_lists_merge_and_support_deletion() -> None:
    live = {"finalizers": ["a", "b"]}
    assert strategic_merge(live, {"finalizers": ["b", "c"]}, SCHEMA) == {"finalizers": ["a", "b", "c"]}
    assert strategic_merge(live, {"$deleteFromPrimitiveList/finalizers": ["a"]}, SCHEMA) == {"finalizers": ["b"]}


def test_the_element_order_is_applied_and_other_items_keep_their_position() -> None:
    live = {"containers": [{"name": "sidecar"}, {"name": "a"}, {"name": "b"}]}
    order = [{"name": "b"}, {"name": "a"}]
    merged = strategic_merge(
        live, {"$setElementOrder/containers": order, "containers": [{"name": "b", "x": 1}]}, SCHEMA
    )
    assert [item["name"] for item in merged["containers"]] == ["sidecar", "b", "a"]
    with pytest.raises(PatchError, match="doesn't match"):
        strategic_merge(live, {"$setElementOrder/containers": order, "containers": [{"name": "zz"}]}, SCHEMA)


def test_only_retained_keys_are_kept() -> None:
    live = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert strategic_merge(live, patch, SCHEMA) == {"strategy": {"type": "Recreate"}}
    with pytest.raises(PatchError, match="retainKeys"):
        strategic_merge(live, {"strategy": {"$retainKeys": ["other"], "type": "Recreate"}}, SCHEMA)


def test_an_item_without_its_merge_key_is_rejected() -> None:
    with pytest.raises(PatchError, match="does not contain declared merge key: name"):
        strategic_merge({"containers": [{"name": "a"}]}, {"containers": [{"image": "x"}]}, SCHEMA)


items = st.lists(st.sampled_from("abcdef"), unique=True).map(lambda names: [{"name": name} for name in names])


@given(items, items)
def test_a_strategic_merge_applied_twice_is_applied_once(live: list[Any], patch: list[Any]) -> None:
    target, change = {"containers": live}, {"containers": patch}
    before = copy.deepcopy((target, change))
    once = strategic_merge(target, change, SCHEMA)
    assert strategic_merge(once, change, SCHEMA) == once
    assert {item["name"] for item in once["containers"]} == {item["name"] for item in (*live, *patch)}
    assert (target, change) == before
