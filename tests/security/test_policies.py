"""The policies of the chart: what the controller's account may write, namespaces whose pods all run in queues, field managers of PodGroups."""

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest

from tests.charts.rendering import NAMESPACE, RELEASE
from tests.controlplane.plane import ControlPlane, CreateError
from tests.security.tenants import RBAC, Json, Tenant, chart_objects, install_roles
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import JOBS, PODS, SECRETS
from volcanopy.services.controllers.owned_objects import NameTakenError, create_owned, existing_object, is_controlled

pytestmark = pytest.mark.real

POLICIES = "/apis/admissionregistration.k8s.io/v1"
JOB_ONLY = "may {} only objects of a BatchJob"
WITH_AGENT: Json = {"agent": {"enabled": True}}
AGENT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-agent"
CONTROLLER = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-controller"


@pytest.fixture(scope="module")
def plane(real_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the chart's policies and the account of its controller, which go with the test."""
    made = []
    chart = [
        each
        for each in chart_objects("ClusterRole", "ClusterRoleBinding", values=WITH_AGENT)
        if each["metadata"]["name"].endswith(("-controller", "-agent"))
    ]
    kinds = [f"{mode}AdmissionPolicy{part}" for part in ("", "Binding") for mode in ("Validating", "Mutating")]
    for manifest in (*chart, *chart_objects(*kinds, values=WITH_AGENT)):
        base = RBAC if manifest["kind"].startswith("ClusterRole") else POLICIES
        plural = manifest["kind"].lower().removesuffix("y") + ("ies" if manifest["kind"].endswith("y") else "s")
        real_control_plane.request("POST", f"{base}/{plural}", manifest)
        made.append(f"{base}/{plural}/{manifest['metadata']['name']}")
    yield real_control_plane
    for path in made:
        real_control_plane.request("DELETE", path)


def namespace(plane: ControlPlane, **labels: str) -> str:
    """A new namespace."""
    name = f"policy-{uuid.uuid4().hex[:8]}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    return name


def owner(plane: ControlPlane, own: str) -> Json:
    """A reference to a new job: what has an owner that does not exist is collected."""
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    body = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "j"},
        "spec": {"tasks": [{"name": "main", "replicas": 1, "template": template}]},
    }
    uid = plane.request("POST", JOBS.path(own), body)["metadata"]["uid"]
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "j", "uid": uid, "controller": True}


def pod(name: str, *owners: Json, scheduler: str = "volcanopy") -> Json:
    """A pod."""
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owners}, "spec": spec}


def secret(name: str, *owners: Json) -> Json:
    """A Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "ownerReferences": owners},
        "data": {"a": "eA=="},
    }


def refused(attempt: Callable[[], str], message: str) -> None:
    """Repeat an attempt until a policy, which takes a moment to come into force, refuses it."""
    deadline = time.monotonic() + 60
    while message not in (answer := attempt()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


def test_the_agent_of_a_node_writes_about_this_node_only(plane: ControlPlane) -> None:
    agent = Tenant(plane, AGENT, "", node="n1")

    def report(node: str) -> str:
        path = f"{agent.path('NumaTopology', node)}?fieldManager=agent&force=true"
        kind = {"apiVersion": "nodeinfo.volcanopy.io/v1alpha1", "kind": "NumaTopology"}
        code, answer = agent.request("PATCH", path, kind | {"metadata": {"name": node}}, "application/apply-patch+yaml")
        return "" if code < 300 else f"{code} {answer['message']}"

    refused(lambda: report("n2"), "the agent of node n1 may not write about node n2")
    assert report("n1") == ""
    assert report("n1") == ""
    assert "cannot delete resource" in agent.delete("NumaTopology", "n1")
    assert "cannot patch resource" in agent.patch("Node", "n1", {"metadata": {"labels": {"a": "b"}}})
    assert "cannot list resource" in str(agent.get("NumaTopology", ""))
    plane.request("DELETE", agent.path("NumaTopology", "n1"))


def test_the_account_of_the_controller_writes_objects_of_jobs_only(plane: ControlPlane) -> None:
    own = namespace(plane)
    job = owner(plane, own)
    controller, admin = Tenant(plane, CONTROLLER, own), Tenant(plane, "admin", own)
    plane.request("POST", admin.path("Secret"), secret("passwords"))
    plane.request("POST", admin.path("Pod"), pod("of-a-user"))
    refused(lambda: controller.create(pod("p"), "?dryRun=All"), JOB_ONLY.format("write"))
    refusals = {
        "create a Secret": (controller.create(secret("s")), JOB_ONLY.format("write")),
        "read a Secret": (_read(controller, "passwords"), 'cannot get resource "secrets"'),
        "list Secrets": (_read(controller, ""), 'cannot list resource "secrets"'),
        "patch a Secret": (controller.patch("Secret", "passwords", {}), JOB_ONLY.format("write")),
        "take a Secret": (
            controller.patch("Secret", "passwords", {"metadata": {"ownerReferences": [job]}}),
            JOB_ONLY.format("change"),
        ),
        "delete a Secret": (controller.delete("Secret", "passwords"), JOB_ONLY.format("change")),
        "delete a pod": (controller.delete("Pod", "of-a-user"), JOB_ONLY.format("change")),
        "change a pod": (
            controller.patch("Pod", "of-a-user", {"spec": {"activeDeadlineSeconds": 1}}),
            JOB_ONLY.format("write"),
        ),
        "a pod of the system": (
            Tenant(plane, CONTROLLER, "kube-system").create(pod("p", job)),
            "may not change namespaces of the system",
        ),
    }
    assert {what: message in answer for what, (answer, message) in refusals.items()} == dict.fromkeys(refusals, True)
    assert controller.create(pod("p", job)) == ""
    assert controller.patch("Pod", "of-a-user", {"metadata": {"annotations": {"a": "b"}}}) == "", "its PodGroup"
    assert controller.create(secret("keys", job)) == ""
    assert controller.patch("Secret", "keys", {"data": {"a": "eQ=="}}) == ""
    assert controller.delete("Secret", "keys") == ""


def _read(tenant: Tenant, name: str) -> str:
    code, answer = tenant.request("GET", tenant.path("Secret", name))
    return f"{code} {answer.get('message')}"


async def test_the_controller_recognizes_its_secrets_without_reading_others(plane: ControlPlane) -> None:
    own = await asyncio.to_thread(namespace, plane)
    with contextlib.suppress(CreateError):
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    account = {"metadata": {"name": f"{RELEASE}-controller"}}
    with contextlib.suppress(CreateError):
        plane.request("POST", path, account)
    job = await asyncio.to_thread(owner, plane, own)
    config = await asyncio.to_thread(plane.kubeconfig_for, CONTROLLER)
    admin = Tenant(plane, "admin", own)
    plane.request("POST", admin.path("Secret"), secret("passwords"))
    async with Client(load_connection(config)) as client:
        await asyncio.to_thread(
            refused, lambda: Tenant(plane, CONTROLLER, own).patch("Secret", "passwords", {}), JOB_ONLY.format("write")
        )
        assert await existing_object(client, SECRETS, own, "passwords") is None
        with pytest.raises(NameTakenError, match="Secret passwords exists and does not belong to this job"):
            await create_owned(
                client, SECRETS, own, secret("passwords", job), lambda kept: is_controlled(kept, job["uid"])
            )
        for expected in (True, False):
            made = await create_owned(
                client, SECRETS, own, secret("keys", job), lambda kept: is_controlled(kept, job["uid"])
            )
            assert (made[0]["data"], made[1]) == ({"a": "eA=="}, expected)
        assert await client.create(PODS, own, pod("p", job))


def test_pod_groups_have_field_managers_only_if_server_side_apply_creates_them(plane: ControlPlane) -> None:
    groups = Tenant(plane, "", namespace(plane)).path("PodGroup")
    group = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1}}

    def managers(name: str) -> list[str]:
        """What the managers of a PodGroup's fields did, once its status is written."""
        status = {"status": {"phase": "Running"}}
        written = plane.request("PATCH", f"{groups}/{name}/status", status, "application/merge-patch+json")
        assert written["status"]["phase"] == "Running"
        return [entry["operation"] for entry in written["metadata"].get("managedFields", [])]

    def comes_without_managers(name: str) -> bool:
        try:
            plane.request("POST", groups, group | {"metadata": {"name": name}})
        except CreateError as error:
            if error.status != HTTPStatus.SERVICE_UNAVAILABLE:  # until the server has read the schema of the kind
                raise
            return False
        return managers(name) == []

    deadline, names = time.monotonic() + 60, (f"g-{number}" for number in itertools.count())
    while not comes_without_managers(next(names)):  # the policy takes a moment to come into force
        assert time.monotonic() < deadline
        time.sleep(0.1)
    applied = group | {"metadata": {"name": "applied"}}
    plane.request("PATCH", f"{groups}/applied?fieldManager=a", applied, "application/apply-patch+yaml")
    assert managers("applied") == ["Apply", "Update"]


def test_pods_of_a_namespace_for_queues_name_our_scheduler(plane: ControlPlane) -> None:
    own = namespace(plane, **{"volcanopy.io/queues-only": "true"})
    install_roles(plane, own, "eve")
    eve = Tenant(plane, "eve", own)
    message = "pods of this namespace run in queues: set spec.schedulerName to volcanopy"
    refused(lambda: eve.create(pod("p", scheduler="default-scheduler"), "?dryRun=All"), message)
    assert message in eve.create(pod("p", scheduler="default-scheduler") | {"metadata": {"name": "other"}})
    code, answer = eve.request(
        "PATCH", f"/api/v1/namespaces/{own}", {"metadata": {"labels": None}}, "application/merge-patch+json"
    )
    assert code == 403, answer
    elsewhere = Tenant(plane, "eve", namespace(plane))
    install_roles(plane, elsewhere.namespace, "eve")
    assert elsewhere.create(pod("p", scheduler="default-scheduler")) == ""
