"""Every way into a queue is subject to the same rules: right, state, limits and amounts."""

import json
from typing import Any

import msgspec
import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.request import User, account_user
from volcanopy.admission.review import validate
from volcanopy.api.core import PodGroup, Queue

Json = dict[str, Any]
CONTROLLER = "system:serviceaccount:volcanopy-system:volcanopy-controller"
KUBERNETES = "system:serviceaccount:kube-system:replicaset-controller"
GROUPS = ["system:authenticated"]
EVE = User("eve", tuple(GROUPS))

RULES: dict[str, tuple[Json, Json, str]] = {
    "right": ({"submitters": {"users": ["bob"]}}, {}, "may not submit to queue"),
    "state": ({}, {"state": "Closed"}, "queue is Closed"),
    "leaf": ({"children": True}, {}, "not a leaf queue"),
    "capability": ({"capability": {"cpu": "8"}}, {}, 'queue "target" '),
    "limit of the user": ({"limits": [{"users": ["eve"], "resources": {"cpu": "8"}}]}, {}, "cpu"),
    "maxQueuedJobs": ({"maxQueuedJobs": 1}, {}, "maxQueuedJobs"),
    "maxQueuedJobs of the user": ({"limits": [{"users": ["eve"], "maxQueuedJobs": 1}]}, {}, "maxQueuedJobs"),
    "maxRunningJobs": ({"maxRunningJobs": 1}, {}, "maxRunningJobs"),
    "maxRunningJobs of the user": ({"limits": [{"users": ["eve"], "maxRunningJobs": 1}]}, {}, "maxRunningJobs"),
}
"""Spec and status of the queue, and a part of the sentence."""
AMOUNTS = {"capability", "limit of the user"}
WAITING = RULES.keys() - {"maxRunningJobs", "maxRunningJobs of the user"}
"""A job that waits may enter a queue whose running jobs are limited: it waits there."""
RUNNING = RULES.keys() - {"maxQueuedJobs", "maxQueuedJobs of the user"}


def meta(**more: Any) -> Json:
    notes = {"volcanopy.io/submitted-by": "eve", "volcanopy.io/submitter-groups": json.dumps(GROUPS)}
    return {"name": "x", "namespace": "team", "annotations": notes | more.pop("annotations", {}), **more}


def template(cpu: str) -> Json:
    return {"spec": {"containers": [{"name": "a", "image": "b", "resources": {"requests": {"cpu": cpu}}}]}}


def job(queue: str, cpu: str = "12", replicas: int = 1, **spec: Any) -> Json:
    task = {"name": "t", "replicas": replicas, "template": template(cpu)}
    api = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob"}
    return {**api, "metadata": meta(), "spec": {"queue": queue, "tasks": [task], **spec}}


def group(queue: str, cpu: str = "12", status: Json | None = None, **more: Any) -> Json:
    api = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "PodGroup"}
    spec = {"queue": queue, "minMember": 1, "minResources": {"cpu": cpu}}
    return {**api, "metadata": meta(**more), "spec": spec, "status": status or {}}


def pod(queue: str, user: User = EVE, **more: Any) -> Json:
    notes = {"volcanopy.io/submitted-by": user.name, "volcanopy.io/submitter-groups": json.dumps(user.groups)}
    notes |= {"scheduling.volcanopy.io/queue-name": queue}
    made = {**template("12"), "metadata": meta(annotations=notes, **more)}
    made["spec"]["schedulerName"] = "volcanopy"
    return {**made, "apiVersion": "v1", "kind": "Pod"}


def owned(**more: Any) -> Json:
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "o", **more}]}


ACCOUNT = account_user("team", "default")
WORKLOAD = owned(controller=True)
RUNS = {"phase": "Running", "running": 1}
ENTRANCES: dict[str, tuple[set[str], Json | None, Json, str]] = {
    "create a job": (set(WAITING), None, job("target"), "eve"),
    "create a PodGroup": (set(WAITING), None, group("target"), "eve"),
    "create a pod": (set(WAITING), None, pod("target"), "eve"),
    "create a pod of a workload": (set(WAITING), None, pod("target", ACCOUNT, **WORKLOAD), KUBERNETES),
    "move a PodGroup": (set(WAITING), group("origin"), group("target"), "eve"),
    "move a PodGroup whose pods run": (set(RUNNING), group("origin", "1", RUNS), group("target", "1", RUNS), "eve"),
    "move an admitted PodGroup": (
        set(RUNNING),
        group("origin", "1", {"phase": "Inqueue"}),
        group("target", "1", {"phase": "Inqueue"}),
        "eve",
    ),
    "annotate a workload": (
        set(RUNNING),
        group("origin", "1", RUNS, **WORKLOAD),
        group("target", "1", RUNS, **WORKLOAD),
        CONTROLLER,
    ),
    "resume a job": (set(WAITING) - AMOUNTS, job("target", suspend=True), job("target"), "eve"),
    "scale a job": (AMOUNTS, job("target", "4"), job("target", "4", 3), "eve"),
    "enlarge a PodGroup": (AMOUNTS, group("target", "1"), group("target"), "eve"),
}
"""By what is done, the rules that apply, the objects before and after, and the user."""


def review_of(before: Json | None, after: Json, user: str) -> Json:
    """The request of an AdmissionReview in which the user creates or changes an object."""
    kinds = {"Pod": "", "PodGroup": "scheduling.volcanopy.io", "BatchJob": "batch.volcanopy.io"}
    return {
        "uid": "1",
        "operation": "UPDATE" if before else "CREATE",
        "kind": {"group": kinds[after["kind"]], "version": "v1", "kind": after["kind"]},
        "namespace": "team",
        "name": "x",
        "userInfo": {"username": user, "groups": GROUPS},
        "object": after,
        "oldObject": before,
    }


def answer(rule: str, before: Json | None, after: Json, user: str) -> str:
    """The sentences of a rejection; empty if the object is admitted."""
    specification, status, _ = RULES[rule]
    further = dict(specification)
    listed = [{"name": "root"}, {"name": "default"}, {"name": "origin"}]
    if further.pop("children", False):
        listed.append({"name": "child", "parent": "target"})
    queues = {
        each["name"]: msgspec.convert(
            {"metadata": {"name": each["name"]}, "spec": {"parent": each.get("parent", "")}}, Queue
        )
        for each in listed
    }
    target = {"metadata": {"name": "target"}, "spec": further, "status": status}
    queues["target"] = msgspec.convert(target, Queue)
    context = Context(
        queues=queues,
        policy=AdmissionPolicy.read({"controllers": [CONTROLLER]}, unknown="forbid"),
        pod_groups=dict[str, PodGroup](),
        queued_jobs={("target", EVE): 1, ("target", ACCOUNT): 1},
    )
    response = validate({"request": review_of(before, after, user)}, context)["response"]
    return str(response.get("status", {}).get("message", ""))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_is_subject_to_every_rule(entrance: str, rule: str) -> None:
    rules, before, after, user = ENTRANCES[entrance]
    of_account = "of the user" in rule and user == KUBERNETES  # the pod counts for its service account
    message = answer(rule, before, after, user)
    assert (RULES[rule][2] in message) is (rule in rules and not of_account), message


def test_a_move_below_a_common_ancestor_is_not_counted_twice() -> None:
    """Its limits hold what the PodGroup has already."""
    queues = {
        name: msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)
        for name, spec in {
            "root": {},
            "all": {"capability": {"cpu": "16"}, "maxQueuedJobs": 1, "maxRunningJobs": 1},
            "left": {"parent": "all"},
            "right": {"parent": "all"},
        }.items()
    }
    for status in ({}, RUNS):
        context = Context(queues=queues, queued_jobs={("left", EVE): 1}, pod_groups={})
        assert validate(
            {"request": review_of(group("left", status=status), group("right", status=status), "eve")}, context
        )["response"]["allowed"]
