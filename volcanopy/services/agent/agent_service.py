"""The agent process: it writes the NumaTopology of its node, with the load of the node in an annotation, when they change.

The object has the name of the node and belongs to it. It is written with server-side apply: what the agent no longer reports
is removed, and a deleted object is created again. The agent reads nothing from the API server but its node.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from volcanopy.api import names
from volcanopy.api.node_load import NodeLoad
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.backoff import Backoff, answered
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.raw_kinds import NODES, NUMA_TOPOLOGIES
from volcanopy.services.agent import node_report, pod_resources
from volcanopy.services.agent.load_window import Load, LoadWindow, is_due, sample
from volcanopy.services.agent.machine_files import MachineFiles
from volcanopy.services.agent.node_report import NodeCpus, ReportError
from volcanopy.services.process.health import Health, Heartbeat
from volcanopy.services.process.startup import cancelled_by

log = structlog.get_logger(__name__)

_ANSWER_WITHIN = 10.0
"""Seconds that the kubelet has to answer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between attempts to write while the API server does not accept the object."""


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """The agent's settings. Times are in seconds."""

    node: str
    """The name of its node."""
    api: str = names.API
    """The API in whose group NumaTopologies are written: one of :data:`volcanopy.api.bindings.APIS`, the first of both."""
    files: MachineFiles = field(default_factory=MachineFiles)
    """The files of the node."""
    interval: float = 15.0
    """Between two reads of the files."""


async def run(
    connection: Connection,
    settings: AgentSettings,
    stop: asyncio.Event,
    *,
    health: Health | None = None,
    now: Callable[[], datetime] = machine.utc_now,
) -> None:
    """Report until ``stop`` is set. Raises ReportError if the files of the kernel cannot be read at the start, KubeError."""
    async with Client(connection, field_manager="volcanopy-agent") as client:
        agent = Agent(client, settings, now)
        heartbeat = Heartbeat("report", max(8 * settings.interval, 120.0))
        if health is not None:
            health.live["reports"] = heartbeat.problem
        await asyncio.to_thread(settings.files.cpu_locations)
        backoff = Backoff(machine.new_random(), _FIRST_PAUSE, _LONGEST_PAUSE)
        while not stop.is_set():
            pause = settings.interval
            try:
                async with cancelled_by(stop):
                    await agent.report()
                heartbeat.beat()
                backoff.reset()
            except (KubeError, ReportError) as error:
                pause = backoff.next()
                log.warning("node not reported", node=settings.node, problem=str(error))
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue


class Agent:
    """Reads the files of a node and writes what has changed."""

    def __init__(self, client: Client, settings: AgentSettings, now: Callable[[], datetime]) -> None:
        self._client, self._settings, self._now = client, settings, now
        self._kind = next(iter(api_views(client, settings.api))).of_api(NUMA_TOPOLOGIES)
        self._window = LoadWindow()
        self._owner: dict[str, Any] | None = None
        self._written: dict[str, Any] | None = None
        self._load: Load | None = None
        self._problem = ""

    async def report(self) -> bool:
        """Read the files once; return whether the object was written. Raises ReportError, KubeError."""
        cpus = await asyncio.to_thread(self._cpus)
        spec, load = node_report.spec(cpus), self._window.add(sample(*self._settings.files.counters(), self._now()))
        if spec == self._written and (load is None or not is_due(self._load, load)):
            return False
        load = load or self._load
        await self._write(spec, load)
        self._written, self._load = spec, load
        return True

    def _cpus(self) -> NodeCpus:
        files = self._settings.files
        return NodeCpus(files.cpu_locations(), files.settings(), self._listed())

    def _listed(self) -> list[node_report.ContainerCpus]:
        """Return what the kubelet lists; nothing where it does not answer, which is logged when it begins."""
        problem, listed = "", list[node_report.ContainerCpus]()
        try:
            listed = pod_resources.containers(self._settings.files.socket, _ANSWER_WITHIN)
        except pod_resources.PodResourcesError as error:
            problem = str(error)
        if problem != self._problem:
            self._problem = problem
            if problem:
                log.warning("exclusive CPUs of pods not known", problem=problem)
            else:
                log.info("exclusive CPUs of pods known")
        return listed

    async def _write(self, spec: dict[str, Any], load: Load | None) -> None:
        name = self._settings.node
        if self._owner is None:
            node = await answered(lambda: self._client.get(NODES, None, name))
            self._owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        annotations = {} if load is None else {names.NODE_LOAD: annotation(load)}
        body = {
            "apiVersion": self._kind.api_version,
            "kind": self._kind.kind,
            "metadata": {"name": name, "annotations": annotations, "ownerReferences": [self._owner]},
            "spec": spec,
        }
        await self._client.patch(self._kind, None, name, body, PatchType.APPLY, force=True)
        log.debug("node reported", node=name)


def annotation(load: Load) -> str:
    """Return the value of the annotation with a load."""
    measured = load.measured.astimezone(UTC).replace(microsecond=0)
    deviation, peak = ({"cpu": cpu, "memory": memory} for cpu, memory in (load.deviation, load.peak))
    node_load = NodeLoad(cpu=load.cpu, memory=load.memory, measured=measured, deviation=deviation, peak=peak)
    return msgspec.json.encode(node_load).decode()
