"""No way around the submitters of a queue: what was checked at creation cannot be changed afterwards."""

import json
from typing import Any

import msgspec
import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import validate
from volcanopy.api.core import PodGroup, Queue

CONTROLLER = "system:serviceaccount:volcanopy-system:volcanopy-controller"
QUEUE, GROUP = "scheduling.volcanopy.io/queue-name", "scheduling.k8s.io/group-name"
QUEUES = {
    name: msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)
    for name, spec in {
        "root": {},
        "default": {},
        "open": {"submitters": {"users": ["*"]}},
        "fast": {"submitters": {"users": ["bob"]}},
    }.items()
}
Json = dict[str, Any]


def context(controllers: tuple[str, ...] = (CONTROLLER,)) -> Context:
    """A cluster with a PodGroup of bob in queue fast."""
    bobs = msgspec.convert(
        {"metadata": {"name": "bobs", "namespace": "team"}, "spec": {"queue": "fast", "minMember": 1}}, PodGroup
    )
    policy = AdmissionPolicy.read({"controllers": list(controllers)}, unknown="forbid")
    return Context(queues=QUEUES, policy=policy, pod_groups={"team/bobs": bobs})


def answer(
    kind: str, before: Json | None, after: Json, user: str = "eve", controllers: tuple[str, ...] = (CONTROLLER,)
) -> Json:
    group = "" if kind == "Pod" else "scheduling.volcanopy.io"
    request = {
        "uid": "1",
        "operation": "UPDATE" if before else "CREATE",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "namespace": "team",
        "name": "x",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": after,
        "oldObject": before,
    }
    response: Json = validate({"request": request}, context(controllers))["response"]
    return response


def pod(**annotations: str) -> Json:
    notes = {"volcanopy.io/submitted-by": "eve", "volcanopy.io/submitter-groups": json.dumps(["system:authenticated"])}
    named = {{"queue": QUEUE, "group": GROUP}.get(key, key): value for key, value in annotations.items()}
    spec = {"schedulerName": "volcanopy", "containers": [{"name": "a", "image": "b"}]}
    return {"metadata": {"name": "x", "namespace": "team", "annotations": notes | named}, "spec": spec}


def group(queue: str, owner: str = "", submitter: str = "eve") -> Json:
    notes = {
        "volcanopy.io/submitted-by": submitter,
        "volcanopy.io/submitter-groups": json.dumps(["system:authenticated"]),
    }
    meta: Json = {"name": "x", "namespace": "team", "annotations": notes}
    if owner:
        version = "batch.volcanopy.io/v1alpha1" if owner == "BatchJob" else "apps/v1"
        meta["ownerReferences"] = [{"apiVersion": version, "kind": owner, "name": "o", "uid": "o", "controller": True}]
    kind = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "PodGroup"}
    return {**kind, "metadata": meta, "spec": {"minMember": 1, "queue": queue}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pod(queue="open"), pod(queue="fast")),
        (pod(), pod(queue="fast")),
        (pod(queue="open"), pod()),
        (pod(group="mine"), pod(group="bobs")),
        (pod(), pod(group="bobs")),
        (pod(group="mine"), pod()),
    ],
)
@pytest.mark.parametrize("controllers", [(CONTROLLER,), ()])
def test_the_queue_and_the_group_of_a_pod_cannot_be_changed_after_its_creation(
    before: Json, after: Json, controllers: tuple[str, ...]
) -> None:
    response = answer("Pod", before, after, controllers=controllers)
    assert not response["allowed"]
    assert "metadata.annotations[" in response["status"]["message"]


def test_the_controller_assigns_a_group_to_a_pod() -> None:
    assert answer("Pod", pod(), pod(group="x-group"), user=CONTROLLER)["allowed"]
    assert answer("Pod", pod(), pod(group="x-group"), controllers=())["allowed"], "if it is not named"


def test_other_annotations_of_a_pod_may_change() -> None:
    assert answer("Pod", pod(queue="open"), pod(queue="open", note="x"))["allowed"]


@pytest.mark.parametrize("user", ["eve", "bob"])
@pytest.mark.parametrize("controllers", [(CONTROLLER,), ()])
def test_the_group_of_a_job_stays_in_the_queue_of_the_job(user: str, controllers: tuple[str, ...]) -> None:
    """Also if the owner reference is removed in the same update."""
    before = group("open", owner="BatchJob", submitter=user)
    for after in (group("fast", owner="BatchJob", submitter=user), group("fast", submitter=user)):
        response = answer("PodGroup", before, after, user=user, controllers=controllers)
        assert not response["allowed"]
        assert "the queue of the PodGroup of a job is that of the job" in response["status"]["message"]


@pytest.mark.parametrize(("submitter", "expected"), [("eve", False), ("bob", True)])
def test_annotations_of_a_workload_lead_only_to_queues_of_its_submitter(submitter: str, expected: bool) -> None:
    """A Deployment names a queue: the controller creates or moves the PodGroup of its pods."""
    made = group("fast", owner="ReplicaSet", submitter=submitter)
    assert answer("PodGroup", None, made, user=CONTROLLER)["allowed"] is expected
    before = group("open", owner="ReplicaSet", submitter=submitter)
    assert answer("PodGroup", before, made, user=CONTROLLER)["allowed"] is expected


def test_a_group_of_a_job_is_created_again_by_the_controller() -> None:
    assert answer("PodGroup", None, group("fast", owner="BatchJob", submitter="bob"), user=CONTROLLER)["allowed"]
