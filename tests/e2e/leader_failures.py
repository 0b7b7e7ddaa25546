"""Run fifty gangs of mixed sizes while leaders of schedulers and controllers are terminated."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from signal import SIGKILL, Signals
from typing import Any, Protocol

from tests.e2e.replicas import Leases, PodRecorder, background_tasks
from volcanopy.client.manifests import Creator
from volcanopy.kube.cache.followed_kinds import QUEUES
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import LEASES, NODES
from volcanopy_local.cluster import Components, Parts
from volcanopy_local.simulated.nodes import manifests

GANGS = 50
JOBS: Kind[dict[str, Any]] = Kind("batch.volcanopy.io", "v1alpha1", "BatchJob", "batchjobs", True, dict)
NAMESPACES: Kind[dict[str, Any]] = Kind("", "v1", "Namespace", "namespaces", False, dict)


class RestartableProcess(Protocol):
    """A process of ours that can be started, again and again, and sent signals."""

    @property
    def identities(self) -> list[str]:
        """Who it has been as a candidate, in each of its lives."""

    async def start(self) -> None: ...

    async def ready(self, within: float = 150.0) -> None: ...

    def send(self, number: Signals) -> None: ...

    async def over(self) -> int:
        """Wait until its present life is over; gives the status."""


class RestartedProcess:
    """A process that is started again whenever it ends, as a kubelet does."""

    def __init__(self, process: RestartableProcess) -> None:
        self.process = process
        self.ends: asyncio.Queue[int] = asyncio.Queue()

    async def keep(self) -> None:
        while True:
            self.ends.put_nowait(await self.process.over())
            await self.process.start()


def size_of(number: int) -> int:
    return (1, 2, 3, 5, 8)[number % 5]


def gang(number: int, size: int, duration: str = "300ms") -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"sim.volcanopy.io/duration": duration}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": f"gang-{number:02}"},
        "spec": {"minAvailable": size, "tasks": [{"name": "worker", "replicas": size, "template": template}]},
    }


@asynccontextmanager
async def cluster_without_services(
    connection: Connection, namespace: str, nodes: int = 4, leases: str = "kube-system"
) -> AsyncIterator[Client]:
    """Nodes and kubelets, with everything taken away at the end; the services come as processes."""
    parts = Parts(scheduler=None, controller=None, admission=None, adopt_all=False)
    async with Client(connection) as client, Components(connection, parts):
        await client.create(NAMESPACES, None, {"metadata": {"name": namespace}})
        await Creator(client).create(manifests(nodes, {"cpu": "8", "memory": "32Gi", "pods": "110"}))
        try:
            yield client
        finally:
            await client.delete_collection(JOBS, namespace)
            await client.delete_collection(NODES, None)
            await client.delete_collection(LEASES, leases)


async def all_complete(client: Client, namespace: str, count: int, within: float = 120.0) -> None:
    reflector = Reflector(client, JOBS, namespace)
    phases: dict[str, str] = {}
    async with asyncio.timeout(within):
        async for batch in reflector.batches():
            for change in batch:
                state = change.object.get("status", {}).get("state", {})
                phases[change.object["metadata"]["name"]] = state.get("phase", "")
            assert "Failed" not in phases.values(), phases
            if len(phases) == count and set(phases.values()) == {"Completed"}:
                return


async def has_queues(client: Client) -> None:
    """Until the scheduler that leads has made the first queues."""
    reflector = Reflector(client, QUEUES)
    async with asyncio.timeout(90):
        async for _ in reflector.batches():
            if {"root", "default"} <= reflector.objects.keys():
                return


class LeaderTermination:
    """The leader of one service is ended again and again; measures how long its place is empty."""

    def __init__(
        self, command: str, replicas: Sequence[RestartableProcess], leases: Leases, recorder: PodRecorder
    ) -> None:
        self.command, self.replicas = command, [RestartedProcess(replica) for replica in replicas]
        self._leases, self._recorder = leases, recorder
        self.takeovers: dict[Signals, list[float]] = {}
        self.first_acts: list[float] = []
        """From the taking of the Lease to the first pod that was made or bound after it."""

    async def once(self, number: Signals, taken_over: asyncio.Event) -> None:
        """End the leader in the middle of its work, and wait until another has taken over (sets the event) and acts."""
        # The other one is there, or nobody could take over.
        for replica in self.replicas:
            await replica.process.ready()
        before = await self._leases.holder(self.command)
        (victim,) = [item for item in self.replicas if before in item.process.identities]
        self._forget_ends()
        signalled = time.monotonic()
        victim.process.send(number)
        await self._leases.holder(self.command, before)
        took = time.monotonic()
        taken_over.set()
        async with asyncio.timeout(90):
            status = await victim.ends.get()
        # A leader to whom the machine left no time to renew has ended by itself, and so may have the one that stood by:
        # that says nothing of takeovers.
        if status == (-SIGKILL if number is SIGKILL else 0) and all(item.ends.empty() for item in self.replicas):
            self.takeovers.setdefault(number, []).append(took - signalled)
        seen = self._recorder.at[self.command]
        await self._recorder.until(lambda: bool(seen) and seen[-1] > took, within=120)
        self.first_acts.append(next(moment for moment in seen if moment > took) - took)

    def _forget_ends(self) -> None:
        for replica in self.replicas:
            while not replica.ends.empty():
                replica.ends.get_nowait()

    def summary(self) -> str:
        parts = [
            f"lease taken {', '.join(f'{took:.1f}' for took in takeover)} s after {number.name}"
            for number, takeover in self.takeovers.items()
        ]
        parts.append(f"first act {', '.join(f'{took:.2f}' for took in self.first_acts)} s after that")
        return f"{self.command}: {'; '.join(parts)}"


async def run_gangs(
    connection: Connection,
    namespace: str,
    schedulers: Sequence[RestartableProcess],
    controllers: Sequence[RestartableProcess],
    ends: Sequence[Signals],
    leases_in: str = "kube-system",
) -> dict[str, LeaderTermination]:
    """The gangs come in, a part before each end of both leaders; all complete, and nothing is doubled."""
    rng, recorder, leases = random.Random(namespace), PodRecorder(), Leases()
    endings = {
        "scheduler": LeaderTermination("scheduler", schedulers, leases, recorder),
        "controller": LeaderTermination("controller", controllers, leases, recorder),
    }
    async with (
        cluster_without_services(connection, namespace, leases=leases_in) as client,
        background_tasks(recorder.follow(client, namespace), leases.follow(client, leases_in)),
    ):
        waiting = [gang(number, size_of(number)) for number in range(GANGS)]
        share = (GANGS - 5) // len(ends)
        for replica in (*schedulers, *controllers):
            await replica.start()
        for replica in (*schedulers, *controllers):
            await replica.ready()
        await has_queues(client)
        kept = [item.keep() for ending in endings.values() for item in ending.replicas]
        async with background_tasks(*kept):
            for number in ends:
                command = rng.choice(("scheduler", "controller"))
                goal = len(recorder.at[command]) + rng.randint(2, 10)
                for job in [waiting.pop() for _ in range(share - 2)]:
                    await client.create(JOBS, namespace, job)
                await recorder.act(command, goal)
                events = [asyncio.Event() for _ in endings]
                ended = [
                    asyncio.create_task(ending.once(number, event))
                    for ending, event in zip(endings.values(), events, strict=True)
                ]
                async with asyncio.timeout(120):
                    await asyncio.gather(*(event.wait() for event in events))
                # Work for the next leaders: the previous ones may have completed everything before.
                for job in [waiting.pop() for _ in range(2)]:
                    await client.create(JOBS, namespace, job)
                await asyncio.gather(*ended)
            for job in waiting:
                await client.create(JOBS, namespace, job)
            await all_complete(client, namespace, GANGS)
    names = {
        f"{namespace}/gang-{number:02}-worker-{index}" for number in range(GANGS) for index in range(size_of(number))
    }
    recorder.assert_no_duplicates(names)
    for ending in endings.values():
        print(ending.summary())
    return endings
