"""Server-side apply and the tracking of writes: who owns what, who conflicts with whom, and what goes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.apply.field_sets import difference, intersection, path_names, union
from embedded_apiserver.apply.managed_field_entries import ApplyConflict
from embedded_apiserver.apply.managed_fields import LAST_APPLIED, apply, track
from embedded_apiserver.schema.definitions import Definitions

NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:05:00Z"
DEPLOYMENT = Definitions.load().schema("apps", "v1", "Deployment")


def deployment(*, replicas: int | None = 2, containers: tuple[str, ...] = ("a", "b"), **labels: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "template": {"spec": {"containers": [{"name": name, "image": f"{name}:1"} for name in containers]}}
    }
    if replicas is not None:
        spec["replicas"] = replicas
    metadata: dict[str, Any] = {"name": "web"}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def put(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    manager: str = "kubectl",
    *,
    force: bool = False,
    now: str = NOW,
) -> dict[str, Any]:
    return apply(live, applied, manager=manager, force=force, schema=DEPLOYMENT, api_version="apps/v1", now=now)


def write(
    old: dict[str, Any] | None, new: dict[str, Any], manager: str = "controller", subresource: str = "", now: str = NOW
) -> dict[str, Any]:
    return track(old, new, manager=manager, subresource=subresource, schema=DEPLOYMENT, api_version="apps/v1", now=now)


def owners(obj: dict[str, Any]) -> dict[str, list[str]]:
    """Manager -> the paths it owns."""
    return {
        entry["manager"]: sorted(path_names(entry["fieldsV1"])) for entry in obj["metadata"].get("managedFields", [])
    }


def test_the_first_apply_creates_the_object_and_owns_its_fields() -> None:
    made = put(None, deployment(containers=("a",), app="web"))
    assert made["spec"]["replicas"] == 2
    assert owners(made) == {
        "kubectl": [
            ".metadata.labels.app",
            ".spec.replicas",
            '.spec.template.spec.containers[name="a"]',
            '.spec.template.spec.containers[name="a"].image',
            '.spec.template.spec.containers[name="a"].name',
        ]
    }
    entry = made["metadata"]["managedFields"][0]
    assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {"f:app": {}}}
    assert (entry["operation"], entry["apiVersion"], entry["time"], entry["fieldsType"]) == (
        "Apply",
        "apps/v1",
        NOW,
        "FieldsV1",
    )


def test_applying_the_same_configuration_again_changes_nothing() -> None:
    made = put(None, deployment())
    assert put(made, deployment(), now=LATER) is made


def test_fields_no_longer_applied_are_removed() -> None:
    made = put(None, deployment(app="web", tier="x"))
    again = put(made, deployment(containers=("b",), replicas=None, tier="x"), now=LATER)
    assert again["spec"] == {"template": {"spec": {"containers": [{"name": "b", "image": "b:1"}]}}}
    assert again["metadata"]["labels"] == {"tier": "x"}
    assert again["metadata"]["managedFields"][0]["time"] == LATER


def test_fields_with_another_owner_stay() -> None:
    shared = put(put(None, deployment(app="web")), deployment(replicas=None, app="web"), "other")
    left = put(shared, deployment(replicas=2, containers=("b",)))
    assert left["metadata"]["labels"] == {"app": "web"}
    assert [item["name"] for item in left["spec"]["template"]["spec"]["containers"]] == ["a", "b"]


def test_another_value_for_an_owned_field_is_a_conflict() -> None:
    made = put(None, deployment())
    with pytest.raises(ApplyConflict) as caught:
        put(made, deployment(replicas=3), "other")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas'
    assert caught.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"', "field": ".spec.replicas"}
    ]


def test_conflicts_with_ordinary_writes_name_the_version() -> None:
    made = write(None, deployment(app="web"), "kubectl-client-side-apply")
    with pytest.raises(ApplyConflict) as caught:
        put(made, deployment(replicas=3, app="api"))
    manager = '"kubectl-client-side-apply" using apps/v1'
    assert (
        str(caught.value)
        == f"Apply failed with 2 conflicts: conflicts with {manager}:\n- .metadata.labels.app\n- .spec.replicas"
    )


def test_force_transfers_the_ownership_of_fields() -> None:
    taken = put(put(None, deployment()), deployment(replicas=3), "other", force=True)
    assert taken["spec"]["replicas"] == 3
    assert ".spec.replicas" in owners(taken)["other"]
    assert ".spec.replicas" not in owners(taken)["kubectl"]


def test_equal_values_are_owned_together_without_conflict() -> None:
    both = put(put(None, deployment()), deployment(), "other")
    assert owners(both)["other"] == owners(both)["kubectl"]


def test_a_write_owns_the_fields_that_it_changed() -> None:
    made = put(None, deployment())
    scaled = copy.deepcopy(made)
    scaled["spec"]["replicas"] = 9
    tracked = write(made, scaled, now=LATER)
    assert owners(tracked)["controller"] == [".spec.replicas"]
    assert ".spec.replicas" not in owners(tracked)["kubectl"]
    entry = tracked["metadata"]["managedFields"][1]
    assert (entry["manager"], entry["operation"], entry["time"]) == ("controller", "Update", LATER)


def test_status_writes_have_their_own_entry() -> None:
    made = put(None, deployment())
    tracked = write(made, {**made, "status": {"replicas": 1}}, "kubectl", "status")
    assert [entry.get("subresource", "") for entry in tracked["metadata"]["managedFields"]] == ["", "status"]


def test_a_write_without_changes_keeps_the_entries() -> None:
    made = put(None, deployment())
    touched = copy.deepcopy(made)
    touched["metadata"]["resourceVersion"] = "7"
    assert write(made, touched, now=LATER) is touched


def test_a_write_without_managed_fields_keeps_those_of_the_old_object() -> None:
    made = put(None, deployment())
    bare = deployment(replicas=5)
    assert set(owners(write(made, bare))) == {"kubectl", "controller"}
    reset = write(made, {**bare, "metadata": {"name": "web", "managedFields": []}})
    assert set(owners(reset)) == {"controller"}


def test_removed_fields_have_no_owner() -> None:
    made = put(None, deployment(app="web"))
    bare = deployment()
    assert ".metadata.labels.app" not in owners(write(made, bare)).get("kubectl", [])


def test_an_untracked_object_is_owned_by_before_first_apply() -> None:
    with pytest.raises(ApplyConflict, match=r'conflict with "before-first-apply" using apps/v1: \.spec\.replicas'):
        put(deployment(), deployment(replicas=3))


def test_atomic_lists_are_owned_whole_and_sets_by_value() -> None:
    schema = {
        "properties": {
            "spec": {
                "properties": {
                    "atomic": {"type": "array", "items": {"type": "string"}},
                    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "one": {"type": "object", "x-kubernetes-map-type": "atomic"},
                }
            }
        }
    }
    config = {"spec": {"atomic": ["a"], "set": ["x"], "one": {"k": 1}}}
    made = apply(None, config, manager="m", force=False, schema=schema, api_version="g/v1", now=NOW)
    assert owners(made)["m"] == [".spec.atomic", ".spec.one", '.spec.set[="x"]']
    merged = apply(made, {"spec": {"set": ["y"]}}, manager="n", force=False, schema=schema, api_version="g/v1", now=NOW)
    assert merged["spec"]["set"] == ["x", "y"]
    with pytest.raises(ApplyConflict, match=r"\.spec\.atomic"):
        apply(
            made, {"spec": {"atomic": ["a", "b"]}}, manager="n", force=False, schema=schema, api_version="g/v1", now=NOW
        )


def test_several_keys_make_one_element_and_a_missing_protocol_is_tcp() -> None:
    service = Definitions.load().schema("", "v1", "Service")
    config = {"spec": {"ports": [{"port": 80}, {"port": 80, "protocol": "UDP"}]}}
    made = apply(None, config, manager="m", force=False, schema=service, api_version="v1", now=NOW)
    assert '.spec.ports[port=80,protocol="TCP"]' in owners(made)["m"]
    assert '.spec.ports[port=80,protocol="UDP"].protocol' in owners(made)["m"]


def client_side(config: dict[str, Any]) -> dict[str, Any]:
    """An object as kubectl's client-side apply leaves it."""
    text = json.dumps(config)
    obj = copy.deepcopy(config)
    obj["metadata"]["annotations"] = {LAST_APPLIED: text}
    return write(None, obj, "kubectl-client-side-apply")


def test_kubectl_migrates_the_fields_of_client_side_apply() -> None:
    live = client_side(deployment())
    taken = put(live, deployment(replicas=3))
    assert taken["spec"]["replicas"] == 3
    document = json.loads(taken["metadata"]["annotations"][LAST_APPLIED])
    assert document == deployment(replicas=3)
    with pytest.raises(ApplyConflict):
        put(live, deployment(replicas=3), "other")


def test_kubectl_does_not_migrate_fields_changed_by_others() -> None:
    live = client_side(deployment())
    scaled = copy.deepcopy(live)
    scaled["spec"]["replicas"] = 9
    with pytest.raises(ApplyConflict, match=r'conflict with "controller" using apps/v1: \.spec\.replicas'):
        put(write(live, scaled), deployment(replicas=3))


def test_an_entry_is_dated_when_the_object_changed() -> None:
    shared = put(put(None, deployment()), deployment(), "other", now=LATER)
    assert {entry["manager"]: entry.get("time") for entry in shared["metadata"]["managedFields"]} == {
        "kubectl": NOW,
        "other": None,
    }


def test_default_parent_fields_have_no_owner() -> None:
    fields = write(None, deployment(app="web"))["metadata"]["managedFields"][0]["fieldsV1"]
    assert fields["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}
    containers = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert sorted(containers) == ['k:{"name":"a"}', 'k:{"name":"b"}']
    custom = track(None, {"spec": {"a": 1}}, manager="m", schema=None, api_version="g/v1", now=NOW)
    assert custom["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {".": {}, "f:a": {}}}


names = st.lists(st.sampled_from("abcde"), unique=True, max_size=4).map(tuple)
configs = st.builds(
    lambda replicas, containers, labels: deployment(replicas=replicas, containers=containers, **labels),
    st.none() | st.integers(0, 2),
    names,
    st.dictionaries(st.sampled_from("pqr"), st.sampled_from("xy"), max_size=2),
)


@given(st.lists(configs, min_size=1, max_size=4))
def test_an_object_of_one_manager_equals_its_last_apply(applied: list[dict[str, Any]]) -> None:
    live: dict[str, Any] | None = None
    for config in applied:
        before = copy.deepcopy((live, config))
        result = put(live, config)
        assert (live, config) == before
        live = result
        assert put(live, config) is live
    assert live is not None
    for key in ("replicas",):
        assert live["spec"].get(key) == applied[-1]["spec"].get(key)
    containers = live["spec"].get("template", {}).get("spec", {}).get("containers", [])
    assert [item["name"] for item in containers] == [
        item["name"] for item in applied[-1]["spec"]["template"]["spec"]["containers"]
    ]
    assert live["metadata"].get("labels", {}) == applied[-1]["metadata"].get("labels", {})


@given(configs, configs, configs)
def test_a_forced_apply_never_fails_and_no_field_has_two_owners_with_different_values(
    first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]
) -> None:
    live = put(put(put(None, first, "one"), second, "two", force=True), third, "three", force=True)
    with_three = owners(live).get("three", [])
    assert (".spec.replicas" in with_three) is (third["spec"].get("replicas") is not None)
    if third["spec"].get("replicas") is not None:
        assert live["spec"]["replicas"] == third["spec"]["replicas"]


trees: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(st.sampled_from([".", "f:a", "f:b", "f:c"]), inner, min_size=1, max_size=3),
    max_leaves=6,
)


def tidy(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree as the functions make them: `.` is a leaf and stands only beside other keys."""
    result = {key: tidy(below) for key, below in tree.items() if key != "."}
    return {".": {}, **result} if "." in tree and result else result


sets = st.dictionaries(st.sampled_from(["f:a", "f:b", "f:c"]), trees.map(tidy), max_size=3)


def members(tree: dict[str, Any]) -> set[str]:
    return set(path_names(tree))


@given(sets, sets)
def test_field_sets_satisfy_the_set_laws(left: dict[str, Any], right: dict[str, Any]) -> None:
    before = copy.deepcopy((left, right))
    assert members(union(left, right)) == members(left) | members(right)
    assert members(intersection(left, right)) == members(left) & members(right)
    assert members(difference(left, right)) == members(left) - members(right)
    assert (left, right) == before
