"""Who sees and may do what on the page of a shared cluster: users with the chart's roles on a real API server.

Each sends a token as a proxy that signs users in does. The log comes from a kubelet of the test.
"""

import json
import ssl
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from hack.certificates import Authority
from tests.charts.rendering import one, render
from tests.cli.ui.chromium import browser, needs_browser
from tests.cli.ui.test_sign_in import JOBS, RBAC, asked, page
from tests.controlplane.plane import ControlPlane, CreateError
from volcanopy.api import names
from volcanopy.cli.ui.server import TOKEN_HEADER
from volcanopy.kube.client.kubeconfig import load_connection

LOG = "step 1 of 3"
ROLES: dict[str, tuple[str, ...]] = {
    "ana": ("edit", "volcanopy-view", "volcanopy-edit"),
    "ben": ("view", "volcanopy-view"),
    "zoe": (),
}
"""What the roles ``edit`` and ``view`` of Kubernetes are with those that the chart adds to them, bound in one namespace."""
PROJECT = {"jobs of the project", "a job", "its log", "queues"}
MAY = {
    "ana": PROJECT | {"submit", "suspend", "delete"},
    "ben": PROJECT,
    "zoe": {"queues"},
    "ops": PROJECT | {"submit", "suspend", "delete", "jobs of others", "nodes", "what if", "snapshot"},
}
"""``ops`` is a platform administrator, bound to ``cluster-admin``; everybody may read queues, as with the chart's values."""


@dataclass(frozen=True)
class Shared:
    """A real API server with two projects: namespaces with a job that runs, and the tokens of users of the first."""

    plane: ControlPlane
    project: str
    other: str
    tokens: dict[str, str]

    def headers(self, user: str, **headers: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[user]}"} | headers

    def create_job(self, namespace: str, name: str) -> dict[str, Any]:
        template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
        job = {
            "apiVersion": "batch.volcanopy.io/v1alpha1",
            "kind": "BatchJob",
            "metadata": {"name": name},
            "spec": {"tasks": [{"name": "main", "template": template}]},
        }
        path = f"{JOBS}/namespaces/{namespace}/batchjobs"
        created: dict[str, Any] = self.plane.request("POST", path, job)
        state = {"status": {"state": {"phase": "Running"}, "running": 1}}
        self.plane.request("PATCH", f"{path}/{name}/status", state, "application/merge-patch+json")
        return created

    def create_pod(self, namespace: str, job: dict[str, Any], node: str) -> None:
        metadata = job["metadata"]
        owner = {key: job[key] for key in ("apiVersion", "kind")} | {key: metadata[key] for key in ("name", "uid")}
        pod = {
            "metadata": {
                "name": f"{metadata['name']}-main-0",
                "labels": {names.JOB_NAME: metadata["name"]},
                "ownerReferences": [owner | {"controller": True}],
            },
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]},
        }
        pods = f"/api/v1/namespaces/{namespace}/pods"
        self.plane.request("POST", pods, pod)
        status = {"containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": True, "restartCount": 0}]}
        status["containerStatuses"][0]["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        path = f"{pods}/{metadata['name']}-main-0/status"
        self.plane.request("PATCH", path, {"status": status | {"phase": "Running"}}, "application/merge-patch+json")


def bind(plane: ControlPlane, namespace: str, name: str, role: str, subject: dict[str, str]) -> str:
    """Bind a ClusterRole, in one namespace if given; return the path of the binding."""
    where = f"{RBAC}/namespaces/{namespace}/rolebindings" if namespace else f"{RBAC}/clusterrolebindings"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    plane.request("POST", where, {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})
    return f"{where}/{name}"


def chart_role(plane: ControlPlane, role: str, prefix: str) -> str:
    """Create a role as the chart does, under a name of the test; return its path."""
    rules = one(render(), "ClusterRole", role)["rules"]
    plane.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": f"{prefix}-{role}"}, "rules": rules})
    return f"{RBAC}/clusterroles/{prefix}-{role}"


@asynccontextmanager
async def kubelet(plane: ControlPlane, name: str, folder: Path) -> AsyncIterator[None]:
    """A node whose kubelet answers with the same log for each container."""

    async def log(_: web.Request) -> web.Response:
        return web.Response(text=f"{LOG}\n")

    pair = Authority().server()
    (folder / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", log)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
    }
    plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    try:
        yield
    finally:
        plane.request("DELETE", f"/api/v1/nodes/{name}")
        await runner.cleanup()


@pytest.fixture(scope="module")
def shared(real_control_plane: ControlPlane) -> Iterator[Shared]:
    """Two projects, and four users with their roles."""
    plane, prefix = real_control_plane, f"shared-{uuid.uuid4().hex[:8]}"
    result = Shared(plane, f"{prefix}-robotics", f"{prefix}-language", {})
    for namespace in (result.project, result.other):
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        result.create_pod(namespace, result.create_job(namespace, "train"), prefix)
    roles = ("volcanopy-view", "volcanopy-edit", "volcanopy-queue-view")
    paths = [chart_role(plane, role, prefix) for role in roles]
    queues = "/apis/scheduling.volcanopy.io/v1beta1/queues"
    queue = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "Queue", "metadata": {"name": result.project}}
    plane.request("POST", queues, queue)
    paths.append(f"{queues}/{result.project}")
    everybody = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    paths.append(bind(plane, "", f"{prefix}-queues", f"{prefix}-volcanopy-queue-view", everybody))
    accounts = f"/api/v1/namespaces/{result.project}/serviceaccounts"
    for user in MAY:
        plane.request("POST", accounts, {"metadata": {"name": user}})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        result.tokens[user] = plane.request("POST", f"{accounts}/{user}/token", request)["status"]["token"]
        account = {"kind": "ServiceAccount", "name": user, "namespace": result.project}
        for role in ROLES.get(user, ()):
            name = f"{prefix}-{role}" if role in roles else role
            bind(plane, result.project, f"{user}-{role}", name, account)
        if user == "ops":
            paths.append(bind(plane, "", f"{prefix}-ops", "cluster-admin", account))
    yield result
    for path in [*paths, *(f"/api/v1/namespaces/{name}" for name in (result.project, result.other))]:
        plane.request("DELETE", path)


@pytest.fixture
async def served(shared: Shared, tmp_path: Path) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """The page with the credentials of an administrator, and a node that has the pods."""
    node = shared.project.removesuffix("-robotics")
    async with (
        kubelet(shared.plane, node, tmp_path),
        page(load_connection(shared.plane.kubeconfig)) as (url, session),
    ):
        yield url, session


def may_submit(shared: Shared, user: str) -> bool:
    """Whether a user may create a job, which is done with a kubeconfig and not on the page."""
    spec = {"namespace": shared.project, "verb": "create", "group": "batch.volcanopy.io", "resource": "batchjobs"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{shared.project}:{user}", "resourceAttributes": spec},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(shared.plane.request("POST", path, review)["status"]["allowed"])


def documents(shared: Shared) -> Iterable[tuple[str, str, str]]:
    """Return what a user reads: its name, the path, and a text of it."""
    job = f"jobs/{shared.project}/train"
    return (
        ("jobs of the project", "jobs", '"train"'),
        ("jobs of others", "jobs", shared.other),
        ("a job", job, "train-main-0"),
        ("its log", f"{job}/logs/train-main-0?container=main", LOG),
        ("queues", "queues", shared.project),
        ("nodes", "nodes", shared.project.removesuffix("-robotics")),
        ("snapshot", "snapshot", "SchedulingCycle"),
    )


@pytest.mark.parametrize("user", MAY)
async def test_a_user_sees_and_does_what_their_roles_allow(
    shared: Shared, served: tuple[str, aiohttp.ClientSession], user: str
) -> None:
    url, session = served
    headers = shared.headers(user)
    seen: set[str] = set()
    for name, path, text in documents(shared):
        status, answer = await asked(session, f"{url}api/{path}", headers)
        seen |= {name} if status == 200 and text in answer else set()
        assert status in {200, 403}, answer
    document = json.loads((await asked(session, f"{url}api/session?namespace={shared.project}", headers))[1])
    assert document["user"] == f"system:serviceaccount:{shared.project}:{user}"
    assert document["readsCluster"] is ("snapshot" in seen), "else the page offers none"
    headers[TOKEN_HEADER] = document["token"]
    async with session.post(f"{url}api/whatif", json={}, headers=headers) as response:
        seen |= {"what if"} if response.status == 200 else set()
    shared.create_job(shared.project, f"of-{user}")
    for verb in ("suspend", "delete"):
        path = f"{url}api/jobs/{shared.project}/of-{user}/{verb}"
        async with session.post(path, headers=headers) as response:
            assert (response.status == 200) is (verb in document["changes"]), await response.text()
            seen |= {verb} if response.status == 200 else set()
    seen |= {"submit"} if may_submit(shared, user) else set()
    assert seen == MAY[user]
    assert ("delete" in seen) is is_gone(shared, f"of-{user}")


def is_gone(shared: Shared, job: str) -> bool:
    try:
        shared.plane.request("GET", f"{JOBS}/namespaces/{shared.project}/batchjobs/{job}")
    except CreateError as error:
        return error.status == 404
    return False


@needs_browser
async def test_the_browser_has_buttons_and_sentences_by_role(
    shared: Shared, served: tuple[str, aiohttp.ClientSession]
) -> None:
    url, _ = served
    for user, buttons in (("ana", ["Suspend", "Delete"]), ("ben", []), ("ops", ["Suspend", "Delete"])):
        async with browser() as tab:
            await tab.set_extra_http_headers(shared.headers(user))
            await tab.goto(f"{url}#/jobs/{shared.project}/train")
            await tab.get_by_role("button", name="train-main-0").click()
            await tab.get_by_role("region", name="Log of train-main-0").filter(has_text=LOG).wait_for()
            shown = await tab.locator("main .tools button").all_inner_texts()
            assert shown == buttons, user
            told = await tab.locator("#problem").inner_text()
            assert told == ("" if user == "ops" else "you may not list nodes")
            await tab.goto(f"{url}#/whatif")
            await tab.get_by_role("button", name="Ask the scheduler").click()
            sentence = f'forbidden: user "system:serviceaccount:{shared.project}:{user}" cannot list namespaces; '
            answer = tab.get_by_role("region", name="Jobs") if user == "ops" else tab.get_by_text(sentence)
            await answer.wait_for()
    async with browser() as tab:
        await tab.set_extra_http_headers(shared.headers("zoe"))
        for path in (f"queues/{shared.project}", "jobs"):
            await tab.goto(f"{url}#/{path}")
            await tab.locator("main [data-ready]").wait_for()
            assert "not known: batchjobs cannot be read" in await tab.inner_text("main")
        assert await tab.locator("#problem").inner_text() == "you may not list podgroups, batchjobs, nodes, pods"
