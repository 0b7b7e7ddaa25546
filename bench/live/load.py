"""One run: a fresh API server, a load on it, and what it has cost until the last pod was bound."""

import asyncio
import enum
import json
import os
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp

from bench.live.audit import POLICY, Accounts
from bench.live.services import SERVICES, USERS, Services
from tests.controlplane.plane import ControlPlane
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.api.volcano_crds import crds_of

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
SECONDS = 600.0


class Load(enum.Enum):
    """Who creates and binds the pods."""

    BARE = "bare"
    TWO_PHASES = "two_phases"
    OURS = "volcanopy"
    WITHOUT_GANGS = "volcanopy-without-gangs"
    """The same jobs, each of whose pods may start alone."""
    VOLCANO = "volcano"
    VOLCANO_TUNED = "volcano-tuned"
    KUBE_SCHEDULER = "kube-scheduler"
    KUEUE = "kueue"
    KUEUE_TUNED = "kueue-tuned"


_OUR_LOADS = frozenset({Load.OURS, Load.WITHOUT_GANGS})


class Peer(Protocol):
    """Another system that creates and binds the pods, in :mod:`bench.live.peers`."""

    controllers: tuple[str, ...]
    """Those of kube-controller-manager that it needs."""
    users: tuple[str, ...]
    """The users of its programs."""

    def definitions(self) -> Iterable[dict[str, Any]]:
        """Return the CustomResourceDefinitions that are there before anything else."""

    async def start(self, client: "Client", plane: ControlPlane, services: Services) -> None:
        """Start its programs, and wait until pods of a job elsewhere are bound."""

    async def submit(
        self, client: "Client", jobs: int, pods: int, namespace: str = "bench", prefix: str = "job"
    ) -> None:
        """Create the jobs."""


@dataclass(frozen=True)
class Run:
    """The result of a run. Processor time is in seconds."""

    load: Load
    jobs: int
    pods_of_a_job: int
    cpu: dict[str, float]
    seconds: float
    requests: Counter[str]
    bound: int
    """Pods that were bound: all, or those of another system within the time limit."""
    allocated: float = 0.0
    """The bytes that the API server has allocated."""
    load_average: float = 0.0
    """Of the machine, in the last minute at the end."""

    @property
    def shape(self) -> str:
        """Return JOBSxPODS."""
        return f"{self.jobs}x{self.pods_of_a_job}"

    @property
    def pods(self) -> int:
        """Return the number of pods."""
        return self.jobs * self.pods_of_a_job

    @property
    def parts_per_pod(self) -> dict[str, float]:
        """Return the milliseconds of each process for each bound pod."""
        return {name: spent / self.bound * 1000 for name, spent in self.cpu.items()}

    @property
    def cpu_per_pod(self) -> float:
        """Return the milliseconds of all processes for each pod."""
        return sum(self.parts_per_pod.values())

    @property
    def allocated_per_pod(self) -> float:
        """Return the KiB that the API server has allocated for each pod: nearly the same on a busy machine."""
        return self.allocated / self.pods / 1024

    @property
    def pods_per_second(self) -> float:
        """Return the pods bound in a second, from the first request to the last bind."""
        return self.bound / self.seconds

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {spent:.2f}" for name, spent in self.parts_per_pod.items())
        whole = f"{self.cpu_per_pod:.2f} ms of processor time for each pod ({parts})"
        memory = f"{self.allocated_per_pod:.0f} KiB allocated by the API server"
        part = "" if self.bound == self.pods else f", only {self.bound} of {self.pods} pods within the time limit"
        return f"{self.shape} {self.load.value}: {whole}, {memory}, {self.pods_per_second:.0f} pods/s{part}"


@dataclass(frozen=True)
class Cluster:
    """A fresh API server with nodes, at rest."""

    client: "Client"
    processes: dict[str, int]
    """The pid of each process."""
    audit_log: Path
    plane: ControlPlane
    services: Services


@asynccontextmanager
async def cluster(
    *, ours: bool, nodes: int = NODES, binding: Binding = VOLCANOPY, peer: Peer | None = None
) -> AsyncIterator[Cluster]:
    """Start an API server, with our services if ``ours``, or with a peer; nodes are there, and a job of this API has been through."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volcanopy-live-")))
        policy, log = directory / "audit.yaml", directory / "audit.log"
        policy.write_text(POLICY)
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]
        # In MB: by default the log is rotated after 100, and the reader would miss what follows.
        flags.append("--audit-log-maxsize=100000")
        users = dict.fromkeys((*USERS.values(), *(peer.users if peer else ())), ("system:masters",))
        crds = crds_of((binding,)) if ours else peer.definitions() if peer else ()
        controllers = peer.controllers if peer else ()
        plane = ControlPlane.start(controllers=controllers, crds=crds, apiserver_flags=flags, users=users)
        stack.enter_context(plane)
        services = stack.enter_context(Services(plane, directory, binding))
        for name in SERVICES if ours else ():
            services.start(name)
        async with session(plane, binding) as client:
            await client.prepare(nodes)
            if ours:
                await client.warm_up()
            if peer:
                await peer.start(client, plane, services)
            processes = plane.pids() | services.pids
            with suppress(TimeoutError) if peer else nullcontext():  # Volcano's scheduler never rests
                await quiet(processes)
            yield Cluster(client, processes, log, plane, services)


async def measured(load: Load, jobs: int, pods: int, peer: Peer | None = None, seconds: float = SECONDS) -> Run:
    """Run a load on a fresh API server. Raises TimeoutError if not all pods are bound within so many seconds.

    The run of a peer ends then, with the pods that were bound.
    """
    async with cluster(ours=load in _OUR_LOADS, peer=peer) as fresh:
        client, processes = fresh.client, fresh.processes
        accounts = Accounts(fresh.audit_log, NAMESPACE, fresh.audit_log.stat().st_size)
        before, allocated = cpu(processes), await client.allocated()
        work: Callable[[int, int], Awaitable[None]]
        if peer:
            work = partial(peer.submit, client)
        else:
            own: dict[Load, Callable[[int, int], Awaitable[None]]] = {
                Load.BARE: client.create_and_bind,
                Load.TWO_PHASES: client.create_then_bind,
                Load.OURS: client.submit,
                Load.WITHOUT_GANGS: partial(client.submit, gang=False),
            }
            work = own[load]
        with suppress(TimeoutError) if peer else nullcontext():
            async with asyncio.timeout(seconds):
                await asyncio.gather(work(jobs, pods), _bound(accounts, jobs * pods))
        after, allocated = cpu(processes), await client.allocated() - allocated
        fresh.services.check()
    if not accounts.bound:
        raise RuntimeError(f"{load.value} has bound no pod within {seconds:.0f} s")
    spent = {name: after[name] - before[name] for name in after}
    if load not in (Load.BARE, Load.TWO_PHASES):
        del spent["client"]  # it only submits, and reads the audit log
    taken, busy = accounts.last - accounts.first, os.getloadavg()[0]
    return Run(load, jobs, pods, spent, taken, accounts.requests, accounts.bound, allocated, busy)


async def _bound(accounts: Accounts, pods: int) -> None:
    """Wait until so many pods are bound, without a watch, which would cost the API server something."""
    while accounts.bound < pods:
        await asyncio.sleep(0.2)
        accounts.read()


async def quiet(processes: dict[str, int], seconds: float = 60.0) -> None:
    """Wait until the processes do nothing: the API server is busy for seconds after kinds and nodes have been created.

    Raises TimeoutError if they still do after so many seconds.
    """
    before = cpu(processes)
    async with asyncio.timeout(seconds):
        while True:
            await asyncio.sleep(2)
            after = cpu(processes)
            if all(after[name] - before[name] < 0.1 for name in processes):
                return
            before = after


def cpu(processes: dict[str, int]) -> dict[str, float]:
    """Return the processor seconds of these processes, and of this one as ``client``."""
    tick = os.sysconf("SC_CLK_TCK")
    spent = {}
    for name, pid in processes.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        spent[name] = (int(fields[11]) + int(fields[12])) / tick
    return spent | {"client": time.process_time()}


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

    async def warm_up(self) -> None:
        """Submit a job elsewhere, and wait until its pods are bound: webhooks are there and all caches are filled."""
        async with asyncio.timeout(SECONDS):
            hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
            while not json.loads(await self.send("GET", hooks))["items"]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            queues = f"/apis/scheduling.{self._binding.domain}/v1beta1/queues"
            while len(json.loads(await self.send("GET", queues))["items"]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            await asyncio.sleep(2)  # admission sees them, and the API server the webhooks
            await self.submit(1, 2, "warm")
            while True:
                pods = json.loads(await self.send("GET", "/api/v1/namespaces/warm/pods"))["items"]
                if len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods):
                    return
                await asyncio.sleep(0.1)

    async def submit(
        self, jobs: int, pods: int, namespace: str = NAMESPACE, prefix: str = "job", *, gang: bool = True
    ) -> None:
        version = f"batch.{self._binding.domain}/v1alpha1"
        path = f"/apis/{version}/namespaces/{namespace}/{self._binding.plural('batchjobs')}"

        async def job(number: int) -> None:
            task = {"name": "task", "replicas": pods, "template": {"spec": SPEC}}
            body = {
                "apiVersion": version,
                "kind": self._binding.kind("BatchJob"),
                "metadata": {"name": f"{prefix}-{number}"},
                "spec": {"minAvailable": pods if gang else 1, "queue": "default", "tasks": [task]},
            }
            await self.send("POST", path, body)

        await _many(range(jobs), job, CREATORS)

    async def create_and_bind(self, jobs: int, pods: int) -> None:
        """Create all pods; bind each as soon as the watch shows it."""
        watching = asyncio.create_task(self._bind_seen(jobs * pods))
        await self._create(jobs * pods)
        await watching

    async def create_then_bind(self, jobs: int, pods: int) -> None:
        """Create all pods, then bind all: what a gang of all of them can do at best."""
        await self._create(jobs * pods)
        await _many(range(jobs * pods), self._bind, BINDERS)

    async def _create(self, count: int) -> None:
        async def pod(number: int) -> None:
            metadata = {"name": f"pod-{number}", "labels": {"app": "bench"}}
            body = {"metadata": metadata, "spec": {"schedulerName": "none", **SPEC}}
            await self.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)

        await _many(range(count), pod, CREATORS)

    async def _bind(self, number: int) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % NODES:05d}"}
        body = {"metadata": {"name": f"pod-{number}"}, "target": target}
        await self.send("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/pod-{number}/binding", body)

    async def _bind_seen(self, count: int) -> None:
        seen: set[int] = set()
        waiting: asyncio.Queue[int] = asyncio.Queue()

        async def bind() -> None:
            while True:
                await self._bind(await waiting.get())
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
                    version, number = metadata["resourceVersion"], int(metadata["name"].rpartition("-")[2])
                    if number not in seen:
                        seen.add(number)
                        waiting.put_nowait(number)
                    if len(seen) == count:
                        break
        await waiting.join()
        for task in binding:
            task.cancel()


async def _many(items: Iterable[T], work: Callable[[T], Awaitable[None]], width: int) -> None:
    """Do the work for all items, so many at a time."""
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(width)))
