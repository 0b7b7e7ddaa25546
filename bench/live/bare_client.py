"""The client of the runs: it submits jobs, or creates and binds pods itself, as few requests as that takes."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import aiohttp

from bench.live.same_writes import GANG_READY, JobWrites, writes
from tests.controlplane.plane import ControlPlane
from volcanopy.api.bindings import Binding

T = TypeVar("T")
ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}
NODES = 1000
NAMESPACE = "bench"
CONTAINER = {
    "name": "main",
    "image": "busybox",
    "command": ["sleep", "30"],
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
}
SPEC = {"restartPolicy": "Never", "containers": [CONTAINER]}
CREATORS, BINDERS = 48, 24
"""Requests in flight of the bare client: more are not faster."""
PODS_OF_A_JOB = 4
"""Pods of a job that are created at the same time where their jobs are written too."""
SECONDS = 600.0
"""The longest time of a run."""


@asynccontextmanager
async def session(plane: ControlPlane, binding: Binding, token: str = "") -> AsyncIterator["Client"]:
    """Connect a client, as the administrator or with another token."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=plane.ca.decode()), limit=0)
    headers = {"Authorization": f"Bearer {token or plane.token}"}
    async with aiohttp.ClientSession(plane.url, connector=connector, headers=headers) as connected:
        yield Client(connected, binding)


class Client:
    """The bare client: it keeps nothing but the names of the pods that it has seen."""

    def __init__(self, session: aiohttp.ClientSession, binding: Binding) -> None:
        self._session, self._binding = session, binding

    async def send(self, method: str, path: str, body: Any = None) -> bytes:
        merge = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
        async with self._session.request(method, path, json=body, headers=merge) as response:
            content = await response.read()
            if response.status >= 300:
                raise RuntimeError(f"{method} {path}: {response.status} {content[:300]!r}")
            return content

    async def allocated(self) -> float:
        """Return the bytes that the API server has allocated since its start."""
        lines = (await self.send("GET", "/metrics")).splitlines()
        name = b"go_memstats_alloc_bytes_total "
        return float(next(line for line in lines if line.startswith(name)).removeprefix(name))

    async def prepare(self, nodes: int) -> None:
        for name in (NAMESPACE, "warm", "volcanopy-system"):
            await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

        async def node(number: int) -> None:
            name = f"node-{number:05d}"
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
            ready = [{"type": "Ready", "status": "True"}]
            status = {"capacity": ROOM, "allocatable": ROOM, "conditions": ready}
            await self.send("POST", "/api/v1/nodes", {"metadata": metadata, "status": status})

        await _many(range(nodes), node, CREATORS)

    async def warm_up(self, check: Callable[[], None]) -> None:
        """Submit a job elsewhere, and wait until its pods are bound: webhooks are there and all caches are filled.

        ``check`` raises an error if a service has ended.
        """
        async with asyncio.timeout(SECONDS):
            hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
            while not json.loads(await self.send("GET", hooks))["items"]:
                check()
                await asyncio.sleep(0.1)
            queues = f"/apis/scheduling.{self._binding.domain}/v1beta1/queues"
            while len(json.loads(await self.send("GET", queues))["items"]) < 2:
                check()
                await asyncio.sleep(0.1)
            await asyncio.sleep(2)  # admission sees them, and the API server the webhooks
            await self.submit(1, 2, "warm")
            while True:
                pods = json.loads(await self.send("GET", "/api/v1/namespaces/warm/pods"))["items"]
                if len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods):
                    return
                check()
                await asyncio.sleep(0.1)

    async def submit(
        self, jobs: int, pods: int, namespace: str = NAMESPACE, prefix: str = "job", *, gang: bool = True
    ) -> None:
        path = self._jobs(namespace)

        async def job(number: int) -> None:
            await self.send("POST", path, self._job(f"{prefix}-{number}", pods, gang=gang))

        await _many(range(jobs), job, CREATORS)

    def _jobs(self, namespace: str) -> str:
        version = f"batch.{self._binding.domain}/v1alpha1"
        return f"/apis/{version}/namespaces/{namespace}/{self._binding.plural('batchjobs')}"

    def _job(self, name: str, pods: int, *, gang: bool) -> dict[str, Any]:
        task = {"name": "task", "replicas": pods, "template": {"spec": SPEC}}
        return {
            "apiVersion": f"batch.{self._binding.domain}/v1alpha1",
            "kind": self._binding.kind("BatchJob"),
            "metadata": {"name": name},
            "spec": {"minAvailable": pods if gang else 1, "queue": "default", "tasks": [task]},
        }

    def writes_of(self, number: int, pods: int) -> JobWrites:
        """Return what volcanopy writes for a job until its pods are bound."""
        job = self._job(f"job-{number}", pods, gang=True)
        return writes(
            job | {"metadata": job["metadata"] | {"namespace": NAMESPACE}}, f"{number:08x}-0000-4000-8000-{number:012x}"
        )

    async def write_as_ours(self, jobs: Sequence[JobWrites]) -> None:
        """Write all of these jobs: pods once a job is admitted, binds as the watch shows the pods, statuses after the last of a job."""
        left = {each.name: len(each.pods) for each in jobs}
        created: dict[str, dict[str, Any]] = {}
        by_name, finished = {each.name: each for each in jobs}, asyncio.TaskGroup()
        groups = f"/apis/scheduling.{self._binding.domain}/v1beta1/namespaces/{NAMESPACE}/podgroups"

        async def status(of: JobWrites, patch: dict[str, Any]) -> None:
            await self.send("PATCH", f"{groups}/{of.group['metadata']['name']}/status", {"status": patch})

        async def create(of: JobWrites) -> None:
            answer = json.loads(await self.send("POST", self._jobs(NAMESPACE), of.job))
            metadata = {key: answer["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
            created[of.name] = {"apiVersion": answer["apiVersion"], "kind": answer["kind"], "metadata": metadata}
            await self.send("POST", groups, of.group)
            await status(of, {"phase": "Inqueue"})
            await _many(of.pods, partial(self.send, "POST", f"/api/v1/namespaces/{NAMESPACE}/pods"), PODS_OF_A_JOB)

        async def finish(of: JobWrites) -> None:
            await status(of, {"phase": "Running", "conditions": [GANG_READY]})
            body = {**created[of.name], "status": of.status}
            await self.send("PUT", f"{self._jobs(NAMESPACE)}/{of.name}/status", body)
            await self.send("POST", f"/api/v1/namespaces/{NAMESPACE}/events", of.event)

        def bound(pod: str) -> None:
            job = pod.partition("-task-")[0]
            left[job] -= 1
            if not left[job]:
                finished.create_task(finish(by_name[job]))

        async with finished:
            watching = asyncio.create_task(self._bind_seen(sum(left.values()), bound))
            await _many(jobs, create, CREATORS // PODS_OF_A_JOB)
            await watching

    async def create_and_bind(self, jobs: int, pods: int) -> None:
        """Create all pods; bind each as soon as the watch shows it."""
        watching = asyncio.create_task(self._bind_seen(jobs * pods))
        await self._create(jobs * pods)
        await watching

    async def create_then_bind(self, jobs: int, pods: int) -> None:
        """Create all pods, then bind all: what a gang of all of them can do at best."""
        await self._create(jobs * pods)
        await _many(range(jobs * pods), lambda number: self._bind(f"pod-{number}", number), BINDERS)

    async def _create(self, count: int) -> None:
        async def pod(number: int) -> None:
            metadata = {"name": f"pod-{number}", "labels": {"app": "bench"}}
            body = {"metadata": metadata, "spec": {"schedulerName": "none", **SPEC}}
            await self.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)

        await _many(range(count), pod, CREATORS)

    async def _bind(self, pod: str, number: int) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % NODES:05d}"}
        body = {"metadata": {"name": pod}, "target": target}
        await self.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding", body)

    async def _bind_seen(self, count: int, bound: Callable[[str], None] = lambda _: None) -> None:
        seen: set[str] = set()
        waiting: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

        async def bind() -> None:
            while True:
                pod, number = await waiting.get()
                await self._bind(pod, number)
                bound(pod)
                waiting.task_done()

        binding = [asyncio.create_task(bind()) for _ in range(BINDERS)]
        version = "0"
        while len(seen) < count:  # a watch may end: go on where it was
            path = f"/api/v1/namespaces/{NAMESPACE}/pods?watch=1&resourceVersion={version}"
            timeout = aiohttp.ClientTimeout(total=None)
            async with self._session.get(path, timeout=timeout, read_bufsize=1 << 22) as response:
                async for line in response.content:
                    if not line.startswith(b'{"type":"ADDED"'):
                        continue
                    metadata = json.loads(line)["object"]["metadata"]
                    version, name = metadata["resourceVersion"], metadata["name"]
                    if name not in seen:
                        waiting.put_nowait((name, len(seen)))
                        seen.add(name)
                    if len(seen) == count:
                        break
        await waiting.join()
        for task in binding:
            task.cancel()


async def _many(items: Iterable[T], work: Callable[[T], Awaitable[object]], width: int) -> None:
    """Do the work for all items, so many at a time."""
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(width)))
