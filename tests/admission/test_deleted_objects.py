"""Objects that are being deleted lose their finalizers, also those that would not be admitted any more."""

from typing import Any

import pytest

from tests.admission.test_parents import CONTEXT, cron, flow, job
from volcanopy.admission.review import review
from volcanopy.api.bindings import BINDINGS, VOLCANOPY, Binding

Json = dict[str, Any]


def other(kind: str, group: str, **spec: Any) -> Json:
    api_version = f"{group}.volcanopy.io/{'v1beta1' if group == 'scheduling' else 'v1alpha1'}"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}, "spec": spec}


STALE = {
    "a job with an unknown plugin": job(VOLCANOPY, "j", plugins={"gone": []}),
    "a cron job with an invalid schedule": cron(VOLCANOPY, "c", "never"),
    "a template with a minimum above its replicas": other(
        "JobTemplate", "flow", **job(VOLCANOPY, "j", minAvailable=9)["spec"]
    ),
    "a queue that deserves more than its capability": other(
        "Queue", "scheduling", capability={"cpu": 1}, deserved={"cpu": 4}
    ),
    "a PodGroup with a negative minimum": other("PodGroup", "scheduling", minTaskMember={"a": -1}),
    "a hypernode with two selectors": other(
        "HyperNode",
        "topology",
        tier=1,
        members=[
            {"type": "Node", "selector": {"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "b"}}},
        ],
    ),
}


def message(old: Json, new: Json) -> str:
    """The message of the rejection of an update; empty if it is admitted."""
    request = {
        "kind": {"group": new["apiVersion"].partition("/")[0], "kind": new["kind"]},
        "operation": "UPDATE",
        "namespace": "ns",
        "name": new["metadata"]["name"],
        "object": new,
        "oldObject": old,
        "userInfo": {"username": "system:serviceaccount:kube-system:generic-garbage-collector", "groups": []},
    }
    response = review({"request": request}, CONTEXT)["response"]
    return "" if response["allowed"] else str(response["status"]["message"])


def with_metadata(manifest: Json, **metadata: Any) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


def deleted(manifest: Json, *finalizers: str) -> Json:
    return with_metadata(manifest, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=list(finalizers))


@pytest.mark.parametrize("manifest", STALE.values(), ids=STALE.keys())
def test_a_finalizer_can_be_removed_while_it_is_deleted(manifest: Json) -> None:
    assert message(deleted(manifest, "foregroundDeletion"), deleted(manifest)) == ""


@pytest.mark.parametrize("manifest", STALE.values(), ids=STALE.keys())
def test_it_is_not_admitted_with_any_other_change(manifest: Json) -> None:
    before = deleted(manifest, "foregroundDeletion")
    assert message(with_metadata(manifest, finalizers=["foregroundDeletion"]), manifest) != ""
    assert message(before, with_metadata(before, labels={"a": "b"})) != ""
    assert message(before, deleted(manifest, "foregroundDeletion", "example.com/more")) != ""


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)
@pytest.mark.parametrize("deletion", [False, True])
def test_the_jobs_of_a_flow_are_immutable_also_while_it_is_deleted(binding: Binding, deletion: bool) -> None:
    before, after = flow(binding, "f", "a"), flow(binding, "f", "a", "b")
    if deletion:
        before, after = deleted(before, "foregroundDeletion"), deleted(after)
    assert message(before, after) == "spec.flows: Forbidden: field is immutable: create a new flow"
    retained = before | {"spec": before["spec"] | {"jobRetainPolicy": "delete"}}
    assert message(before, retained) == ""
