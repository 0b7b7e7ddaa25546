"""Operators that create PodGroups of Volcano's API run unmodified: admission accepts their objects, and the gang is placed."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import jsonpatch
import pytest
from msgspec.structs import replace

from tests.clients.operators import CLIENTS, NAMESPACE, Client, Json, argo_job, owner, pod, pod_group
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import review
from volcanopy.api import core, names
from volcanopy.api.bindings import BINDINGS, VOLCANO
from volcanopy.installed.scheduler_plugins import registry
from volcanopy.jobcontroller.plugins.registry import plugin_problems
from volcanopy.kube.cache.followed_kinds import NODES, POD_GROUPS, PODS, slimming
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import bound
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy.services.scheduler.state.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CONTROLLERS = ["system:serviceaccount:volcanopy-system:volcanopy-controller"]
POLICY = AdmissionPolicy(scheduler_names=["volcanopy", "volcano"], controllers=CONTROLLERS)


def queue(name: str) -> core.Queue:
    return core.Queue(
        metadata=core.Meta(name=name), spec=core.QueueSpec(weight=1), status=core.QueueStatus(state="Open")
    )


QUEUES_OF_CLUSTER = {name: queue(name) for name in ("root", "default", "research")}


def reviewed(user: str, manifest: Json, groups: dict[str, core.PodGroup], old: Json | None = None) -> tuple[Json, str]:
    """The object as admission stores it, and the reason of a rejection."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    request: Json = {
        "uid": "1",
        "kind": {"group": group, "version": version, "kind": manifest["kind"]},
        "operation": "UPDATE" if old else "CREATE",
        "namespace": NAMESPACE,
        "name": manifest["metadata"]["name"],
        "object": manifest,
        "oldObject": old,
        "userInfo": {"username": user, "groups": ["system:serviceaccounts", "system:authenticated"]},
    }
    context = Context(queues=QUEUES_OF_CLUSTER, policy=POLICY, pod_groups=groups, check_plugins=plugin_problems)
    response = review({"request": request}, context)["response"]
    if not response["allowed"]:
        return manifest, response["status"]["message"]
    patch = json.loads(base64.b64decode(response["patch"])) if response.get("patch") else []
    return jsonpatch.apply_patch(manifest, patch), ""


def read(kind: Kind[Any], manifest: Json) -> Any:
    """An object as the services follow it."""
    return slimming(kind, BINDINGS)(kind.decode(json.dumps(manifest).encode()))


GROUPS = bound(POD_GROUPS, VOLCANO)


def admitted(client: Client) -> tuple[dict[str, core.PodGroup], list[Json], list[str]]:
    """The PodGroups and pods after the client has created its objects, and the reasons of rejections."""
    groups: dict[str, core.PodGroup] = {}
    pods, problems = [], []
    for creation in client.objects:
        stored, problem = reviewed(creation.user, creation.manifest, groups)
        problems += [problem] if problem else []
        if stored["kind"] == "Pod":
            pods.append(stored)
        else:
            group = read(GROUPS, stored)
            groups[group.metadata.key] = group
    return groups, pods, problems


def bound_pods(client: Client, cpus: int) -> set[str]:
    """The names of the pods that the scheduler binds on a node with so many cpus."""
    groups, pods, problems = admitted(client)
    assert problems == []
    allocatable = {"cpu": str(cpus), "memory": "64Gi", "pods": "100"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[index]
    store = Store(scheduler_names=("volcanopy", "volcano"), bindings=BINDINGS)
    waiting = [replace(group, status=replace(group.status, phase="Inqueue")) for group in groups.values()]
    objects = [*QUEUES_OF_CLUSTER.values(), read(NODES, node), *waiting, *(read(PODS, item) for item in pods)]
    store.take([Change(ChangeType.ADDED, item) for item in objects])
    plan = schedule(store.snapshot(NOW, "test"), parse(DEFAULT, registry()), registry())
    return {effect.pod.rpartition("/")[2] for effect in plan.of(Bind)}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_objects_of_a_client_are_admitted(client: Client) -> None:
    assert admitted(client)[2] == []


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_pods_of_a_client_start_together_or_not_at_all(client: Client) -> None:
    every = {item["metadata"]["name"] for item in client.pods}
    assert bound_pods(client, cpus=len(every)) == every
    assert bound_pods(client, cpus=client.gang - 1) == set()


@pytest.mark.parametrize("client", [c for c in CLIENTS if c.gang > 1], ids=lambda client: client.name)
def test_a_client_may_change_the_minimum_of_its_pod_group(client: Client) -> None:
    """KubeRay does when the cluster is scaled."""
    [creation] = [creation for creation in client.objects if creation.manifest["kind"] == "PodGroup"]
    stored, problem = reviewed(creation.user, creation.manifest, {})
    assert problem == ""
    larger = stored | {"spec": stored["spec"] | {"minMember": client.gang + 1}}
    assert reviewed(creation.user, larger, {}, stored)[1] == ""
    assert "only its submitter" in reviewed("system:serviceaccount:other:ana", larger, {}, stored)[1]


def test_another_user_cannot_join_the_pod_group_of_an_operator() -> None:
    client = next(client for client in CLIENTS if client.name == "KubeRay")
    groups, _, _ = admitted(client)
    _, problem = reviewed("system:serviceaccount:other:ana", pod("intruder", "ray-demo-pg"), groups)
    assert 'PodGroup "ray-demo-pg" belongs to user "system:serviceaccount:ray:kuberay-operator"' in problem


def test_an_account_of_another_namespace_or_a_user_cannot_join_the_group_of_spark() -> None:
    client = next(client for client in CLIENTS if client.name == "Spark operator")
    groups, _, _ = admitted(client)
    for user in ("ana", "system:serviceaccount:other:spark"):
        assert (
            'belongs to user "system:serviceaccount:spark-operator'
            in reviewed(user, pod("x", "spark-pi-pg"), groups)[1]
        )


def test_no_user_can_join_or_change_the_pod_group_of_a_workload() -> None:
    controller = owner("apps/v1", "ReplicaSet", "web")
    manifest = pod_group(names.workload_group(controller[0]["uid"]), controller, minMember=1, queue="research")
    name = manifest["metadata"]["name"]
    group = read(GROUPS, manifest)
    _, joining = reviewed("ana", pod("intruder", name), {group.metadata.key: group})
    assert f'PodGroup "{name}" belongs to a workload' in joining
    changed = manifest | {"spec": manifest["spec"] | {"minMember": 2}}
    assert "the controllers write the PodGroup of a ReplicaSet" in reviewed("ana", changed, {}, manifest)[1]


def test_the_job_of_an_argo_template_is_accepted_as_it_is() -> None:
    given = argo_job()
    stored, problem = reviewed("system:serviceaccount:team:argo", given, {})
    assert problem == ""
    [before], [after] = given["spec"].pop("tasks"), stored["spec"].pop("tasks")
    assert before.items() <= after.items(), "only defaults are added"
    assert given["spec"].items() <= stored["spec"].items()
    assert stored["metadata"]["ownerReferences"] == given["metadata"]["ownerReferences"]


def test_a_user_creates_the_pod_group_before_its_pods() -> None:
    assert "create it before its pods" in reviewed("ana", pod("early", "none"), {})[1]
