"""Logs of containers and connections with them, whichever kubelet runs their pod."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from embedded_apiserver.context import AccessError
from embedded_apiserver.server import ApiServer
from embedded_apiserver.status_errors import bad_request
from embedded_apiserver.streams.command_streams import CommandStreams
from volcanopy.kube.client.kinds import Json
from volcanopy_local import log_queries
from volcanopy_local.log_queries import NoLogError
from volcanopy_local.process.kubelet import NotRunningError, ProcessKubelet
from volcanopy_local.process.launching import StartError
from volcanopy_local.simulated import container_logs
from volcanopy_local.simulated.kubelet import Kubelet


class Kubelets(Protocol):
    """The cluster that has the containers."""

    server: ApiServer

    @property
    def kubelet(self) -> Kubelet:
        """The kubelet of simulated nodes."""

    @property
    def process_kubelet(self) -> ProcessKubelet | None:
        """The kubelet of process nodes, if there are any."""


class Containers:
    """The containers of an embedded cluster."""

    def __init__(self, cluster: Kubelets) -> None:
        self._cluster = cluster

    def _process_kubelet(self, pod: Mapping[str, Any]) -> ProcessKubelet | None:
        """The kubelet of the pod's node if it is a process node."""
        kubelet = self._cluster.process_kubelet
        return kubelet if kubelet is not None and kubelet.nodes.serves(pod["spec"].get("nodeName", "")) else None

    # Connections

    def check(self, pod: Json, container: str) -> None:
        """Raise ApiError unless the container runs on a process node; with an empty name: unless the pod does."""
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if not node:
            raise bad_request(f"pod {name} does not have a host assigned")
        kubelet = self._process_kubelet(pod)
        if kubelet is None:
            raise bad_request(f"pod {name} runs no processes: its node {node} is simulated")
        try:
            kubelet.check(pod, container)
        except NotRunningError as error:
            raise bad_request(str(error)) from None

    def _required_kubelet(self, pod: Json) -> ProcessKubelet:
        kubelet = self._process_kubelet(pod)
        if kubelet is None:
            raise AccessError("the node of the pod is gone")
        return kubelet

    async def execute(self, pod: Json, container: str, command: list[str], streams: CommandStreams) -> int:
        """Run a command in a container until it ends; its exit code. Raises AccessError."""
        try:
            return await self._required_kubelet(pod).execute(pod, container, command, streams)
        except (NotRunningError, StartError) as error:
            raise AccessError(f"error executing command in container: {error}") from None

    async def attach(self, pod: Json, container: str, streams: CommandStreams) -> None:
        """Connect with a container's main process until it ends. Raises AccessError."""
        try:
            await self._required_kubelet(pod).attach(pod, container, streams)
        except NotRunningError as error:
            raise AccessError(str(error)) from None

    async def connect(self, pod: Json, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod. Raises AccessError."""
        try:
            return await self._required_kubelet(pod).connect(pod, port)
        except OSError as error:
            name = pod["metadata"]["name"]
            raise AccessError(f"cannot connect to port {port} of pod {name}: {error.strerror or error}") from None

    # Logs

    def log(self, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> bytes | AsyncIterator[bytes]:
        """The log of a container, or pieces of it as they come. Raises ApiError."""
        process = self._process_kubelet(pod)
        try:
            log_queries.check(query)
            if process is not None:
                return process.log(pod, container, query)
            lines = container_logs.lines(pod, container, previous=query.get("previous") in {"true", "1"})
        except NoLogError as fault:
            raise bad_request(str(fault)) from None
        if query.get("follow") in {"true", "1"} and container_logs.is_running(pod, container):
            return self._follow(pod, container, query, len(lines))
        return container_logs.text(lines, query, time.time())

    async def _follow(
        self, pod: Mapping[str, Any], container: str, query: Mapping[str, str], sent_bytes: int
    ) -> AsyncIterator[bytes]:
        """Yield the log until the simulated container's current run ends, or its pod is deleted."""
        metadata, run = pod["metadata"], container_logs.run_number(pod, container)
        yield container_logs.text(container_logs.lines(pod, container), query, time.time())
        bucket = self._cluster.server.context.store.bucket("pods")
        while True:
            next_change = self._cluster.kubelet.next_change(f"{metadata['namespace']}/{metadata['name']}")
            entry = bucket.get(metadata["namespace"], metadata["name"])
            if entry is None or entry.uid != metadata["uid"]:
                return
            now: Mapping[str, Any] = entry.body
            if not container_logs.is_running(now, container) or container_logs.run_number(now, container) != run:
                restarted = container_logs.run_number(now, container) != run
                lines = container_logs.lines(now, container, previous=restarted)
                rest = {key: value for key, value in query.items() if key == "timestamps"}
                yield container_logs.text(lines[sent_bytes:], rest, time.time())
                return
            await next_change.wait()
