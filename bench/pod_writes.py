"""What the benchmark writes by itself in a large cluster: copies of a job with its pods, and statuses as kubelets write them."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from bench.live.bare_client import NAMESPACE, Client

Json = dict[str, Any]
WIDTH = 24
"""Writes in flight."""
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SPREAD = 10
"""Seconds in which the pods of a job start; jobs start a minute apart."""
ON_A_NODE = 30
"""Pods of one cpu on a node of 32."""


async def copy_job(client: Client, jobs: int, nodes: int) -> None:
    """Write copies of job-0, its PodGroup and its pods, already bound, until there are so many jobs; controller and scheduler rest.

    ``client`` is of the controller, since admission rejects pods of a job by other users.
    """
    job = json.loads(await client.send("GET", f"{JOBS}/job-0"))
    (group,) = json.loads(await client.send("GET", GROUPS))["items"]
    pods = json.loads(await client.send("GET", PODS))["items"]
    places = places_left(nodes, Counter(pod["spec"]["nodeName"] for pod in pods))

    async def copy(number: int) -> None:
        name, status = f"job-{number}", {"status": job["status"]}
        created = json.loads(await client.send("POST", JOBS, fresh(job, name)))
        names = {job["metadata"]["uid"]: created["metadata"]["uid"], "job-0": name}
        # Volcano's PodGroups have no subresource for their status.
        await client.send("POST", GROUPS, renamed(fresh(group) | {"status": group["status"]}, names))
        for pod in pods:
            copied = renamed(fresh(pod), names)
            copied["spec"]["nodeName"] = next(places)
            await client.send("POST", PODS, copied)
        await client.send("PATCH", f"{JOBS}/{name}/status", renamed(status, names))

    await _each(range(1, jobs), copy)


def places_left(nodes: int, used: Counter[str]) -> Iterator[str]:
    """Yield the name of a node for each pod that it may still get."""
    for number in range(nodes):
        name = f"node-{number:05d}"
        for _ in range(ON_A_NODE - used[name]):
            yield name


def fresh(given: Json, name: str = "") -> Json:
    """Return an object as it can be created, without status and what the API server sets, optionally with another name."""
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    metadata = {key: given["metadata"][key] for key in kept if key in given["metadata"]}
    rest = {key: value for key, value in given.items() if key not in {"metadata", "status"}}
    return rest | {"metadata": metadata | ({"name": name} if name else {})}


def renamed(given: Json, names: dict[str, str]) -> Json:
    """Return a copy with other names and uids in all texts."""
    text = json.dumps(given)
    for old, new in names.items():
        text = text.replace(old, new)
    result: Json = json.loads(text)
    return result


async def run_pods(client: Client, jobs: int, pods: int) -> None:
    """Write the status of a running pod to each pod of the jobs."""

    async def kubelet(number: int) -> None:
        job, index = divmod(number, pods)
        await client.send(
            "PATCH", f"{PODS}/job-{job}-task-{index}/status", {"status": running(number, job * 60 + index % SPREAD)}
        )

    await _each(range(jobs * pods), kubelet)


def running(number: int, start: int) -> Json:
    """Return the status of a pod that runs since a second; addresses and the id of the container depend on its number."""
    second = f"2026-01-01T{start // 3600 % 24:02d}:{start // 60 % 60:02d}:{start % 60:02d}Z"
    pod, host = (f"10.{part}.{number // 256 % 256}.{number % 256}" for part in (number // 65536 % 256, 255))
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    container = {
        "name": "main",
        "image": "docker.io/library/busybox:latest",
        "imageID": f"docker.io/library/busybox@sha256:{0:064x}",
        "containerID": f"containerd://{number:064x}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": second}},
    }
    return {
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": pod,
        "podIPs": [{"ip": pod}],
        "startTime": second,
        "conditions": [{"type": each, "status": "True", "lastTransitionTime": second} for each in types],
        "containerStatuses": [container],
    }


async def _each(numbers: Iterable[int], write: Callable[[int], Awaitable[None]]) -> None:
    rest = iter(numbers)

    async def worker() -> None:
        for number in rest:
            await write(number)

    await asyncio.gather(*(worker() for _ in range(WIDTH)))
