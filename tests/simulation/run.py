"""The run of a scenario: the processes, the steps at their times, and what must hold at the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest import mock

import structlog

from tests.simulation import admission
from tests.simulation.leftovers import noted_parts, remembered
from tests.simulation.network import Network
from tests.simulation.observer import Observer
from tests.simulation.processes import LeaseOnLoop, Process, SimulatedMachine, at_once, descriptions, task_started
from tests.simulation.reflector_edge import reflector_edge
from tests.simulation.scenario import Scenario
from tests.simulation.server import FaultyServer
from tests.simulation.steps import NAMESPACE, Steps, node
from tests.simulation.virtual_time import MOST_STEPS, EndlessError, VirtualLoop
from volcanopy.client.manifests import Creator
from volcanopy.kube import machine
from volcanopy.kube.cache import followed_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection, Credentials
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.services.controllers import controller_service
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process import election
from volcanopy.services.process.settings import Election, SchedulerSettings
from volcanopy.services.scheduler import scheduler_service, start_estimates
from volcanopy_local.simulated.kubelet import Kubelet

HORIZON = 600.0
"""Seconds after the last fault in which every job must end."""
CLEANED = 300.0
"""Seconds in which nothing is left of deleted jobs."""
FORGOTTEN = 130.0
"""Seconds in which all processes have forgotten what was deleted: the job history repeats failed writes each minute."""
LEFT = ("pods", "podgroups.scheduling.volcanopy.io", "services", "configmaps", "secrets")
WRITES = 60
"""Most requests of services and kubelet that write, per process that is started and per pod that is created.

The kubelet writes each status of a pod, the scheduler binds it and reports it, the controllers create, count and delete it; a seed takes
15 at the most.
"""


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
    writes_per_pod: float = 0.0
    """Requests that write per pod and start of a process, without Leases."""


@contextlib.contextmanager
def _on_one_loop(reviews: admission.Reviews) -> Iterator[list[str]]:
    """Let services run without threads, in a cluster without volumes and devices, and collect what they log as errors."""
    errors: list[str] = []

    def collect(_: object, method: str, event: MutableMapping[str, Any]) -> Any:
        if method in {"error", "critical", "exception"}:
            errors.append(f"logged: {event}")
        raise structlog.DropEvent

    before = structlog.get_config()
    threshold = gc.get_threshold()
    structlog.configure(processors=[collect])
    with contextlib.ExitStack() as patches:
        for target, name, value in (
            (scheduler_service, "in_thread", at_once),
            (start_estimates, "in_thread", at_once),
            (machine, "freeze_garbage_collector", lambda: None),
            (election, "LeaseThread", LeaseOnLoop),
            (followed_kinds, "OPTIONAL", (followed_kinds.HYPER_NODES,)),
        ):
            patches.enter_context(mock.patch.object(target, name, value))
        patches.enter_context(admission.without_tls(reviews))
        patches.enter_context(noted_parts())
        try:
            yield errors
        finally:
            structlog.configure(**before)
            gc.set_threshold(*threshold)


def run(scenario: Scenario) -> Outcome:
    """Run a scenario."""
    network = Network(Random(f"network {scenario.seed}"), scenario.delay)
    loop = VirtualLoop(network, task_started)
    reviews = admission.Reviews(scenario.seed)
    with _on_one_loop(reviews) as errors:
        simulation = Simulation(scenario, network, loop, errors, reviews)
        try:
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(simulation.whole())
        except EndlessError as error:
            return Outcome([f"{error}, {simulation.stage()}"], loop.time())
        finally:
            with contextlib.suppress(Exception):
                _end_tasks(loop)
            asyncio.set_event_loop(None)
            loop.close()


def _end_tasks(loop: VirtualLoop) -> None:
    for there in list(loop.paused):
        loop.resume(there)
    left = sorted(asyncio.all_tasks(loop), key=hash)
    for task in left:
        task.cancel()
    loop.steps_left = MOST_STEPS
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


class Simulation:
    """One run."""

    def __init__(
        self, scenario: Scenario, network: Network, loop: VirtualLoop, errors: list[str], reviews: admission.Reviews
    ) -> None:
        self.scenario, self.network, self.loop, self.errors = scenario, network, loop, errors
        capabilities = {
            queue["metadata"]["name"]: int(queue["spec"]["capability"]["cpu"])
            for queue in scenario.queues
            if "capability" in queue["spec"]
        }
        self.observer = Observer(loop.time, capabilities, fail_closed=scenario.webhooks == "Fail")
        self.steps = Steps(scenario.seed, network, loop, self.observer, reviews)
        self.processes: dict[str, Process] = {}
        self.steps.processes = self.processes
        self.observer.is_known = self._is_known
        self.trace: list[str] = []
        self._acts: dict[str, asyncio.Task[None]] = {}

    def stage(self) -> str:
        """Return what the run waits for."""
        unfinished = [name for name, act in self._acts.items() if not act.done()]
        starting = [name for name, process in self.processes.items() if not process.ready.is_set()]
        return f"in the steps {unfinished or 'no more'}; not ready: {starting or 'no process'}"

    async def whole(self) -> Outcome:
        """Start the cluster, live through the scenario, and judge."""
        await self._start()
        self._acts = {str(step): self.loop.create_task(self.steps.act(step)) for step in self.scenario.steps}
        await asyncio.gather(*self._acts.values())
        observer = self.observer
        observer.calm_since = self.loop.time()
        await self._until(lambda: not observer.unfinished(), HORIZON)
        faults = [f"job has not ended: {job}" for job in observer.unfinished()]
        phases = {
            job["metadata"]["name"]: job.get("status", {}).get("state", {}).get("phase", "")
            for job in observer.jobs.values()
        }
        observer.finish()
        faults += await self._leaks()
        if not faults:
            faults += await self._memories()
        server = self.steps.server
        starts = sum(process.starts for process in self.processes.values())
        per_pod = (server.work.total() - server.work["user"]) / (starts + observer.created)
        if per_pod > WRITES:
            faults.append(f"{per_pod:.0f} requests per pod and process: {dict(server.work)}")
        await self._stop()
        faults += [*observer.faults, *descriptions(self.processes), *self.errors]
        return Outcome(faults, self.loop.time(), server.writes, self.trace, phases, per_pod)

    async def _start(self) -> None:
        seed, steps = self.scenario.seed, self.steps
        machine.current.set(SimulatedMachine("server", f"server {seed}", self.loop.time))
        server = steps.server = await FaultyServer.start(
            clock=machine.utc_now,
            rng=Random(f"uids {seed}"),
            history=self.scenario.history,
            users=admission.USERS,
        )
        server.rng = Random(f"answers {seed}")
        server.install_definitions()
        server.context.store.listeners.append(self.observer.seen)
        server.context.store.listeners.append(
            lambda bucket, event: self.trace.append(f"{event.version} {event.type} {bucket.name} {event.entry.name}")
        )
        machine.current.set(SimulatedMachine("user", f"user {seed}", self.loop.time))
        manifests = [node(*of) for of in self.scenario.nodes]
        async with Client(self._connection("")) as client:
            await Creator(client).create([*manifests, *self.scenario.queues])
        steps.client = Client(self._connection("user"))
        first = ("kubelet", "admission") if self.scenario.webhooks else ("kubelet",)
        for name in (*first, *self.scenario.services):
            self._process(name)
        for name in first:
            await self.processes[name].ready.wait()

    def _is_known(self, pod: str) -> bool:
        controllers = (process for name, process in self.processes.items() if name.startswith("controller"))
        return all(pod in controller.machine.succeeded for controller in controllers)

    def _connection(self, user: str) -> Connection:
        return Connection(self.steps.server.url, Credentials({"Authorization": f"Bearer {user}"}))

    def _process(self, name: str) -> None:
        role = name.rpartition("-")[0] or name
        connection = self._connection("controllers" if role in {"scheduler", "controller"} else role)

        async def kubelet(stop: asyncio.Event, ready: asyncio.Event) -> None:
            async with Client(connection) as client:
                self.steps.kubelet = Kubelet(client, adopt_all=True)
                await self.steps.kubelet.run(stop, ready)

        async def scheduler(stop: asyncio.Event, ready: asyncio.Event) -> None:
            settings = SchedulerSettings(election=Election(name="scheduler", namespace="kube-system"))
            await scheduler_service.run(connection, settings, stop, ready)

        async def controller(stop: asyncio.Event, ready: asyncio.Event) -> None:
            settings = JobControllerSettings(election=Election(name="controller", namespace="kube-system"))
            await controller_service.run(connection, settings, stop, ready, edge=reflector_edge(connection))

        async def reviews(stop: asyncio.Event, ready: asyncio.Event) -> None:
            await admission.serve(connection, self.scenario.webhooks, stop, ready)

        entry = {"kubelet": kubelet, "scheduler": scheduler, "controller": controller, "admission": reviews}[role]
        process = Process(name, entry, self.loop, self.network, str(self.scenario.seed))
        self.processes[name] = process
        process.start()

    async def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        end = self.loop.time() + seconds
        while not holds():
            if self.loop.time() > end:
                return False
            await asyncio.sleep(0.5)
        return True

    async def _leaks(self) -> list[str]:
        """Delete all jobs; return what is left of them, and of other things that end with them."""
        for job in list(self.observer.jobs.values()):
            await self.steps.delete_job(job["metadata"]["name"])
        await self._until(lambda: not self._left(), CLEANED)
        return [f"left after the deletion of all jobs: {name}" for name in self._left()]

    def _left(self) -> list[str]:
        store = self.steps.server.context.store
        names = [
            f"{bucket} {entry.name}"
            for bucket in LEFT
            for entry in store.bucket(bucket).entries(NAMESPACE)
            if entry.name != "kube-root-ca.crt"
        ]
        return [*names, *(f"job {entry.name}" for entry in store.bucket(JOBS_BUCKET).entries())]

    async def _memories(self) -> list[str]:
        """Return what processes remember of the deleted jobs."""
        left: list[str] = []
        end = self.loop.time() + FORGOTTEN
        while self.loop.time() < end:
            await asyncio.sleep(4.0)
            left = [
                f"{process.name} remembers a deleted job: {text}"
                for process in self.processes.values()
                for text in remembered(process.machine)
            ]
            if not left:
                break
        return left

    async def _stop(self) -> None:
        for process in self.processes.values():
            await process.stop()
        await self.steps.client.close()
        await self.steps.server.stop()


JOBS_BUCKET = f"{JOBS.plural}.{JOBS.group}"
