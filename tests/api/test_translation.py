"""Objects of Volcano's API have volcanopy's names inside the program, and get their own back when they are written."""

from typing import Any

import pytest

from volcanopy.api import names
from volcanopy.api.bindings import BINDINGS, VOLCANO, VOLCANOPY
from volcanopy.api.core import Meta, Pod, PodGroup, PodSpec
from volcanopy.api.decoding import convert
from volcanopy.api.read_model import OwnerReference
from volcanopy.api.translation import read_with_own_names, with_api_names, with_api_selector, with_own_names

Json = dict[str, Any]
POD_SPEC: Json = {
    "containers": [{"name": "main", "env": [{"name": "KEY", "value": "volcano.sh/task-spec"}]}],
    "affinity": {"podAffinity": {"labelSelector": {"matchLabels": {"volcanopy.io/job-name": "other"}}}},
}
JOB: Json = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "annotations": {"volcano.sh/preemptable": "true", "team": "x"},
        "ownerReferences": [{"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f", "uid": "1"}],
    },
    "spec": {"tasks": [{"template": {"metadata": {"labels": {"volcano.sh/task-index": "9"}}, "spec": POD_SPEC}}]},
}
SERVICE: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "labels": {names.JOB_NAME: "train"},
        "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "1"}],
    },
    "spec": {"selector": {names.JOB_NAME: "train", names.TASK_SPEC: "head"}},
}


def test_an_object_has_volcanopys_names_inside_and_keeps_its_api() -> None:
    job = with_own_names(JOB, VOLCANO)
    assert (job["apiVersion"], job["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    assert job["metadata"]["annotations"] == {names.PREEMPTABLE: "true", "team": "x"}
    assert job["metadata"]["ownerReferences"][0]["apiVersion"] == names.FLOW_V1ALPHA1
    template = job["spec"]["tasks"][0]["template"]
    assert template["metadata"]["labels"] == {names.TASK_INDEX: "9"}
    assert template["spec"] is POD_SPEC


def test_what_was_read_is_written_as_it_was() -> None:
    assert with_api_names(with_own_names(JOB, VOLCANO), VOLCANO) == JOB


def test_an_object_in_volcanopys_names_is_not_translated_twice() -> None:
    job = with_own_names(JOB, VOLCANO)
    assert with_own_names(job, VOLCANO) == job


def test_a_created_object_has_the_names_of_the_api_but_for_the_content_of_pods() -> None:
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {names.TASK_SPEC: "worker"},
            "annotations": {names.SUBMITTED_BY: "ana"},
            "ownerReferences": [{"apiVersion": names.BATCH_V1ALPHA1, "kind": "BatchJob", "name": "a", "uid": "1"}],
        },
        "spec": POD_SPEC,
    }
    written = with_api_names(pod, VOLCANO)
    assert written["metadata"]["labels"] == {"volcano.sh/task-spec": "worker"}
    assert written["metadata"]["annotations"] == {names.SUBMITTED_BY: "ana"}
    owner = written["metadata"]["ownerReferences"][0]
    assert (owner["apiVersion"], owner["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    assert written["spec"] is POD_SPEC


def test_selectors_have_the_names_of_the_api() -> None:
    assert with_api_names(SERVICE, VOLCANO)["spec"]["selector"] == {
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": "head",
    }
    group: Json = {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "PodGroup",
        "spec": {
            "subGroupPolicy": [
                {
                    "labelSelector": {"matchExpressions": [{"key": names.TASK_SPEC, "operator": "Exists"}]},
                    "matchLabelKeys": [names.PARTITION_ID],
                }
            ]
        },
    }
    written = with_api_names(group, VOLCANO)
    assert (written["apiVersion"], written["kind"]) == ("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert written["spec"]["subGroupPolicy"] == [
        {
            "labelSelector": {"matchExpressions": [{"key": "volcano.sh/task-spec", "operator": "Exists"}]},
            "matchLabelKeys": ["volcano.sh/partition-id"],
        }
    ]
    assert with_api_selector(f"!{names.JOB_NAME},{names.TASK_SPEC}=a,app=b", VOLCANO) == (
        "!volcano.sh/job-name,volcano.sh/task-spec=a,app=b"
    )


def test_the_removal_of_an_annotation_is_translated() -> None:
    patch: Json = {"metadata": {"annotations": {names.CLOSED_BY_PARENT: None}}}
    assert with_api_names(patch, VOLCANO) == {"metadata": {"annotations": {"volcano.sh/closed-by-parent": None}}}


@pytest.mark.parametrize("manifest", [JOB, SERVICE])
def test_volcanopys_api_needs_no_translation(manifest: Json) -> None:
    assert with_own_names(manifest, VOLCANOPY) is manifest
    assert with_api_names(manifest, VOLCANOPY) is manifest


def test_a_pod_is_read_by_the_names_of_the_api_of_its_scheduler() -> None:
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="a", uid="1", controller=True)
    meta = Meta(name="p", labels={"volcano.sh/job-name": "a"}, owner_references=(owner,))
    pod = Pod(metadata=meta, spec=PodSpec(scheduler_name="volcano"))
    read = read_with_own_names(pod, BINDINGS)
    assert read.metadata.labels == {"volcano.sh/job-name": "a", names.JOB_NAME: "a"}
    assert read_with_own_names(pod, BINDINGS, only=True).metadata.labels == {names.JOB_NAME: "a"}
    own = read.metadata.owner_references[0]
    assert (own.api_version, own.kind) == (names.BATCH_V1ALPHA1, "BatchJob")
    other = Pod(metadata=meta, spec=PodSpec(scheduler_name="volcanopy"))
    assert read_with_own_names(other, BINDINGS).metadata.labels == meta.labels


def test_a_pod_group_is_read_as_it_was_made_before_it_was_written() -> None:
    policy = {"labelSelector": {"matchLabels": {names.TASK_SPEC: "worker"}}, "matchLabelKeys": [names.PARTITION_ID]}
    made: Json = {
        "apiVersion": names.SCHEDULING_V1BETA1,
        "kind": "PodGroup",
        "metadata": {"name": "g", "labels": {names.JOB_NAME: "a"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"minMember": 2, "subGroupPolicy": [{"name": "worker", **policy}]},
    }
    stored = convert(with_api_names(made, VOLCANO), PodGroup)
    read = read_with_own_names(stored, (VOLCANO,), only=True)
    expected = convert(made, PodGroup)
    assert (read.metadata, read.spec) == (expected.metadata, expected.spec)
    assert read.api_version == "scheduling.volcano.sh/v1beta1"


def test_of_two_names_of_one_annotation_volcanopys_counts() -> None:
    manifest: Json = {"metadata": {"annotations": {names.PREEMPTABLE: "false", "volcano.sh/preemptable": "true"}}}
    assert with_own_names(manifest, VOLCANO) == {"metadata": {"annotations": {names.PREEMPTABLE: "false"}}}
    assert with_api_names(manifest, VOLCANO) == {"metadata": {"annotations": {"volcano.sh/preemptable": "false"}}}
