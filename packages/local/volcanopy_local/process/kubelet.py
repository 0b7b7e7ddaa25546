"""The kubelet of process nodes: runs the pods that are bound to them as processes of this machine."""

import asyncio
import contextlib
import math
import os
import shutil
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from embedded_apiserver.context import ContainerUsage, Measurement
from embedded_apiserver.streams.command_streams import CommandStreams, Pipe
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import answered
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import CONFIG_MAPS, PODS, SECRETS, SERVICES
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy_local.log_queries import NoLogError
from volcanopy_local.process import api_service, container_logs, exec_commands, hosts, pod_status
from volcanopy_local.process.accounts import AccountTokens, ApiAddress, audiences_of
from volcanopy_local.process.api_service import ApiService
from volcanopy_local.process.container_spec import Sources, containers_of, referenced
from volcanopy_local.process.gpus import Gpus
from volcanopy_local.process.machine import description, is_process_node
from volcanopy_local.process.measurements import Usage
from volcanopy_local.process.plain_names import not_resolved, plain_names_of
from volcanopy_local.process.pod_runner import FIRST_BACK_OFF, PodRunner, Surroundings
from volcanopy_local.process.program_run import ProgramRun
from volcanopy_local.process.runtime import MachineRuntime
from volcanopy_local.process.status_writer import StatusWriter
from volcanopy_local.simulated.heartbeats import Heartbeats

log = structlog.get_logger(__name__)

AUTHORITIES = "kube-root-ca.crt"
"""The ConfigMap of the API server's authorities, which every namespace has; volumes have it without a controller too."""
OLDEST_MEASUREMENT = 15.0
"""Seconds over which the use of cpu is an average at most."""
STOP_GRACE = 2.0
"""Seconds that containers have to end when the cluster is stopped."""


class NotRunningError(Exception):
    """The container or pod does not run."""


async def _feed(run: ProgramRun, stdin: Pipe, once: bool) -> None:
    """Send a client's input to a container; its end closes the container's input if `once`."""
    with contextlib.suppress(OSError):
        while data := await stdin.read():
            await run.write_input(data)
        if once:
            run.end_input()


@dataclass(frozen=True)
class ProcessSettings:
    """Process nodes: where their pods keep files, and what runs their containers."""

    folder: Path
    claims: Path
    runtime: MachineRuntime
    back_off: float = FIRST_BACK_OFF
    temporary: Path | None = None
    """Where containers have their private /tmp; below `folder` if None."""


class ProcessKubelet:
    """Serves the nodes with the label `volcanopy.io/runtime: process`."""

    def __init__(self, client: Client, settings: ProcessSettings, address: ApiAddress | None = None) -> None:
        """`address` is where pods reach the API server; without it they get no credentials for it."""
        self.runtime = settings.runtime
        self._accounts: AccountTokens | None = None
        self._api_service: ApiService | None = None
        if address is not None and settings.runtime.has_mounts:
            self._accounts = AccountTokens(client, settings.folder / "accounts", address)
            self._api_service = ApiService(address)
        self.nodes = Heartbeats(
            client, is_own=is_process_node, arrived=self._arrived, departed=self._left, describe=description
        )
        self._client, self._settings = client, settings
        self._pods = Reflector(client, PODS, field_selector="spec.nodeName!=")
        self._services = Reflector(client, SERVICES)
        self._waiting: dict[str, dict[str, Json]] = {}
        self._runners: dict[str, PodRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._hosts = hosts.HostsFiles(settings.folder / "hosts")
        self._gpus = Gpus()
        self._events = EventRecorder(client, "kubelet")
        self._statuses = StatusWriter(client, self._events)
        self._ended: set[str] = set()
        self._deleted: set[str] = set()
        """Pods that are deleted while they run."""
        self._last_address = os.getpid() * hosts.BLOCK  # clusters of one machine share its loopback network
        self._reserved: dict[tuple[str, str, str], str] = {}
        """Addresses of pods whose names have been used, by namespace, subdomain and host name."""
        self._unresolved: dict[str, set[tuple[str, str]]] = {}
        """Services without addresses that Events of a pod name, by the uid of the pod."""
        self._measured: tuple[float, dict[tuple[str, str], Usage]] = (0.0, {})
        self._served_until: dict[str, float] = {}
        """When each node was served last before the start, in seconds since the epoch."""
        self.lost: list[str] = []
        """Pods that ran when the cluster ended: their programs have ended with it."""

    async def run(self, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
        """Serve until `stop` is set, then stop every container; `ready` is set once nodes and pods are listed."""
        async with self._events:
            if self._api_service is not None and (address := await self._api_service.start()):
                self._hosts.set_service(api_service.NAMESPACE, api_service.NAME, [address])
            async with asyncio.TaskGroup() as tasks:
                self._served_until = await self.nodes.renewal_times()
                watching = [
                    tasks.create_task(self.nodes.run(), name="process nodes"),
                    tasks.create_task(self._services.run(self._on_services), name="services"),
                    tasks.create_task(self._pods.run(self.on_changes), name="process pods"),
                ]
                if self._accounts is not None:
                    watching.append(tasks.create_task(self._accounts.run(self._renewed), name="accounts"))
                await self.nodes.reflector.synced.wait()
                await self._pods.synced.wait()
                await self._services.synced.wait()
                self._remove_old_files()
                if ready is not None:
                    ready.set()
                await stop.wait()
                for task in watching:
                    task.cancel()
            await self._stop_containers()
            if self._api_service is not None:
                await self._api_service.stop()

    async def _stop_containers(self) -> None:
        """Stop all programs. Their pods keep their statuses: the next start finds that their programs are lost."""
        self._statuses.close()
        for runner in self._runners.values():
            shortened = {**runner.pod["metadata"], "deletionGracePeriodSeconds": STOP_GRACE}
            runner.stop({**runner.pod, "metadata": shortened})
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def _remove_old_files(self) -> None:
        """Delete the files of pods that were deleted while the cluster did not run."""
        folder = self._settings.folder / "pods"
        uids = {pod["metadata"]["uid"] for pod in self._pods.objects.values()}
        for path in folder.iterdir() if folder.exists() else ():
            if path.name not in uids:
                shutil.rmtree(path, ignore_errors=True)

    # Watch events

    def on_changes(self, changes: Sequence[Change[Json]]) -> None:
        """Process changes of pods that have a node."""
        for change in changes:
            pod = change.object
            metadata, node = pod["metadata"], pod["spec"]["nodeName"]
            uid: str = metadata["uid"]
            if change.type is ChangeType.DELETED:
                self._waiting.get(node, {}).pop(uid, None)
                self._hosts.remove(uid)
                self._unresolved.pop(uid, None)
                self._statuses.forget(uid)
                if uid in self._ended:
                    self._ended.remove(uid)
                    self._remove_files(uid)
                if runner := self._runners.get(uid):
                    self._deleted.add(uid)
                    runner.stop({**pod, "metadata": {**metadata, "deletionGracePeriodSeconds": 0}})
                continue
            if self._statuses.is_replaced(pod):
                self._start(f"status {uid}", self._statuses.repeat(pod))
            if runner := self._runners.get(uid):
                self._update(runner, pod)
            elif uid in self._ended:
                # Events of what happened before the end can arrive after it.
                if "deletionTimestamp" in metadata and uid not in self._tasks:
                    self._start(uid, self._remove(pod))
            elif self.nodes.serves(node):
                self._add(pod)
            else:
                self._waiting.setdefault(node, {})[uid] = pod
            if (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
                self._hosts.remove(uid)
        namespaces = {change.object["metadata"]["namespace"] for change in changes}
        self._update_services(
            service for service in self._services.objects.values() if service["metadata"]["namespace"] in namespaces
        )

    def _on_services(self, changes: Sequence[Change[Json]]) -> None:
        for change in changes:
            if change.type is ChangeType.DELETED and not api_service.is_api(change.object):
                metadata = change.object["metadata"]
                self._hosts.set_service(metadata["namespace"], metadata["name"], [])
        self._update_services(change.object for change in changes if change.type is not ChangeType.DELETED)

    def _update_services(self, services: Iterable[Json]) -> None:
        """Write the names of these services and of all pods into the hosts files."""
        for service in services:
            if api_service.is_api(service):
                continue
            metadata, pods = service["metadata"], self._pods.objects.values()
            self._hosts.set_service(metadata["namespace"], metadata["name"], hosts.service_addresses(service, pods))
        self._hosts.write()

    def _arrived(self, node: str) -> None:
        for pod in self._waiting.pop(node, {}).values():
            self._add(pod)
        self._hosts.write()

    def _left(self, node: str) -> None:
        for runner in self._runners.values():
            if runner.pod["spec"]["nodeName"] == node:
                runner.stop(runner.pod)

    def _add(self, pod: Json) -> None:
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        over = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        if uid in self._tasks or (over and "deletionTimestamp" not in metadata):
            return
        if not over and any("running" in (status.get("state") or {}) for status in pod_status.all_of(pod)):
            self.lost.append(metadata["name"])
        runner = PodRunner(pod, self._surroundings(pod), partial(self._statuses.write, pod))
        if over or "deletionTimestamp" in metadata:
            runner.stop(pod)
        self._runners[uid] = runner
        self._start(uid, self._serve(runner))

    def _update(self, runner: PodRunner, pod: Json) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            runner.stop(pod)
        elif pod["metadata"].get("annotations") != runner.pod["metadata"].get("annotations"):
            self._start(f"refresh {pod['metadata']['uid']}", runner.refresh(pod))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that the kubelet waits for when it stops."""
        task = self._tasks[name] = asyncio.create_task(work, name=name)

        def ended(task: asyncio.Task[None]) -> None:
            if self._tasks.get(name) is task:
                del self._tasks[name]

        task.add_done_callback(ended)

    async def _serve(self, runner: PodRunner) -> None:
        """Run a pod; delete it from the API server if it is being deleted."""
        metadata = runner.pod["metadata"]
        try:
            await runner.run()
        except Exception:
            log.exception("pod could not be run", pod=f"{metadata['namespace']}/{metadata['name']}")
        finally:
            self._runners.pop(runner.uid, None)
            if runner.uid in self._deleted:
                self._deleted.remove(runner.uid)
                self._statuses.forget(runner.uid)
                self._remove_files(runner.uid)
            else:
                self._ended.add(runner.uid)
            self._gpus.release(runner.uid)
        if "deletionTimestamp" in runner.pod["metadata"]:
            await self._remove(runner.pod)

    async def _remove(self, pod: Json) -> None:
        """Delete a pod that has ended from the API server, and its files."""
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        with contextlib.suppress(NotFound, Conflict):
            await answered(lambda: self._client.delete(PODS, metadata["namespace"], metadata["name"], uid=uid, grace=0))
        self._remove_files(uid)

    def _remove_files(self, uid: str) -> None:
        """Delete volumes and logs of a pod; claims and host paths stay."""
        shutil.rmtree(self._settings.folder / "pods" / uid, ignore_errors=True)

    def _surroundings(self, pod: Json) -> Surroundings:
        metadata, spec = pod["metadata"], pod["spec"]
        namespace, name = metadata["namespace"], metadata["name"]
        hostname = spec.get("hostname") or name
        place = (namespace, spec.get("subdomain", ""), hostname)
        address = (pod.get("status") or {}).get("podIP") or self._reserved.get(place) or self._free_address()
        self._last_address = max(self._last_address, hosts.address_number(address))
        if not self.runtime.has_mounts and place[1]:
            self._reserved[place] = address
        self._hosts.add(metadata["uid"], hosts.HostEntry(address, namespace, name, hostname, place[1]))
        return Surroundings(
            folder=self._settings.folder / "pods" / metadata["uid"],
            temporary=self._settings.temporary or self._settings.folder / "tmp",
            claims=self._settings.claims,
            hosts=self._hosts.path(namespace),
            addresses={"pod": address, "host": hosts.HOST_ADDRESS},
            runtime=self.runtime,
            sources=self._sources,
            record=partial(self._statuses.record, pod),
            back_off=self._settings.back_off,
            served_until=self._served_until.get(spec["nodeName"], math.inf),
            gpus=self._take_gpus,
            credentials=self._accounts.of if self._accounts is not None else None,
            names=str if self.runtime.has_mounts else partial(self._replace_names, pod),
        )

    def _replace_names(self, pod: Json, text: str) -> str:
        """The text with addresses in place of the names of pods and Services; an Event of the pod for each that has none."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        reserved = {place[:2] for place in self._reserved}
        services = self._services.objects.values()
        names = plain_names_of(namespace, services, reserved, self._hosts.services, self._address_of)
        replaced = names.replaced(text)
        for service in names.without_addresses - self._unresolved.setdefault(uid, set()):
            self._unresolved[uid].add(service)
            self._statuses.record(pod, not_resolved(*service))
        return replaced

    def _address_of(self, hostname: str, subdomain: str, namespace: str) -> str:
        """The address of a pod, which it gets when it is created."""
        place = (namespace, subdomain, hostname)
        if place not in self._reserved:
            self._reserved[place] = self._free_address()
        return self._reserved[place]

    def _renewed(self) -> None:
        """Write new tokens into the volumes of pods that project them."""
        for uid, runner in self._runners.items():
            if any(True for _ in audiences_of(runner.pod)):
                self._start(f"refresh {uid}", runner.refresh(runner.pod))

    async def _take_gpus(self, pod: Json) -> dict[str, str]:
        return await self._gpus.take(pod, self.nodes.nodes[pod["spec"]["nodeName"]].metadata.annotations)

    def _free_address(self) -> str:
        self._last_address += 1
        return hosts.address_text(self._last_address)

    async def _sources(self, pod: Json) -> Sources:
        config_maps, secrets = referenced(pod)
        namespace = pod["metadata"]["namespace"]
        maps = await self._read(CONFIG_MAPS, namespace, config_maps)
        if self._accounts is None:
            return Sources(maps, await self._read(SECRETS, namespace, secrets))
        if AUTHORITIES in config_maps:
            maps.setdefault(AUTHORITIES, {"data": {"ca.crt": self._accounts.address.authorities}})
        return Sources(maps, await self._read(SECRETS, namespace, secrets), await self._accounts.tokens(pod))

    async def _read(self, kind: Kind[Json], namespace: str, names: set[str]) -> dict[str, Json]:
        objects = {}
        for name in sorted(names):
            with contextlib.suppress(NotFound):
                objects[name] = await answered(partial(self._client.get, kind, namespace, name))
        return objects

    # Connections with containers

    def check(self, pod: Mapping[str, Any], container: str) -> None:
        """Raise NotRunningError unless the container runs; with an empty name: unless the pod is here."""
        runner = self._runners.get(pod["metadata"]["uid"])
        if runner is None or (container and runner.running(container) is None):
            name = pod["metadata"]["name"]
            what = f'container "{container}" of pod "{name}"' if container else f'pod "{name}"'
            raise NotRunningError(f"{what} is not running")

    def _running(self, pod: Mapping[str, Any], container: str) -> tuple[PodRunner, ProgramRun]:
        self.check(pod, container)
        runner = self._runners[pod["metadata"]["uid"]]
        run = runner.running(container)
        assert run is not None
        return runner, run

    async def execute(self, pod: Mapping[str, Any], container: str, command: list[str], streams: CommandStreams) -> int:
        """Run a command in a container until it ends; its exit code. Raises NotRunningError, StartError."""
        runner, _ = self._running(pod, container)
        return await runner.execute(container, command, streams)

    async def attach(self, pod: Mapping[str, Any], container: str, streams: CommandStreams) -> None:
        """Connect a client with a container until the container ends. Raises NotRunningError."""
        _, run = self._running(pod, container)
        spec = next(candidate for candidate in containers_of(dict(pod)) if candidate["name"] == container)
        output = run.attach()
        tasks = [asyncio.create_task(_feed(run, streams.stdin, bool(spec.get("stdinOnce"))))] if streams.stdin else []
        tasks.append(asyncio.create_task(exec_commands.follow_sizes(run.resize, streams)))
        try:
            while data := await output.read():
                if streams.stdout is not None:
                    await streams.stdout(data)
        finally:
            run.detach(output)
            for task in tasks:
                task.cancel()

    async def connect(self, pod: Mapping[str, Any], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod: on its address, else on localhost, which pods share. Raises OSError."""
        try:
            return await asyncio.open_connection(pod["status"]["podIP"], port)
        except ConnectionRefusedError:
            return await asyncio.open_connection(hosts.HOST_ADDRESS, port)

    async def measure(self) -> Measurement:
        """What the containers use, on average since the last measurement, or since a second ago if that is too new or old."""
        before = self._measured
        if not 1.0 <= time.monotonic() - before[0] <= OLDEST_MEASUREMENT:
            before = (time.monotonic(), self._used())
            await asyncio.sleep(1.0)
        now, latest_usage = self._measured = (time.monotonic(), self._used())
        window = now - before[0]
        containers = []
        for (uid, container), usage in latest_usage.items():
            pod = self._runners[uid].pod
            cpu = max(usage.cpu - before[1].get((uid, container), Usage()).cpu, 0.0) / window
            metadata, node = pod["metadata"], pod["spec"]["nodeName"]
            place = (metadata["namespace"], metadata["name"], container, node)
            containers.append(ContainerUsage(*place, cpu, usage.memory))
        return Measurement(window, frozenset(filter(self.nodes.serves, self.nodes.nodes)), containers)

    def _used(self) -> dict[tuple[str, str], Usage]:
        return {(uid, name): usage for uid, runner in self._runners.items() for name, usage in runner.used().items()}

    # Logs

    def log(self, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> bytes | AsyncIterator[bytes]:
        """The log of a container. Raises NoLogError."""
        uid = pod["metadata"]["uid"]
        state = next((entry for entry in pod_status.all_of(pod) if entry["name"] == container), None)
        number = int(state["restartCount"]) if state is not None else 0
        previous = query.get("previous") in {"true", "1"}
        runner = self._runners.get(uid)
        run = runner.running(container) if runner is not None else None
        if previous and run is not None:
            number -= 1
        path = self._settings.folder / "pods" / uid / "logs" / container / f"{number}.log"
        name = pod["metadata"]["name"]
        if previous and number < 0:
            raise NoLogError(f'previous terminated container "{container}" in pod "{name}" not found')
        if not path.exists():
            waiting = ((state or {}).get("state") or {}).get("waiting") or {}
            if waiting:
                reason = waiting.get("reason", "ContainerCreating")
                raise NoLogError(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
            return b""
        is_followed = query.get("follow") in {"true", "1"} and not previous
        return container_logs.follow(path, path.stat().st_size, query, run if is_followed else None)
