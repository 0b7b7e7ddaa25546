"""Runs the containers of pods in a container engine."""

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from embedded_apiserver.streams.command_streams import CommandStreams
from volcanopy.kube.client.kinds import Json
from volcanopy.local.engine.api import EngineApi, EngineError, Stream
from volcanopy.local.engine.container_body import Abilities, body_of
from volcanopy.local.engine.images import Images, full_name
from volcanopy.local.process import exec_commands
from volcanopy.local.process.cgroups import oom_events_of, oom_kills
from volcanopy.local.process.container_run import OUTPUT_CHUNK, ContainerRun, End, StartError
from volcanopy.local.process.container_spec import Sources
from volcanopy.local.process.measurements import Usage, descendants, used_by
from volcanopy.local.process.pod_events import PodEvent
from volcanopy.local.process.pod_status import place_in
from volcanopy.local.process.program_run import ProgramRun
from volcanopy.local.process.runtime import NO_IMAGE, ContainerRequest, MachineRuntime
from volcanopy.local.process.users import User

log = structlog.get_logger(__name__)

PODMAN = "podman"
LOST = 255
"""Exit code of a container that the engine does not know any more, as a kubelet shows it."""
NO_PROGRAM = re.compile("not found|no such file", re.IGNORECASE)
"""In the message of a container whose program does not exist."""
_CONFLICT, _NOT_FOUND = 409, 404


@dataclass(frozen=True)
class Engine:
    """A running engine: its name, its API, the label of this cluster's containers, and what it can do."""

    name: str
    api: EngineApi
    cluster: str
    abilities: Abilities


class EngineRuntime:
    """Containers run in an engine, and those with the image `none` as programs of this machine."""

    has_mounts = True

    def __init__(self, engine: Engine, machine: MachineRuntime, config: Path) -> None:
        self.name = engine.name
        self._engine, self._machine = engine, machine
        self._images = Images(engine.api, config)

    @property
    def description(self) -> str:
        """What a container sees of the machine, and which limits are enforced."""
        abilities = self._engine.abilities
        limited = [name for name, enforced in (("memory", abilities.memory), ("cpu", abilities.cpu)) if enforced]
        limits = f"Limits of {' and '.join(limited)} are enforced" if limited else "Limits are not enforced"
        return (
            f"each container has the files of its image; the network is that of the machine. {limits} by {self.name}. "
            f"Containers with the image `{NO_IMAGE}` run programs of this machine with {self._machine.name}."
        )

    async def pull(self, pod: Json, container: Json, sources: Sources, report: Callable[[PodEvent], None]) -> None:
        """Pull the image of a container if its policy requires that. Raises ImageError."""
        if container.get("image") != NO_IMAGE:
            place = place_in(pod, container["name"])
            await self._images.make_available(pod, container, sources, report, place)

    def owner(self, pod: Json, container: Json) -> User | None:
        """The user of a program of this machine; an engine needs none. Raises ContainerConfigError."""
        return self._machine.owner(pod, container) if container.get("image") == NO_IMAGE else None

    async def start(self, request: ContainerRequest) -> ContainerRun:
        """Create and start a container, and follow its output from the beginning. Raises StartError."""
        if request.container.get("image") == NO_IMAGE:
            return await self._machine.start(request)
        request.log.parent.mkdir(parents=True, exist_ok=True)
        api = self._engine.api
        try:
            identifier = await self._create(request)
        except EngineError as error:
            raise StartError(str(error), 128) from None
        try:
            tty, stdin = bool(request.container.get("tty")), "1" if request.container.get("stdin") else "0"
            stream = await api.stream(
                f"/containers/{identifier}/attach", tty=tty, stream="1", stdin=stdin, stdout="1", stderr="1"
            )
            try:
                await api.call("POST", f"/containers/{identifier}/start")
                facts = await api.call("GET", f"/containers/{identifier}/json")
            except EngineError:
                stream.close()
                raise
        except EngineError as error:
            with contextlib.suppress(EngineError):
                await _delete(api, identifier)
            raise StartError(str(error), 127 if NO_PROGRAM.search(str(error)) else 128) from None
        return EngineRun(self._engine, facts, stream, request.log)

    async def _create(self, request: ContainerRequest) -> str:
        """The id of a new container. Raises EngineError."""
        engine, metadata = self._engine, request.pod["metadata"]
        number = request.name.rpartition("-")[2]
        name = f"k8s_{request.spec.name}_{metadata['name']}_{metadata['namespace']}_{metadata['uid']}_{number}"
        try:
            request = replace(request, placement=request.placement.with_paths())
        except OSError as error:
            raise StartError(f"its volumes cannot be mounted: {error}", 128) from None
        body = body_of(request, full_name(request.container["image"]), engine.cluster, engine.abilities)
        try:
            created = await engine.api.call("POST", "/containers/create", body, name=name)
        except EngineError as error:
            if error.status != _CONFLICT:
                raise
            # It is left of a cluster that was killed together with its guardian.
            await _delete(engine.api, name)
            created = await engine.api.call("POST", "/containers/create", body, name=name)
        return str(created["Id"])

    async def execute(self, run: ContainerRun, request: ContainerRequest, streams: CommandStreams) -> int:
        """Run the command of the request in a running container until it ends; its exit code. Raises StartError."""
        if isinstance(run, ProgramRun):
            return await self._machine.execute(run, request, streams)
        assert isinstance(run, EngineRun)
        try:
            return await run.execute(list(request.spec.argv), streams)
        except EngineError as error:
            raise StartError(str(error), 126) from None


async def _delete(api: EngineApi, container: str) -> None:
    await api.call("DELETE", f"/containers/{container}", force="true", v="true")


class EngineRun(ContainerRun):
    """A running container of an engine; the engine forgets it when it has ended."""

    def __init__(self, engine: Engine, facts: Json, stream: Stream, log: Path) -> None:
        self._name, self._api, self._id, self._stream = engine.name, engine.api, str(facts["Id"]), stream
        self._pid = int(facts["State"]["Pid"])
        self.identifier, self.image_id = f"{engine.name}://{self._id}", str(facts.get("Image", ""))
        self._requests: set[asyncio.Task[Any]] = set()
        self._oom_events = oom_events_of(self._pid) if self._pid else None
        self._exited, self._out_of_memory = _watched(self._pid), False
        super().__init__(log)
        if self._exited >= 0:
            asyncio.get_running_loop().add_reader(self._exited, self._count_kills)
        self._end = asyncio.create_task(self._until_end(), name=f"container {self._id[:12]}")

    def _count_kills(self) -> None:
        """At the end of the first process: read whether its memory was the reason, before the engine deletes its group."""
        asyncio.get_running_loop().remove_reader(self._exited)
        os.close(self._exited)
        if self._oom_events is not None:
            self._out_of_memory = oom_kills(self._oom_events) > 0
            self._oom_events.close()

    async def _read(self) -> bytes:
        part = await self._stream.read(OUTPUT_CHUNK)
        return b"" if part is None else part.data

    async def write_input(self, data: bytes) -> None:
        """Send bytes to the container's input. Raises OSError if it reads none any more."""
        await self._stream.write(data)

    def end_input(self) -> None:
        """Close the container's input."""
        self._stream.end_input()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the container's terminal; without effect if it has none."""
        self._send(self._api.call("POST", f"/containers/{self._id}/resize", h=str(rows), w=str(columns)))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the first process of the container."""
        self._send(self._api.call("POST", f"/containers/{self._id}/kill", signal=number.name))

    def _send(self, request: Coroutine[Any, Any, Any]) -> None:
        """Send a request in the background; a container that has ended rejects it."""

        async def sent() -> None:
            with contextlib.suppress(EngineError):
                await request

        task = asyncio.create_task(sent())
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def used(self) -> Usage:
        """What the processes of the container use."""
        return used_by([self._pid, *descendants(self._pid)]) if self._pid else Usage()

    async def wait(self) -> End:
        """Wait for the end of the container, after which the engine has no trace of it."""
        return await asyncio.shield(self._end)

    async def _ended(self) -> None:
        await self.wait()

    async def _until_end(self) -> End:
        code = LOST
        try:
            code = int((await self._api.call("POST", f"/containers/{self._id}/wait"))["StatusCode"])
            await self.copied()
            state = (await self._api.call("GET", f"/containers/{self._id}/json"))["State"]
            self._out_of_memory = self._out_of_memory or bool(state["OOMKilled"])
            await _delete(self._api, self._id)
        except EngineError as error:
            if error.status != _NOT_FOUND:
                log.warning("container engine lost a container", container=self._id[:12], error=str(error))
        self._stream.close()
        return End(code, self.began, time.time(), self._out_of_memory)

    # Commands beside the container's own

    async def execute(self, command: list[str], streams: CommandStreams) -> int:
        """Run a command in the container; its exit code. Raises EngineError."""
        created = await self._api.call(
            "POST",
            f"/containers/{self._id}/exec",
            {
                "Cmd": command,
                "Tty": streams.tty,
                "AttachStdin": streams.stdin is not None,
                "AttachStdout": True,
                "AttachStderr": True,
            },
        )
        place = f"/exec/{created['Id']}"
        stream = await self._api.stream(f"{place}/start", {"Detach": False, "Tty": streams.tty}, tty=streams.tty)
        tasks = [asyncio.create_task(exec_commands.follow_sizes(self._resizer(place), streams), name="terminal size")]
        if streams.stdin is not None:
            tasks.append(asyncio.create_task(_feed(stream, streams), name="stdin"))
        try:
            while (part := await stream.read(OUTPUT_CHUNK)) is not None:
                if (write := streams.stderr if part.is_error else streams.stdout) is not None:
                    await write(part.data)
            return await self._exit_code(place)
        except asyncio.CancelledError:
            await asyncio.shield(self._kill(place))
            raise
        finally:
            for task in tasks:
                task.cancel()
            stream.close()

    async def _exit_code(self, place: str) -> int:
        """The exit code of a command whose output has ended."""
        while True:
            facts = await self._api.call("GET", f"{place}/json")
            if not facts["Running"]:
                self._end_monitor(place)
                return int(facts["ExitCode"])
            await asyncio.sleep(0.02)

    def _resizer(self, place: str) -> Callable[[int, int], None]:
        def resize(columns: int, rows: int) -> None:
            self._send(self._api.call("POST", f"{place}/resize", h=str(rows), w=str(columns)))

        return resize

    async def _kill(self, place: str) -> None:
        """Kill a command with what it has started, where this user may do that."""
        with contextlib.suppress(EngineError, OSError):
            facts = await self._api.call("GET", f"{place}/json")
            if facts["Running"] and facts.get("Pid"):
                for pid in (*descendants(facts["Pid"]), facts["Pid"]):
                    os.kill(pid, signal.SIGKILL)
            self._end_monitor(place)

    def _end_monitor(self, place: str) -> None:
        """End the processes with which podman observes a command: they stay for five minutes after its end.

        They have nothing more to do once the exit code has been read.
        """
        if self._name != PODMAN:
            return
        command = place.rpartition("/")[2].encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                program, *arguments = (folder / "cmdline").read_bytes().split(b"\0")
                if program.endswith(b"conmon") and command in arguments:
                    os.kill(int(folder.name), signal.SIGKILL)


def _watched(pid: int) -> int:
    """A descriptor that is readable when a process ends; -1 if it has ended."""
    with contextlib.suppress(ProcessLookupError):
        if pid:
            return os.pidfd_open(pid)
    return -1


async def _feed(stream: Stream, streams: CommandStreams) -> None:
    assert streams.stdin is not None
    with contextlib.suppress(OSError):
        while data := await streams.stdin.read():
            await stream.write(data)
        stream.end_input()
