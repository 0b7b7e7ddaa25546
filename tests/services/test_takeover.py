"""Volcanopy takes over the running jobs of a cluster in which Volcano was, without a restart of any pod, and leaves them as Volcano finds them again.

The objects are as Volcano's webhook, controllers and scheduler write them (``pkg/webhooks/admission/jobs/mutate``,
``pkg/controllers/job/job_controller_util.go`` and ``job_controller_actions.go`` of its source). ``tests/volcano_e2e/going_back.py`` runs
Volcano's own controllers on what volcanopy leaves.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from embedded_apiserver.server import ApiServer
from tests.controlplane.fixtures import need_programs
from tests.controlplane.plane import ControlPlane
from tests.nightly import nightly
from volcanopy.api.bindings import BINDINGS, VOLCANO
from volcanopy.api.volcano_crds import crds_of
from volcanopy.client.manifests import Creator
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import PODS, bound
from volcanopy_local.cluster import Components, Parts, connection_to
from volcanopy_local.simulated import nodes

JOBS, GROUPS = bound(raw_kinds.JOBS, VOLCANO), bound(raw_kinds.POD_GROUPS, VOLCANO)
QUEUES, COMMANDS = bound(raw_kinds.QUEUES, VOLCANO), bound(raw_kinds.COMMANDS, VOLCANO)
SERVICES: Kind[Json] = Kind("", "v1", "Service", "services", True, dict)
PODS_OF_JOB = 2
SINCE = "2026-01-01T00:00:00Z"
FOR_EVER = {"sim.volcanopy.io/duration": "forever"}
OLD_QUEUE = {"weight": 1, "reclaimable": True}


def job(name: str) -> Json:
    """A job with the defaults that Volcano's webhook writes."""
    containers = [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}]
    template = {"metadata": {"annotations": FOR_EVER}, "spec": {"restartPolicy": "OnFailure", "containers": containers}}
    task = {"name": "worker", "replicas": PODS_OF_JOB, "minAvailable": PODS_OF_JOB, "maxRetry": 3, "template": template}
    spec = {"minAvailable": PODS_OF_JOB, "maxRetry": 3, "queue": "default", "schedulerName": "volcano", "tasks": [task]}
    spec |= {"plugins": {"svc": [], "env": []}, "policies": [{"event": "PodEvicted", "action": "RestartJob"}]}
    return {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": {"name": name}, "spec": spec}


def owned_by(made: Json) -> list[Json]:
    uid, name = made["metadata"]["uid"], made["metadata"]["name"]
    reference = {"apiVersion": JOBS.api_version, "kind": "Job", "name": name, "uid": uid}
    return [reference | {"controller": True, "blockOwnerDeletion": True}]


def pod_group(made: Json) -> Json:
    name = f"{made['metadata']['name']}-{made['metadata']['uid']}"
    spec = {"minMember": PODS_OF_JOB, "minTaskMember": {"worker": PODS_OF_JOB}, "queue": "default"}
    condition = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}
    condition |= {"transitionID": "1", "lastTransitionTime": SINCE}
    return {
        "apiVersion": GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "ownerReferences": owned_by(made)},
        "spec": spec | {"minResources": {"cpu": "200m", "requests.cpu": "200m", "count/pods": str(PODS_OF_JOB)}},
        "status": {"phase": "Running", "running": PODS_OF_JOB, "conditions": [condition]},
    }


def pod(made: Json, index: int, node: str) -> Json:
    name = made["metadata"]["name"]
    shared = {"volcano.sh/job-name": name, "volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(index)}
    shared |= {"volcano.sh/queue-name": "default"}
    annotations = shared | {"scheduling.k8s.io/group-name": f"{name}-{made['metadata']['uid']}"}
    annotations |= {"volcano.sh/job-version": "0", "volcano.sh/job-retry-count": "0"}
    annotations |= {"volcano.sh/template-uid": f"{name}-worker", **FOR_EVER}
    spec = made["spec"]["tasks"][0]["template"]["spec"] | {"schedulerName": "volcano", "nodeName": node}
    spec |= {"hostname": f"{name}-worker-{index}", "subdomain": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-worker-{index}",
            "labels": shared | {"volcano.sh/job-namespace": "default"},
            "annotations": annotations,
            "ownerReferences": owned_by(made),
        },
        "spec": spec,
    }


async def left_by_volcano(client: Client, count: int) -> None:
    """Create the objects of so many running jobs as Volcano leaves them when it is stopped."""
    await Creator(client).create(nodes.manifests(2))
    for name in ("root", "default"):
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}
        await client.create(QUEUES, None, queue | {"spec": OLD_QUEUE})
        await client.patch_status(QUEUES, None, name, {"status": {"state": "Open"}})
    for number in range(count):
        made = await client.create(JOBS, "default", job(f"train-{number}"))
        name = made["metadata"]["name"]
        await client.create(GROUPS, "default", pod_group(made))
        service = {"metadata": {"name": name, "ownerReferences": owned_by(made)}}
        service |= {"spec": {"clusterIP": "None", "selector": {"volcano.sh/job-name": name}}}
        await client.create(SERVICES, "default", {"apiVersion": "v1", "kind": "Service"} | service)
        for index in range(PODS_OF_JOB):
            created = await client.create(PODS, "default", pod(made, index, f"node-{1 + number % 2}"))
            ready = [{"type": "Ready", "status": "True", "lastTransitionTime": SINCE}]
            running = [{"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": SINCE}}}]
            status = {"phase": "Running", "startTime": SINCE, "conditions": ready, "containerStatuses": running}
            await client.patch_status(PODS, "default", created["metadata"]["name"], {"status": status})
        observed: Json = {"state": {"phase": "Running", "lastTransitionTime": SINCE}, "minAvailable": PODS_OF_JOB}
        observed |= {"running": PODS_OF_JOB, "taskStatusCount": {"worker": {"phase": {"Running": PODS_OF_JOB}}}}
        observed |= {"conditions": [{"status": phase, "lastTransitionTime": SINCE} for phase in ("Pending", "Running")]}
        observed |= {"controlledResources": {"plugin-env": "env", "plugin-svc": "svc"}}
        await client.patch_status(JOBS, "default", name, {"status": observed})


async def until(
    client: Client, kind: Kind[Any], name: str, holds: Callable[[Json], Any], place: str | None = "default"
) -> Json:
    """Wait for an object to be as expected."""
    async with asyncio.timeout(120):
        while True:
            listing = await client.list(kind, place)
            item = next((item for item in listing.items if item["metadata"]["name"] == name), None)
            if item is not None and holds(item):
                return dict(item)
            async with client.watch(kind, place, resource_version=listing.resource_version) as stream:
                await stream.readline()


def in_phase(phase: str) -> Callable[[Json], bool]:
    return lambda item: ((item.get("status") or {}).get("state") or {}).get("phase") == phase


@asynccontextmanager
async def connection_to_embedded() -> AsyncIterator[Connection]:
    server = await ApiServer.start(port=0)
    try:
        async with Client(connection_to(server)) as client:
            await Creator(client).install_definitions("both")
        yield connection_to(server)
    finally:
        await server.stop()


@asynccontextmanager
async def connection_to_real() -> AsyncIterator[Connection]:
    """A plane of its own: with Volcano's kinds, the names of kinds mean others than in that of the other tests."""
    need_programs()
    plane = await asyncio.to_thread(lambda: ControlPlane.start(crds=crds_of(BINDINGS)))
    try:
        yield load_connection(plane.kubeconfig)
    finally:
        await asyncio.to_thread(plane.stop)


async def identities(client: Client) -> dict[str, Json]:
    """What Volcano's controllers and the kubelet know a pod by, and what would change if it were started again."""
    pods = (await client.list(PODS, "default")).items
    known = {}
    for item in pods:
        meta, status = item["metadata"], item["status"]
        restarts = sum(each["restartCount"] for each in status.get("containerStatuses") or ())
        known[meta["name"]] = {
            "uid": meta["uid"],
            "labels": meta["labels"],
            "annotations": meta["annotations"],
            "owners": meta["ownerReferences"],
            "node": item["spec"]["nodeName"],
            "started": status["startTime"],
            "state": (status["phase"], restarts),
        }
    return known


@pytest.mark.parametrize(
    ("server", "count"),
    [
        pytest.param(connection_to_embedded, 50, marks=pytest.mark.slow("creates fifty jobs, and runs all services")),
        pytest.param(
            connection_to_real,
            10,
            marks=[pytest.mark.real, nightly, pytest.mark.slow("starts a real API server, and runs all services")],
        ),
    ],
    ids=["embedded", "real"],
)
async def test_running_jobs_are_taken_over_and_left_without_a_restart_of_a_pod(
    server: Callable[[], AbstractAsyncContextManager[Connection]], count: int
) -> None:
    async with server() as connection, Client(connection) as client:
        await left_by_volcano(client, count)
        before = await identities(client)
        assert len(before) == count * PODS_OF_JOB
        specs = {item["metadata"]["name"]: item["spec"] for item in (await client.list(JOBS, "default")).items}
        async with Components(connection, Parts(api="both")):
            # The queue counts all jobs only when the scheduler has seen them; a new job runs beside them.
            await until(client, QUEUES, "default", lambda item: item["status"].get("running") == count, None)
            await client.create(JOBS, "default", job("new"))
            await until(client, JOBS, "new", in_phase("Running"))
            await end_two(client)
            jobs = {item["metadata"]["name"]: item for item in (await client.list(JOBS, "default")).items}
        after = await identities(client)
        ended = {name for name in before if name.startswith(("train-3-", "train-4-"))}
        assert {name: after.get(name) for name in before.keys() - ended} == {
            name: known for name, known in before.items() if name not in ended
        }
        assert after.keys() - before.keys() == {"new-worker-0", "new-worker-1"}
        running = {f"train-{number}" for number in range(count)} - {"train-3", "train-4"}
        for name in running:
            status = jobs[name]["status"]
            assert (status["state"]["phase"], status["running"], status.get("retryCount", 0)) == ("Running", 2, 0), name
            assert status["state"]["lastTransitionTime"] == SINCE, "the phase began under Volcano"
            assert status.get("version", 0) == 0
            assert jobs[name]["spec"] == specs[name]
            assert not jobs[name]["metadata"].get("finalizers"), "Volcano could not delete the job"
        groups = {item["metadata"]["name"] for item in (await client.list(GROUPS, "default")).items}
        assert {f"{name}-{jobs[name]['metadata']['uid']}" for name in running} <= groups


async def end_two(client: Client) -> None:
    """Complete a job that Volcano had started by its pods, and abort another one by a Command."""
    for index in range(PODS_OF_JOB):
        await client.patch_status(PODS, "default", f"train-3-worker-{index}", {"status": {"phase": "Succeeded"}})
    await until(client, JOBS, "train-3", in_phase("Completed"))
    aborted = await client.get(JOBS, "default", "train-4")
    [target] = owned_by(aborted)
    command: Json = {"apiVersion": COMMANDS.api_version, "kind": "Command", "action": "AbortJob"}
    command |= {"metadata": {"name": "abort", "ownerReferences": [target]}, "target": target}
    await client.create(COMMANDS, "default", command)
    await until(client, JOBS, "train-4", in_phase("Aborted"))
