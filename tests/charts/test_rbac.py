"""The rights of the chart's service accounts, measured: the services run under them, do all they can, and are watched."""

import asyncio
import contextlib
import http.client
import json
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.charts import exercise
from tests.charts.chart_processes import APISERVER_FLAGS, Installation, Pod, token
from tests.charts.permissions import AUDIT_POLICY, Right, granted, requests
from tests.charts.rendering import CHART, NAMESPACE, RELEASE, Json, need_helm, render, run_helm
from tests.controlplane.fixtures import chart_crds, need_programs
from tests.controlplane.plane import ControlPlane
from tests.e2e.world import QUEUES, World
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy_local.cluster import Components, Parts
from volcanopy_local.simulated import nodes

pytestmark = pytest.mark.real

ACTIONS = "enqueue, allocate, preempt, reclaim, backfill"
DISCOVERY = {"networkTopologyTypes": {"plain": [{"nodeLabel": exercise.RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}}
VALUES: Json = {
    "api": "volcanopy",  # rights for Volcano's kinds are compared with these in test_volcano_api.py
    "scheduler": {"config": {"actions": ACTIONS}},
    "controller": {"config": {"networkTopologyDiscovery": [{"source": "label", "enabled": True, "config": DISCOVERY}]}},
    "admission": {"policy": {"queueGates": True}},
}
ACCOUNTS = tuple(f"volcanopy-{part}" for part in ("scheduler", "controller", "admission"))

SCHEDULING, SYSTEM = "scheduling.volcanopy.io", NAMESPACE
AFTER_A_CONFLICT = "read again when somebody else has written meanwhile"
AFTER_A_LOST_ANSWER = "looked for when the answer to a write of ours was lost"
WHERE_ASKED_FOR = (
    "only where the admission plugin OwnerReferencesPermissionEnforcement asks; it is on here, and no request tells"
)
OTHERS_API = "the configuration may name this API as the source of the nodes' load; the test's cluster does not have it"
STANDING_BY = "while another one leads: whoever gets the Lease at once has no time to watch it"
UNOBSERVED: dict[str, dict[Right, str]] = {
    "volcanopy-scheduler": {
        Right("get", "", "pods"): AFTER_A_LOST_ANSWER,
        Right("get", SCHEDULING, "queues"): "when somebody else makes the first queue at the same moment",
        Right("patch", "", "events"): "when the same is told again",
        Right(
            "patch", "resource.k8s.io", "resourceclaims/binding"
        ): "Kubernetes looks at it with resourceclaims/status",
        Right("list", "metrics.k8s.io", "nodes"): OTHERS_API,
        Right("get", "custom.metrics.k8s.io", "nodes/node_cpu_usage_avg"): OTHERS_API,
        Right("get", "custom.metrics.k8s.io", "nodes/node_memory_usage_avg"): OTHERS_API,
        Right("watch", "coordination.k8s.io", "leases", SYSTEM, "volcanopy-scheduler"): STANDING_BY,
    },
    "volcanopy-controller": {
        Right("get", SCHEDULING, "podgroups"): AFTER_A_LOST_ANSWER,
        Right("watch", "coordination.k8s.io", "leases", SYSTEM, "volcanopy-controller"): STANDING_BY,
        Right("get", "batch.volcanopy.io", "cronbatchjobs"): AFTER_A_CONFLICT,
        Right("delete", "batch.volcanopy.io", "jobhistories"): "when there are too many: 50 in a namespace, 500 in all",
        Right("get", "flow.volcanopy.io", "jobflows"): AFTER_A_CONFLICT,
        Right("get", SCHEDULING, "queues"): AFTER_A_CONFLICT,
        Right("create", SCHEDULING, "queues"): "root and default, where they exist in Volcano's API only",
        Right("update", "batch.volcanopy.io", "batchjobs/finalizers"): WHERE_ASKED_FOR,
        Right("update", "batch.volcanopy.io", "cronbatchjobs/finalizers"): WHERE_ASKED_FOR,
        Right("update", "flow.volcanopy.io", "jobflows/finalizers"): WHERE_ASKED_FOR,
    },
    "volcanopy-admission": {},
}
"""What need not show up in the exercise, and why it is granted all the same."""


class Watched:
    """A control plane that writes down who asked what, with the chart installed on it."""

    def __init__(self, plane: ControlPlane, log: Path) -> None:
        self.plane, self.log = plane, log


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    need_programs()
    need_helm()
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(AUDIT_POLICY)
    flags = [
        *APISERVER_FLAGS,
        f"--audit-policy-file={folder / 'policy.yaml'}",
        f"--audit-log-path={folder / 'log'}",
        # Some clusters ask for one right more of whoever makes objects that block their owner's deletion.
        "--enable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook,OwnerReferencesPermissionEnforcement",
    ]
    with ControlPlane.start(crds=chart_crds(), apiserver_flags=flags) as plane:
        install(plane)
        yield Watched(plane, folder / "log")


@pytest.mark.slow("exercises every right of the chart on a control plane with an audit log")
async def test_every_granted_permission_is_used_and_no_request_is_forbidden(watched: Watched, tmp_path: Path) -> None:
    objects = render(VALUES)
    async with running_services(watched, objects, tmp_path) as (installation, world):
        await exercise.preemption(world)
        await exercise.run_concurrently(world)
        await exercise.start_before_restart(world)
        # Another one takes over: what exists is found again, not made.
        controller = next(pod for pod in installation.pods if pod.part == "controller")
        await asyncio.to_thread(controller.end)
        await asyncio.to_thread(installation.start("controller", 1).ready)
        await exercise.scale_after_restart(world)
        for pod in installation.pods:
            await asyncio.to_thread(pod.end)
    asked = requests(watched.log)
    unexplained, surplus = [], []
    for account in ACCOUNTS:
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        mine = [request for request in asked if request.user == user]
        assert mine, f"{account} has not asked anything"
        unexplained += [f"{account}: {item.right} was refused" for item in mine if item.code == 403]
        rights = granted(objects, account)
        idle = {right for right in rights if not any(right.covers(item.right) for item in mine)}
        surplus += [f"{account}: {right} is granted and not used" for right in idle - UNOBSERVED[account].keys()]
        surplus += [f"{account}: {right} is explained and not granted" for right in UNOBSERVED[account].keys() - rights]
    problems = sorted({*unexplained, *surplus})
    assert not problems, "\n".join(problems)


def install(plane: ControlPlane) -> None:
    command = ["install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--create-namespace", "--values=-"]
    run_helm(*command, values=json.dumps(VALUES), kubeconfig=plane.kubeconfig)


@contextlib.asynccontextmanager
async def running_services(
    watched: Watched, objects: list[Json], folder: Path
) -> AsyncIterator[tuple[Installation, World]]:
    """All services as processes, three simulated nodes, and a namespace to play in."""
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    connection = load_connection(watched.plane.kubeconfig)
    with Installation(watched.plane, objects, folder) as installation:
        started = [installation.start(part) for part in ("admission", "scheduler", "controller")]
        parts = Parts(scheduler=None, controller=None, admission=None)
        async with Components(connection, parts) as components:
            creator = Creator(components.client)
            await creator.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
            await creator.create(nodes.manifests(3))
            world = World(components, namespace, watched.plane.kubeconfig)
            await asyncio.gather(*(asyncio.to_thread(_ready, pod) for pod in started))
            try:
                # Ready is also who stands by: there is work when the one that leads has made the first queues.
                await world.all_of(
                    QUEUES, lambda queues: {"root", "default"} <= {each["metadata"]["name"] for each in queues}
                )
                yield installation, world
            except BaseException:
                for pod in installation.pods:
                    print(f"--- {pod.name}\n{pod.log[-3000:]}")
                raise


def _ready(pod: Pod) -> None:
    pod.ready()


def test_admission_may_create_pods_in_dry_runs_only(watched: Watched) -> None:
    """RBAC cannot tell the two apart; a policy of the chart does."""
    pod = {"metadata": {"name": "tried"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    path = "/api/v1/namespaces/default/pods"
    assert post(watched.plane, "admission", f"{path}?dryRun=All", pod) == 201
    refused_in_time(watched.plane, "admission", path, pod)


def test_the_controller_writes_the_learnt_run_times_and_nothing_else_in_its_namespace(watched: Watched) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    refused_in_time(watched.plane, "controller", path, {"metadata": {"name": "tried"}})
    learnt = {"metadata": {"name": "volcanopy-run-times"}, "data": {"run-times.json": "[]"}}
    assert post(watched.plane, "controller", f"{path}?dryRun=All", learnt) == 201


def post(plane: ControlPlane, account: str, path: str, item: Json) -> int:
    """Create an object as a service account of the chart; returns 201, 403, or 409."""
    context = ssl.create_default_context(cadata=plane.ca.decode())
    connection = http.client.HTTPSConnection(plane.url.removeprefix("https://"), context=context, timeout=120)
    mine = token(plane, NAMESPACE, f"volcanopy-{account}")
    headers = {"Authorization": f"Bearer {mine}", "Content-Type": "application/json"}
    connection.request("POST", path, json.dumps(item), headers)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    assert answer.status in {201, 403, 409}, said
    return answer.status


def refused_in_time(plane: ControlPlane, account: str, path: str, item: Json) -> None:
    """A policy takes a moment to come into force."""
    deadline = time.monotonic() + 60
    while post(plane, account, path, item) != 403:
        plane.request("DELETE", f"{path}/{item['metadata']['name']}?gracePeriodSeconds=0")
        assert time.monotonic() < deadline, "it was created"
        time.sleep(0.2)


JOBS, QUEUES_OF, PODGROUPS = ("batch.volcanopy.io", "batchjobs"), (SCHEDULING, "queues"), (SCHEDULING, "podgroups")
PEOPLE: dict[str, tuple[str, dict[tuple[str, str, str], bool]]] = {
    "viewer": ("view", {("list", *JOBS): True, ("create", *JOBS): False, ("list", *QUEUES_OF): True}),
    "editor": (
        "edit",
        {
            ("create", *JOBS): True,
            ("list", *JOBS): True,
            ("create", "bus.volcanopy.io", "commands"): True,
            ("create", "flow.volcanopy.io", "jobflows"): True,
            ("update", "batch.volcanopy.io", "batchjobs/status"): False,
            ("patch", SCHEDULING, "podgroups/status"): False,
            ("create", *QUEUES_OF): False,
        },
    ),
    "owner": (
        "admin",
        {("delete", *JOBS): True, ("deletecollection", *PODGROUPS): True, ("delete", *QUEUES_OF): False},
    ),
    "head": (
        "volcanopy-queue-admin",
        {("create", *QUEUES_OF): True, ("delete", *QUEUES_OF): True, ("create", *JOBS): False},
    ),
    "stranger": ("", {("list", *JOBS): False, ("get", *QUEUES_OF): True, ("update", *QUEUES_OF): False}),
}


@pytest.mark.parametrize("who", PEOPLE)
def test_users_have_the_permissions_of_their_role_in_a_namespace(watched: Watched, who: str) -> None:
    role, expected = PEOPLE[who]
    api, namespace = "rbac.authorization.k8s.io", "default"
    if role:
        kind, path = (
            ("ClusterRoleBinding", "clusterrolebindings")
            if who == "head"
            else ("RoleBinding", f"namespaces/{namespace}/rolebindings")
        )
        body = {
            "kind": kind,
            "metadata": {"name": who},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": api, "kind": "User", "name": who}],
        }
        watched.plane.request("POST", f"/apis/{api}/v1/{path}", body)

    def allowed(verb: str, group: str, resource: str) -> bool:
        name, _, subresource = resource.partition("/")
        about = {"namespace": namespace, "verb": verb, "group": group, "resource": name, "subresource": subresource}
        spec = {"user": who, "groups": ["system:authenticated"], "resourceAttributes": about}
        answer = watched.plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        return bool(answer["status"]["allowed"])

    # Roles are put together by a controller, a moment after they were made.
    deadline = time.monotonic() + 60
    while (result := {what: allowed(*what) for what in expected}) != expected:
        assert time.monotonic() < deadline, result
        time.sleep(0.1)
