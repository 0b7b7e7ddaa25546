"""Patches and messages have the names of the API in which an object was written."""

import base64
import json
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_apiserver.apply.patches import json_patch
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import mutate, review
from volcanopy.api import names
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY, Binding
from volcanopy.api.core import Queue
from volcanopy.api.scheduling import Subjects
from volcanopy.jobcontroller.plugins.registry import plugin_problems

Json = dict[str, Any]
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}
POLICY = AdmissionPolicy(scheduler_names=["volcanopy", "volcano"])
KEYS = sorted(VOLCANO.keys)


def queue(name: str) -> Queue:
    return msgspec.convert({"metadata": {"name": name}, "status": {"state": "Open"}}, Queue)


CONTEXT = Context({name: queue(name) for name in ("root", "default", "team")}, plugin_problems, policy=POLICY)


def written(binding: Binding, kind: str, name: str = "x", **metadata: Any) -> Json:
    """An object as a user of this API writes it; the keys of annotations and labels are given by volcanopy's names."""
    metadata = {part: {binding.key(key): value for key, value in content.items()} for part, content in metadata.items()}
    group, version = {
        "Queue": (names.SCHEDULING, "v1beta1"),
        "PodGroup": (names.SCHEDULING, "v1beta1"),
        "BatchJob": (names.BATCH, "v1alpha1"),
        "CronBatchJob": (names.BATCH, "v1alpha1"),
        "JobTemplate": (names.FLOW, "v1alpha1"),
        "Pod": ("", "v1"),
    }[kind]
    spec: Json = {"schedulerName": binding.scheduler_name, **TEMPLATE["spec"]} if kind == "Pod" else {}
    if kind == "BatchJob":
        spec = {"tasks": [{"name": "w", "replicas": 1, "template": TEMPLATE}]}
    api_version = f"{binding.group(group)}/{version}" if group else version
    return {
        "apiVersion": api_version,
        "kind": binding.kind(kind),
        "metadata": {"name": name, "namespace": "ns", **metadata},
        "spec": spec,
    }


def request(manifest: Json, old: Json | None = None) -> Json:
    """The review of the creation of an object, or of its change."""
    group = manifest["apiVersion"].rpartition("/")[0]
    return {
        "request": {
            "uid": "1",
            "kind": {"group": group, "kind": manifest["kind"]},
            "operation": "UPDATE" if old else "CREATE",
            "namespace": "ns",
            "name": manifest["metadata"]["name"],
            "object": manifest,
            "userInfo": {"username": "ana", "groups": []},
            **({"oldObject": old} if old else {}),
        }
    }


def after_patch(manifest: Json, context: Context = CONTEXT, old: Json | None = None) -> Json:
    """The object after the patch of admission, which the API server applies to what the user wrote."""
    response = mutate(request(manifest, old), context)["response"]
    operations = json.loads(base64.b64decode(response.get("patch", "W10=")))
    result: Json = json_patch(deepcopy(manifest), operations)
    return result


def message(manifest: Json, old: Json | None = None, context: Context = CONTEXT) -> str:
    response = review(request(manifest, old), context)["response"]
    return "" if response["allowed"] else str(response["status"]["message"])


def foreign_keys(manifest: Json, binding: Binding) -> set[str]:
    """Labels and annotations of an object with volcanopy's name that have another one in the API of the object."""
    keys = {key for part in ("labels", "annotations") for key in manifest["metadata"].get(part) or {}}
    return {key for key in keys if binding.key(key) != key}


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_a_hierarchy_gets_its_root_under_the_name_that_the_user_wrote(binding: Binding) -> None:
    notes = {names.HIERARCHY: "sci/dev", names.HIERARCHY_WEIGHTS: "2/3"}
    result = after_patch(written(binding, "Queue", annotations=notes))
    assert result["metadata"]["annotations"] == {
        binding.key(names.HIERARCHY): "root/sci/dev",
        binding.key(names.HIERARCHY_WEIGHTS): "1/2/3",
    }


@given(
    kind=st.sampled_from(["Queue", "PodGroup", "BatchJob", "Pod"]),
    annotations=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["", "a/b", "1/2", "true", "team"])),
    labels=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["", "a", "true"])),
    gates=st.booleans(),
)
def test_every_patch_applies_and_adds_no_name_of_another_api(
    kind: str, annotations: Json, labels: Json, gates: bool
) -> None:
    policy = POLICY.model_copy(update={"queue_gates": gates, "default_queue": "team"})
    manifest = written(VOLCANO, kind, annotations=annotations, labels=labels)
    result = after_patch(manifest, Context(CONTEXT.queues, plugin_problems, policy=policy))
    assert foreign_keys(result, VOLCANO) == set()
    assert result["metadata"]["labels"] == manifest["metadata"]["labels"]


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_a_manifest_without_defaults_can_be_applied_again(binding: Binding) -> None:
    manifest = written(binding, "BatchJob")
    del manifest["spec"]["tasks"][0]["name"]
    manifest["spec"]["plugins"] = {"pytorch": ["--master=default0"]}
    notes = {binding.key(names.QUEUE_ALLOCATION_GATE): "true"}
    manifest["spec"]["tasks"][0]["template"] = TEMPLATE | {"metadata": {"annotations": notes}}
    context = Context(CONTEXT.queues, plugin_problems, policy=POLICY.model_copy(update={"queue_gates": True}))
    stored = after_patch(manifest, context)
    applied = after_patch(manifest | {"metadata": stored["metadata"]}, context, old=stored)
    assert (applied["spec"], message(applied, stored, context)) == (stored["spec"], "")
    scaled = deepcopy(manifest) | {"metadata": stored["metadata"]}
    scaled["spec"]["tasks"][0]["replicas"] = 3
    applied = after_patch(scaled, context, old=stored)
    assert (applied["spec"]["tasks"][0]["replicas"], message(applied, stored, context)) == (3, "")


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
@pytest.mark.parametrize("kind", ["CronBatchJob", "JobTemplate"])
def test_tasks_of_a_template_get_names_as_those_of_a_job(binding: Binding, kind: str) -> None:
    spec: Json = {"tasks": [{"replicas": 1, "template": TEMPLATE}]}
    manifest = written(binding, kind)
    manifest["spec"] = spec if kind == "JobTemplate" else {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    result = after_patch(manifest)
    assert message(result) == ""
    tasks = (result["spec"] if kind == "JobTemplate" else result["spec"]["jobTemplate"]["spec"])["tasks"]
    assert [task["name"] for task in tasks] == ["default0"]


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_an_update_of_the_labels_of_a_job_writes_no_defaults(binding: Binding) -> None:
    stored = written(binding, "BatchJob")
    stored["spec"]["queue"] = "default"
    labelled = after_patch(stored | {"metadata": stored["metadata"] | {"labels": {"a": "b"}}}, old=stored)
    assert (labelled["spec"], message(labelled, stored)) == (stored["spec"], "")


def test_a_name_of_volcanopy_that_the_user_wrote_is_kept() -> None:
    manifest = written(VOLCANO, "Queue")
    manifest["metadata"]["annotations"] = {names.HIERARCHY: "a", VOLCANO.key(names.HIERARCHY_WEIGHTS): "2"}
    notes = after_patch(manifest)["metadata"]["annotations"]
    assert notes == {names.HIERARCHY: "root/a", VOLCANO.key(names.HIERARCHY_WEIGHTS): "1/2"}


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("Pod", names.POD_QUEUE_NAME, "nope"),
        ("Pod", names.JDB_MIN_AVAILABLE, "0"),
        ("BatchJob", names.JDB_MAX_UNAVAILABLE, "0"),
        ("Queue", names.HIERARCHY_WEIGHTS, "1/x"),
    ],
)
def test_a_problem_names_the_annotation_that_is_in_the_object(
    binding: Binding, kind: str, key: str, value: str
) -> None:
    text = message(written(binding, kind, annotations={key: value}))
    assert f"metadata.annotations[{binding.key(key)}]" in text
    other = VOLCANO if binding is VOLCANOPY else VOLCANOPY
    assert binding.key(key) == other.key(key) or other.key(key) not in text


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_both_budgets_are_named_as_in_the_object(binding: Binding) -> None:
    notes = {names.JDB_MIN_AVAILABLE: "1", names.JDB_MAX_UNAVAILABLE: "1"}
    text = message(written(binding, "BatchJob", annotations=notes))
    keys = [binding.key(key) for key in (names.JDB_MAX_UNAVAILABLE, names.JDB_MIN_AVAILABLE)]
    assert text == f"metadata.annotations[{keys[0]}]: Forbidden: mutually exclusive with {keys[1]}"


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
def test_a_protection_in_a_template_is_found_under_the_name_of_its_api(binding: Binding) -> None:
    policy = POLICY.model_copy(update={"unpreemptable": Subjects(users=["root"])})
    manifest = written(binding, "BatchJob")
    key = binding.key(names.PREEMPTABLE)
    manifest["spec"]["tasks"][0]["template"] = {**TEMPLATE, "metadata": {"annotations": {key: "false"}}}
    text = message(manifest, context=Context(CONTEXT.queues, plugin_problems, policy=policy))
    assert text.startswith(f"spec.tasks[0].template.metadata.annotations[{key}]: Forbidden: user")


def test_a_pod_of_volcano_gets_its_queue_under_the_name_of_volcano() -> None:
    policy = POLICY.model_copy(update={"queue_labels": ["team-queue"]})
    manifest = written(VOLCANO, "Pod")
    manifest["metadata"]["labels"] = {"team-queue": "team"}
    notes = after_patch(manifest, Context(CONTEXT.queues, plugin_problems, policy=policy))["metadata"]["annotations"]
    assert notes[VOLCANO.key(names.POD_QUEUE_NAME)] == "team"
    assert names.POD_QUEUE_NAME not in notes
