"""Pods of admitted workloads are accepted in a closed queue, others are not."""

import msgspec
import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import validate
from volcanopy.api.core import PodGroup, Queue

QUEUE = "scheduling.volcanopy.io/queue-name"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


@pytest.mark.parametrize(
    ("phase", "user", "accepted"),
    [
        ("Running", JOB_CONTROLLER, True),
        ("Completed", JOB_CONTROLLER, True),
        ("Pending", JOB_CONTROLLER, False),
        ("", JOB_CONTROLLER, False),
        ("Running", "eve", False),
    ],
)
@pytest.mark.parametrize("state", ["Closing", "Closed"])
def test_a_closed_queue_accepts_the_pods_that_controllers_create_for_admitted_groups(
    state: str, phase: str, user: str, accepted: bool
) -> None:
    queue = msgspec.convert({"metadata": {"name": "q"}, "spec": {}, "status": {"state": state}}, Queue)
    meta = {"name": "podgroup-w", "namespace": "team"}
    group = msgspec.convert({"metadata": meta, "spec": {"queue": "q"}, "status": {"phase": phase}}, PodGroup)
    policy = AdmissionPolicy.read({"controllers": ["volcanopy"]}, unknown="forbid")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "w", "controller": True}
    pod = {
        "metadata": {"name": "x", "namespace": "team", "annotations": {QUEUE: "q"}, "ownerReferences": [owner]},
        "spec": {"schedulerName": "volcanopy", "containers": [{"name": "a", "image": "b"}]},
    }
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "team",
        "name": "x",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": pod,
    }
    context = Context(queues={"q": queue}, policy=policy, pod_groups={"team/podgroup-w": group})
    response = validate({"request": request}, context)["response"]
    message = response.get("status", {}).get("message", "")
    assert (f"queue is {state}" not in message) is accepted
