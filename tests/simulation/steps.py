"""The steps of a scenario: what users and other controllers do, and the faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from chaos import node_failure
from tests.simulation.admission import Reviews
from tests.simulation.network import Network
from tests.simulation.observer import Observer
from tests.simulation.processes import Process
from tests.simulation.scenario import Manifest, Step
from tests.simulation.server import FaultyServer
from tests.simulation.virtual_time import VirtualLoop
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, ApiError, KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS, NODES, POD_GROUPS, PODS, QUEUES
from volcanopy_local.simulated import nodes
from volcanopy_local.simulated.kubelet import Kubelet

NAMESPACE = "default"
HOLD = "example.com/hold"


def node(name: str, cpus: int) -> Json:
    """Return the manifest of a node."""
    return nodes.manifest(name, capacity={"cpu": str(cpus)})


class Steps:
    """Carries out steps; each method is the step of its name."""

    def __init__(self, seed: int, network: Network, loop: VirtualLoop, observer: Observer, reviews: Reviews) -> None:
        self.network, self.loop, self.observer, self.reviews = network, loop, observer, reviews
        self.processes: Mapping[str, Process] = {}
        self.server: FaultyServer
        self.client: Client
        self.kubelet: Kubelet
        self._rng = Random(f"steps {seed}")

    async def act(self, step: Step) -> None:
        """Carry out a step at its time."""
        await asyncio.sleep(step.at)
        await getattr(self, step.what)(*step.arguments)

    async def surely(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Repeat a user's request until the server has answered it."""
        while True:
            try:
                await call()
            except (AlreadyExists, NotFound):
                return
            except KubeError as error:
                if isinstance(error, ApiError) and 400 <= error.code < 500 and error.code not in {409, 429}:
                    return
                await asyncio.sleep(0.5)
            else:
                return

    def _chosen(self, kind: Kind[Json], number: int) -> str:
        """Return the name of one of the objects of a kind, empty if there is none."""
        names = sorted(entry.name for entry in self.server.context.store.bucket(_bucket(kind)).entries(NAMESPACE))
        return names[number % len(names)] if names else ""

    # Users

    async def submit(self, manifest: Manifest) -> None:
        await self.surely(lambda: self.client.create(JOBS, NAMESPACE, manifest))

    async def submit_invalid(self, manifest: Manifest, seconds: float) -> None:
        """Try for a while to submit a job that admission refuses."""
        self.observer.invalid.add(manifest["metadata"]["name"])
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            with contextlib.suppress(KubeError):
                await self.client.create(JOBS, NAMESPACE, manifest, deadline=seconds)
            await asyncio.sleep(0.5)

    async def delete_job(self, name: str) -> None:
        self.observer.deleted.add(name)
        await self.surely(lambda: self.client.delete(JOBS, NAMESPACE, name))

    async def delete_pod(self, number: int) -> None:
        if name := self._chosen(PODS, number):
            self.observer.deleted.add(name)
            await self.surely(lambda: self.client.delete(PODS, NAMESPACE, name))

    async def delete_group(self, number: int) -> None:
        if name := self._chosen(POD_GROUPS, number):
            await self.surely(lambda: self.client.delete(POD_GROUPS, NAMESPACE, name))

    async def scale(self, job: str, replicas: int) -> None:
        """Change the number of a job's pods."""

        def change(body: Json) -> Json:
            body["spec"]["tasks"][0]["replicas"] = replicas
            body["spec"]["minAvailable"] = min(body["spec"]["minAvailable"], replicas)
            return body

        await self.surely(lambda: self.client.update_with_retry(JOBS, NAMESPACE, job, change))

    async def command(self, job: str, action: str) -> None:
        await self._command(JOBS, self.observer.uid_of(job), job, action)
        if action == "AbortJob":
            await asyncio.sleep(5.0)
            await self._command(JOBS, self.observer.uid_of(job), job, "ResumeJob")

    async def close_queue(self, name: str, seconds: float) -> None:
        """Close a queue for a while."""
        entry = self.server.context.store.bucket(_bucket(QUEUES)).get("", name)
        if entry is not None:
            await self._command(QUEUES, entry.uid, name, "CloseQueue")
            await asyncio.sleep(seconds)
            await self._command(QUEUES, entry.uid, name, "OpenQueue")

    async def _command(self, kind: Kind[Json], uid: str, name: str, action: str) -> None:
        if not uid:
            return
        owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid, "controller": True}
        body = {
            "apiVersion": COMMANDS.api_version,
            "kind": COMMANDS.kind,
            "metadata": {"name": f"{name}-{action.lower()}-{self._rng.getrandbits(32):x}", "ownerReferences": [owner]},
            "action": action,
            "target": owner,
        }
        await self.surely(lambda: self.client.create(COMMANDS, NAMESPACE, body))

    async def weigh_queue(self, name: str, weight: int) -> None:
        await self.surely(lambda: self.client.patch(QUEUES, None, name, {"spec": {"weight": weight}}))

    # Other controllers

    async def label(self, plural: str, number: int) -> None:
        """Write a label of another controller."""
        kind = {"pods": PODS, "batchjobs": JOBS, "podgroups": POD_GROUPS}[plural]
        if name := self._chosen(kind, number):
            patch = {"metadata": {"labels": {"example.com/seen": f"{self._rng.getrandbits(16):x}"}}}
            await self.surely(lambda: self.client.patch(kind, NAMESPACE, name, patch))

    async def hold_pod(self, number: int, seconds: float) -> None:
        """Keep a pod from being removed for a while, with a finalizer."""
        if name := self._chosen(PODS, number):
            await self._finalizers(name, lambda finalizers: [*finalizers, HOLD])
            await asyncio.sleep(seconds)
            await self._finalizers(name, lambda finalizers: [entry for entry in finalizers if entry != HOLD])

    async def _finalizers(self, pod: str, change: Callable[[list[str]], list[str]]) -> None:
        def changed(body: Json) -> Json | None:
            metadata = body["metadata"]
            if "deletionTimestamp" in metadata and HOLD not in metadata.get("finalizers", ()):
                return None
            metadata["finalizers"] = change(metadata.get("finalizers") or [])
            return body

        await self.surely(lambda: self.client.update_with_retry(PODS, NAMESPACE, pod, changed))

    # Faults

    async def pause(self, name: str, seconds: float) -> None:
        """Let a process stand still, so that it goes on as a leader that is none any more."""
        self.processes[name].pause(seconds)
        await asyncio.sleep(seconds)

    async def lag_watches(self, name: str, seconds: float) -> None:
        """Let some watches of a process fall behind the others."""
        self.server.lag_watches(self.processes[name].machine.name, self._rng, seconds)
        await asyncio.sleep(seconds)

    async def repeat_events(self, count: int, seconds: float) -> None:
        """End the watches; for a while new ones begin with events that were delivered before."""
        with self.server.repeating_events(count):
            await self.reset("server")
            await asyncio.sleep(seconds)

    async def halve_lists(self, seconds: float, rate: float) -> None:
        """Forget the history, so that everybody lists, and end a part of the lists half way."""
        with self.server.halving_lists(rate):
            await self.forget_history()
            await self.reset("server")
            await asyncio.sleep(seconds)

    async def slow_reviews(self, seconds: float, pause: float) -> None:
        self.reviews.pause = pause
        await asyncio.sleep(seconds)
        self.reviews.pause = 0.0

    async def fail_reviews(self, seconds: float, rate: float) -> None:
        self.reviews.failing = rate
        await asyncio.sleep(seconds)
        self.reviews.failing = 0.0

    async def kill(self, name: str, restart: float) -> None:
        self.processes[name].kill(restart)

    async def kill_at_write(self, name: str, count: int, when: str) -> None:
        """Kill a process at its next such write: before the server takes it, or after, without the answer."""
        self.server.kill_at(self.processes[name], count, when)

    async def cut(self, name: str, seconds: float) -> None:
        self.processes[name].cut(seconds)
        await asyncio.sleep(seconds)

    async def reset(self, name: str) -> None:
        host = "server" if name == "server" else self.processes[name].machine.name
        for end in self.network.of(host):
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
            await node_failure.fail(self.kubelet.nodes, self.client, name, machine.epoch())
        await asyncio.sleep(seconds)
        while True:
            try:
                await node_failure.restore(self.kubelet.nodes, self.client, name, machine.epoch())
            except NotFound:
                return
            except KubeError:
                await asyncio.sleep(1.0)
            else:
                return

    async def replace_node(self, of: tuple[str, int], seconds: float) -> None:
        await self.surely(lambda: self.client.delete(NODES, None, of[0]))
        await asyncio.sleep(seconds)
        await self.surely(lambda: self.client.create(NODES, None, node(*of)))

    async def forget_history(self) -> None:
        store = self.server.context.store
        for bucket in store.buckets.values():
            bucket.history.clear()
            bucket.compacted = store.version


def _bucket(kind: Kind[Json]) -> str:
    return f"{kind.plural}.{kind.group}".rstrip(".")
