"""Jobs of Volcano's API run beside those of volcanopy, with the names that programs written for Volcano know."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from volcanopy.api.bindings import VOLCANO
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import bound
from volcanopy_local.cluster import LocalCluster, Parts

JOBS, COMMANDS = bound(raw_kinds.JOBS, VOLCANO), bound(raw_kinds.COMMANDS, VOLCANO)
FLOWS, TEMPLATES = bound(raw_kinds.FLOWS, VOLCANO), bound(raw_kinds.TEMPLATES, VOLCANO)
GROUPS, QUEUES = bound(POD_GROUPS.raw, VOLCANO), bound(raw_kinds.QUEUES, VOLCANO)
pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNS_FOR_EVER = {"sim.volcanopy.io/duration": "forever"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def cluster() -> AsyncIterator[LocalCluster]:
    """One cluster for all tests of this file."""
    async with LocalCluster(2, parts=Parts(api="both")) as running:
        yield running


def job(name: str, replicas: int = 2, annotations: Json | None = None, **spec: Any) -> Json:
    """A job of Volcano's API."""
    containers = [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    template = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": containers}}
    task = {"name": "worker", "replicas": replicas, "template": template}
    body = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": name, "namespace": "default"}}
    return {**body, "spec": {"minAvailable": replicas, "tasks": [task], **spec}}


async def until(
    client: Client, kind: Kind[Json], name: str, holds: Callable[[Json], Any], place: str | None = "default"
) -> Json:
    """Wait for an object to be as expected."""
    async with asyncio.timeout(60):
        while True:
            listing = await client.list(kind, place)
            item = next((item for item in listing.items if item["metadata"]["name"] == name), None)
            if item is not None and holds(item):
                return item
            async with client.watch(kind, place, resource_version=listing.resource_version) as stream:
                await stream.readline()


def in_phase(phase: str) -> Callable[[Json], bool]:
    return lambda item: ((item.get("status") or {}).get("state") or {}).get("phase") == phase


async def test_a_job_runs_and_its_pods_have_the_names_of_volcano(cluster: LocalCluster) -> None:
    plugins: Json = {"env": [], "svc": [], "ssh": []}
    await cluster.client.create(
        JOBS, "default", job("train", annotations=RUNS_FOR_EVER, plugins=plugins, queue="default")
    )
    running = await until(cluster.client, JOBS, "train", in_phase("Running"))
    pod = await cluster.client.get(raw_kinds.PODS, "default", "train-worker-1")
    meta, spec = pod["metadata"], pod["spec"]
    uid = running["metadata"]["uid"]
    assert meta["ownerReferences"][0] | {"uid": uid} == meta["ownerReferences"][0]
    assert (meta["ownerReferences"][0]["apiVersion"], meta["ownerReferences"][0]["kind"]) == (JOBS.api_version, "Job")
    assert meta["labels"] == {
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "worker",
    }
    assert {key: value for key, value in meta["annotations"].items() if "sim." not in key} == {
        "scheduling.k8s.io/group-name": f"train-{uid}",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/job-version": "0",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/template-uid": "train-worker",
    }
    assert (spec["schedulerName"], spec["hostname"], spec["subdomain"]) == ("volcano", "train-worker-1", "train")
    environment = {entry["name"]: entry.get("value") for entry in spec["containers"][0]["env"]}
    assert {"VK_TASK_INDEX", "VC_TASK_INDEX", "VC_WORKER_HOSTS", "VC_WORKER_NUM"} <= environment.keys()
    assert environment["VC_TASK_INDEX"] == "1"
    assert {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]} >= {"/etc/volcano", "/root/.ssh"}
    service = await cluster.client.get(raw_kinds.SERVICES, "default", "train")
    assert service["spec"]["selector"] == {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}
    group = await until(
        cluster.client, GROUPS, f"train-{uid}", lambda item: item.get("status", {}).get("phase") == "Running"
    )
    assert group["spec"]["minMember"] == 2


async def test_the_status_has_the_form_of_volcano(cluster: LocalCluster) -> None:
    await cluster.client.create(JOBS, "default", job("short"))
    ended = await until(cluster.client, JOBS, "short", in_phase("Completed"))
    status = ended["status"]
    assert (status["succeeded"], status["minAvailable"]) == (2, 2)
    assert status["taskStatusCount"] == {"worker": {"phase": {"Succeeded": 2}}}
    phases = [condition["status"] for condition in status["conditions"]]
    assert phases == [phase for phase in ("Pending", "Running", "Completed") if phase in phases]
    assert phases[-1] == "Completed"
    assert all(set(condition) == {"status", "lastTransitionTime"} for condition in status["conditions"])


async def test_a_command_aborts_and_resumes_a_job(cluster: LocalCluster) -> None:
    made = await cluster.client.create(JOBS, "default", job("long", 1, RUNS_FOR_EVER))
    await until(cluster.client, JOBS, "long", in_phase("Running"))
    reference = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "long", "uid": made["metadata"]["uid"]}
    for action, phase in (("AbortJob", "Aborted"), ("ResumeJob", "Running")):
        body = {"apiVersion": COMMANDS.api_version, "kind": "Command", "metadata": {"generateName": "long-"}}
        await cluster.client.create(COMMANDS, "default", {**body, "action": action, "target": reference})
        await until(cluster.client, JOBS, "long", in_phase(phase))
    with pytest.raises(NotFound):
        await cluster.client.get(raw_kinds.JOBS, "default", "long")


async def test_a_flow_creates_jobs_of_its_api(cluster: LocalCluster) -> None:
    template = {"apiVersion": TEMPLATES.api_version, "kind": "JobTemplate", "metadata": {"name": "step"}}
    await cluster.client.create(TEMPLATES, "default", {**template, "spec": job("x", 1)["spec"]})
    flow = {"apiVersion": FLOWS.api_version, "kind": "JobFlow", "metadata": {"name": "flow"}}
    steps = [{"name": "step"}]
    await cluster.client.create(FLOWS, "default", {**flow, "spec": {"flows": steps, "jobRetainPolicy": "retain"}})
    await until(cluster.client, FLOWS, "flow", in_phase("Succeed"))
    made = await cluster.client.get(JOBS, "default", "flow-step")
    assert made["metadata"]["annotations"]["volcano.sh/createdByJobFlow"] == "default.flow"


async def test_a_pod_without_a_job_gets_a_pod_group_of_volcanos_api(cluster: LocalCluster) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    annotations = RUNS_FOR_EVER | {"volcano.sh/preemptable": "true"}
    pod = {"metadata": {"name": "loose", "annotations": annotations}}
    spec = {"schedulerName": "volcano", "containers": [container]}
    made = await cluster.client.create(raw_kinds.PODS, "default", {**pod, "spec": spec})
    name = f"podgroup-{made['metadata']['uid']}"
    group = await until(
        cluster.client, GROUPS, name, lambda group: (group.get("status") or {}).get("phase") == "Running"
    )
    keys = {key for key in group["metadata"]["annotations"] if "preemptable" in key}
    assert keys == {"volcano.sh/preemptable"}


async def test_a_queue_of_volcano_counts_its_jobs_and_closes(cluster: LocalCluster) -> None:
    body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": "team"}, "spec": {"weight": 1}}
    queue = await cluster.client.create(QUEUES, None, body)
    await until(cluster.client, QUEUES, "team", lambda item: (item.get("status") or {}).get("state") == "Open", None)
    await cluster.client.create(JOBS, "default", job("queued", 1, RUNS_FOR_EVER, queue="team"))
    await until(cluster.client, QUEUES, "team", lambda item: item["status"].get("running") == 1, None)
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "team", "uid": queue["metadata"]["uid"]}
    command = {"apiVersion": COMMANDS.api_version, "kind": "Command", "metadata": {"generateName": "team-"}}
    await cluster.client.create(COMMANDS, "default", {**command, "action": "CloseQueue", "target": target})
    await until(cluster.client, QUEUES, "team", lambda item: item["status"].get("state") == "Closing", None)
    await cluster.client.delete(JOBS, "default", "queued")
    await until(cluster.client, QUEUES, "team", lambda item: item["status"].get("state") == "Closed", None)
