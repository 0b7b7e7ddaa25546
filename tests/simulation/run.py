"""The run of a scenario: the processes, the faults at their times, and what must hold at the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

import structlog

from tests.simulation.network import Network
from tests.simulation.observer import Observer
from tests.simulation.processes import LeaseOnLoop, Process, SimulatedMachine, at_once, descriptions, task_started
from tests.simulation.scenario import SERVICES, Manifest, Scenario, Step
from tests.simulation.server import FaultyServer
from tests.simulation.virtual_time import VirtualLoop
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import AlreadyExists, KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS, QUEUES
from volcanopy.local.cluster import connection_to
from volcanopy.local.manifests import Creator
from volcanopy.local.simulated import nodes
from volcanopy.local.simulated.kubelet import Kubelet
from volcanopy.services.controllers import controller_service
from volcanopy.services.controllers.controller_service import JobControllerSettings
from volcanopy.services.process import election
from volcanopy.services.process.settings import Election, SchedulerSettings
from volcanopy.services.scheduler import scheduler_service, start_estimates

PODS: Kind[Json] = Kind("", "v1", "Pod", "pods", True, dict)
NODES: Kind[Json] = Kind("", "v1", "Node", "nodes", False, dict)
NAMESPACE = "default"
HORIZON = 600.0
"""Seconds after the last fault in which every job must end."""
CLEANED = 300.0
"""Seconds in which nothing is left of deleted jobs."""
LEFT = ("pods", "podgroups.scheduling.volcanopy.io", "services", "configmaps", "secrets")


@dataclass
class Outcome:
    """What a run has shown."""

    faults: list[str]
    seconds: float
    """Virtual seconds."""
    writes: Counter[str] = field(default_factory=Counter)
    """Requests that write, by process."""
    trace: list[str] = field(repr=False, default_factory=list)
    """Each write of the store: version, kind, name."""
    phases: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def _on_one_loop() -> Iterator[list[str]]:
    """Let services run without threads, and collect what they log as errors."""
    errors: list[str] = []

    def collect(_: object, method: str, event: MutableMapping[str, Any]) -> Any:
        if method in {"error", "critical", "exception"}:
            errors.append(f"logged: {event}")
        raise structlog.DropEvent

    before = structlog.get_config()
    threshold = gc.get_threshold()
    structlog.configure(processors=[collect])
    with (
        mock.patch.object(scheduler_service, "in_thread", at_once),
        mock.patch.object(start_estimates, "in_thread", at_once),
        mock.patch.object(scheduler_service, "_freeze_garbage_collector"),
        mock.patch.object(election, "LeaseThread", LeaseOnLoop),
    ):
        try:
            yield errors
        finally:
            structlog.configure(**before)
            gc.set_threshold(*threshold)


def run(scenario: Scenario) -> Outcome:
    """Run a scenario."""
    network = Network(Random(f"network {scenario.seed}"), scenario.delay)
    loop = VirtualLoop(network, task_started)
    with _on_one_loop() as errors:
        simulation = Simulation(scenario, network, loop, errors)
        try:
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(simulation.whole())
        finally:
            with contextlib.suppress(Exception):
                _end_tasks(loop)
            asyncio.set_event_loop(None)
            loop.close()


def _end_tasks(loop: VirtualLoop) -> None:
    left = sorted(asyncio.all_tasks(loop), key=hash)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


class Simulation:
    """One run."""

    def __init__(self, scenario: Scenario, network: Network, loop: VirtualLoop, errors: list[str]) -> None:
        self.scenario, self.network, self.loop, self.errors = scenario, network, loop, errors
        capabilities = {
            queue["metadata"]["name"]: int(queue["spec"]["capability"]["cpu"])
            for queue in scenario.queues
            if "capability" in queue["spec"]
        }
        self.observer = Observer(loop.time, capabilities)
        self.processes: dict[str, Process] = {}
        self.server: FaultyServer
        self.client: Client
        self.kubelet: Kubelet
        self.trace: list[str] = []
        self._rng = Random(f"steps {scenario.seed}")

    async def whole(self) -> Outcome:
        """Start the cluster, live through the scenario, and judge."""
        await self._start()
        acts = [self.loop.create_task(self._act(step)) for step in self.scenario.steps]
        await asyncio.gather(*acts)
        self.observer.calm_since = self.loop.time()
        await self._until(lambda: not self.observer.unfinished(), HORIZON)
        faults = [f"job has not ended: {job}" for job in self.observer.unfinished()]
        phases = {
            job["metadata"]["name"]: job.get("status", {}).get("state", {}).get("phase", "")
            for job in self.observer.jobs.values()
        }
        self.observer.finish()
        faults += await self._leaks()
        writes = self.server.writes
        await self._stop()
        faults += [*self.observer.faults, *descriptions(self.processes), *self.errors]
        return Outcome(faults, self.loop.time(), writes, self.trace, phases)

    async def _start(self) -> None:
        machine.current.set(SimulatedMachine("server", f"server {self.scenario.seed}", self.loop.time))
        self.server = await FaultyServer.start(
            clock=machine.utc_now, rng=Random(f"uids {self.scenario.seed}"), history=self.scenario.history
        )
        self.server.context.store.listeners.append(self.observer.seen)
        self.server.context.store.listeners.append(
            lambda bucket, event: self.trace.append(f"{event.version} {event.type} {bucket.name} {event.entry.name}")
        )
        connection = connection_to(self.server)
        machine.current.set(SimulatedMachine("user", f"user {self.scenario.seed}", self.loop.time))
        self.client = Client(connection)
        creator = Creator(self.client)
        await creator.install_definitions()
        manifests = [_node(*node) for node in self.scenario.nodes]
        await creator.create([*manifests, *self.scenario.queues])
        for name in ("kubelet", *SERVICES):
            self._process(name, connection)
        await self.processes["kubelet"].ready.wait()

    def _process(self, name: str, connection: Connection) -> None:
        role = name.rpartition("-")[0] or name

        async def kubelet(stop: asyncio.Event, ready: asyncio.Event) -> None:
            async with Client(connection) as client:
                self.kubelet = Kubelet(client, adopt_all=True)
                await self.kubelet.run(stop, ready)

        async def scheduler(stop: asyncio.Event, ready: asyncio.Event) -> None:
            settings = SchedulerSettings(election=Election(name="scheduler", namespace="kube-system"))
            await scheduler_service.run(connection, settings, stop, ready)

        async def controller(stop: asyncio.Event, ready: asyncio.Event) -> None:
            settings = JobControllerSettings(election=Election(name="controller", namespace="kube-system"))
            await controller_service.run(connection, settings, stop, ready)

        entry = {"kubelet": kubelet, "scheduler": scheduler, "controller": controller}[role]
        process = Process(name, entry, self.loop, self.network, str(self.scenario.seed))
        self.processes[name] = process
        process.start()

    async def _act(self, step: Step) -> None:
        await asyncio.sleep(step.at)
        await getattr(self, step.what)(*step.arguments)

    async def _until(self, holds: Any, seconds: float) -> bool:
        end = self.loop.time() + seconds
        while not holds():
            if self.loop.time() > end:
                return False
            await asyncio.sleep(1.0)
        return True

    async def _leaks(self) -> list[str]:
        """Delete all jobs; return what is left of them, and of other things that end with them."""
        for job in list(self.observer.jobs.values()):
            await self._surely(lambda name=job["metadata"]["name"]: self.client.delete(JOBS, NAMESPACE, name))
        await self._until(lambda: not self._left(), CLEANED)
        return [f"left after the deletion of all jobs: {name}" for name in self._left()]

    def _left(self) -> list[str]:
        store = self.server.context.store
        names = [
            f"{bucket} {entry.name}"
            for bucket in LEFT
            for entry in store.bucket(bucket).entries(NAMESPACE)
            if entry.name != "kube-root-ca.crt"
        ]
        return [*names, *(f"job {entry.name}" for entry in store.bucket("batchjobs.batch.volcanopy.io").entries())]

    async def _stop(self) -> None:
        for process in self.processes.values():
            await process.stop()
        await self.client.close()
        await self.server.stop()

    async def _surely(self, call: Any) -> None:
        """Repeat a user's request until the server has answered it."""
        while True:
            try:
                await call()
            except (AlreadyExists, NotFound):
                return
            except KubeError:
                await asyncio.sleep(0.5)
            else:
                return

    # Acts of users

    async def submit(self, manifest: Manifest) -> None:
        await self._surely(lambda: self.client.create(JOBS, NAMESPACE, manifest))

    async def delete_job(self, name: str) -> None:
        await self._surely(lambda: self.client.delete(JOBS, NAMESPACE, name))

    async def delete_pod(self, number: int) -> None:
        pods = sorted(pod["metadata"]["name"] for pod in self.observer.pods.values())
        if pods:
            await self._surely(lambda: self.client.delete(PODS, NAMESPACE, pods[number % len(pods)]))

    async def command(self, job: str, action: str) -> None:
        uid = next((uid for uid, body in self.observer.jobs.items() if body["metadata"]["name"] == job), None)
        if uid is None:
            return
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": job, "uid": uid, "controller": True}
        body = {
            "apiVersion": COMMANDS.api_version,
            "kind": COMMANDS.kind,
            "metadata": {"name": f"{job}-{action.lower()}-{self._rng.getrandbits(32):x}", "ownerReferences": [owner]},
            "action": action,
            "target": owner,
        }
        await self._surely(lambda: self.client.create(COMMANDS, NAMESPACE, body))
        if action == "AbortJob":
            await asyncio.sleep(20.0)
            await self.command(job, "ResumeJob")

    async def weigh_queue(self, name: str, weight: int) -> None:
        await self._surely(lambda: self.client.patch(QUEUES, None, name, {"spec": {"weight": weight}}))

    # Faults

    async def kill(self, name: str, restart: float) -> None:
        self.processes[name].kill(restart)

    async def kill_at_write(self, name: str, count: int, when: str) -> None:
        """Kill a process at its next such write: before the server takes it, or after, without the answer."""
        self.server.kill_at(self.processes[name], count, when)

    async def cut(self, name: str, seconds: float) -> None:
        self.processes[name].cut(seconds)
        await asyncio.sleep(seconds)

    async def reset(self, name: str) -> None:
        for end in self.network.of(self.processes[name].machine.name):
            self.network.reset(end, "reset")

    async def reject(self, seconds: float, code: int, rate: float) -> None:
        with self.server.rejecting(code, rate):
            await asyncio.sleep(seconds)

    async def lose_answers(self, seconds: float, rate: float) -> None:
        with self.server.losing_answers(rate):
            await asyncio.sleep(seconds)

    async def stop_server(self, seconds: float) -> None:
        self.network.cuts["server"] = self.loop.time() + seconds
        for end in self.network.of("server"):
            self.network.reset(end, "server stopped")
        await asyncio.sleep(seconds)

    async def turn_clock(self, name: str, seconds: float) -> None:
        process = self.processes[name]
        process.ahead = process.machine.ahead = seconds

    async def fail_node(self, name: str, seconds: float) -> None:
        with contextlib.suppress(KubeError, KeyError):
            await self.kubelet.fail_node(name)
        await asyncio.sleep(seconds)
        while True:
            try:
                await self.kubelet.restore_node(name)
            except NotFound:
                return
            except KubeError:
                await asyncio.sleep(1.0)
            else:
                return

    async def replace_node(self, node: tuple[str, int], seconds: float) -> None:
        await self._surely(lambda: self.client.delete(NODES, None, node[0]))
        await asyncio.sleep(seconds)
        await self._surely(lambda: self.client.create(NODES, None, _node(*node)))

    async def forget_history(self) -> None:
        store = self.server.context.store
        for bucket in store.buckets.values():
            bucket.history.clear()
            bucket.compacted = store.version


def _node(name: str, cpus: int) -> Json:
    return nodes.manifest(name, capacity={"cpu": str(cpus)})
