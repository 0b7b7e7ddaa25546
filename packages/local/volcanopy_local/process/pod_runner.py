"""Runs one pod as a kubelet does.

1. Its volumes are created; what is missing (a ConfigMap, a Secret) is waited for.
2. Init containers run one after another, each until it succeeds; sidecars (restartPolicy Always) start in their place and stay.
3. The containers run beside each other and are restarted by the pod's policy, with a growing delay.
4. When all have ended the sidecars are stopped, and the phase is final.

A deletion or the deadline stops what runs: preStop, SIGTERM, and SIGKILL after the grace period.
"""

import asyncio
import contextlib
import math
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from embedded_apiserver.streams.command_streams import CommandStreams
from volcanopy.kube.client.kinds import Json
from volcanopy_local.conditions import with_transition_times
from volcanopy_local.process import pod_status, probes, storage_limits
from volcanopy_local.process.accounts import MOUNT_PATH, Credentials
from volcanopy_local.process.container_spec import ContainerConfigError, ContainerSpec, Sources, is_sidecar, resolve
from volcanopy_local.process.file_view import ContainerView, MountSource
from volcanopy_local.process.folders import temporary_folders
from volcanopy_local.process.gpus import VARIABLE
from volcanopy_local.process.launching import StartError
from volcanopy_local.process.measurements import Usage
from volcanopy_local.process.pod_events import PodEvent
from volcanopy_local.process.pod_status import ContainerRecord
from volcanopy_local.process.program_run import End, ProgramRun
from volcanopy_local.process.runtime import ContainerRequest, MachineRuntime
from volcanopy_local.process.termination import Termination
from volcanopy_local.process.volumes import Volumes
from volcanopy_local.simulated.pod_status import stamp

FIRST_BACK_OFF, LONGEST_BACK_OFF, STABLE = 10.0, 300.0, 600.0
"""Seconds: delay before the second restart of a container (the first has none), its maximum, and the run time that resets it."""
RETRY_CONFIG = 2.0
"""Seconds between attempts to create a container whose configuration is incomplete."""
DEFAULT_GRACE = 30.0
EVICTION_GRACE = 1.0
"""Seconds that the containers of a pod have which exceeds a limit of local storage, as with a kubelet."""
OUTPUT_LIMIT = 10 << 10
"""Bytes of the output of a probe that its Event has."""
_LOST = "its programs ended when the cluster was stopped or killed"
_UNKNOWN_END = f"The exit code is not known: {_LOST}."


@dataclass(frozen=True)
class Surroundings:
    """What a pod runs in: its folder, the volumes of claims, its hosts file, addresses, and how to read its objects."""

    folder: Path
    temporary: Path
    """Below it, containers have their private /tmp; its path is short, because that of a Unix socket has at most 107 bytes."""
    claims: Path
    hosts: Path
    addresses: dict[str, str]
    runtime: MachineRuntime
    sources: Callable[[Json], Awaitable[Sources]]
    record: Callable[[PodEvent], None]
    """Writes an Event of the pod."""
    names: Callable[[str], str] = str
    """Replaces names of pods in a text where programs have no hosts file."""
    back_off: float = FIRST_BACK_OFF
    served_until: float = math.inf
    """When the node was served last before this cluster started (seconds since the epoch): what ran ended then."""
    gpus: Callable[[Json], Awaitable[dict[str, str]]] | None = None
    """Waits for the GPUs of a pod; returns the visible devices of its containers on a node with GPUs."""
    credentials: Callable[[Json], Awaitable[Credentials]] | None = None
    """The credentials of a pod's service account; None where pods cannot reach the API server."""


class PodRunner:
    """A pod on its node; `publish` is called with its status at every change, and after the end of all containers."""

    def __init__(self, pod: Json, surroundings: Surroundings, publish: Callable[[Json], Awaitable[None]]) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self._around, self._publish = surroundings, publish
        spec = pod["spec"]
        self._init = [pod_status.restored(pod, container, init=True) for container in spec.get("initContainers") or ()]
        self._main = [pod_status.restored(pod, container, init=False) for container in spec["containers"]]
        self._policy: str = spec.get("restartPolicy", "Always")
        start = (pod.get("status") or {}).get("startTime")
        self._began = datetime.fromisoformat(start).timestamp() if start else time.time()
        self._volumes = Volumes(pod, surroundings.folder, surroundings.claims, surroundings.names)
        self._temporary: dict[str, Path] = {}
        """The private folder for /tmp of each container."""
        self._runs: dict[str, ProgramRun] = {}
        self._stopping = asyncio.Event()
        self._termination = Termination()
        self._reason = self._message = ""
        self._published: Json = {}
        self._devices: dict[str, str] = {}
        self._credentials = Credentials(None, {})
        self._conditions: list[Json] = (pod.get("status") or {}).get("conditions") or []

    # Life of the pod

    async def run(self) -> None:
        """Run the pod to its end or until it is stopped."""
        await self._recover()
        if self._reason:
            await self._show(final=True)
            return
        deadline = self.pod["spec"].get("activeDeadlineSeconds")
        if deadline is not None:
            deadline = max(deadline - (time.time() - self._began), 0.0)
        work = asyncio.create_task(self._run_all(), name=f"pod {self.pod['metadata']['name']}")
        stopping = asyncio.create_task(self._stopping.wait())
        storage = asyncio.create_task(self._watch_storage())
        try:
            await asyncio.wait({work, stopping, storage}, timeout=deadline, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                if storage.done() and not self._stopping.is_set():
                    self._reason, self._message = pod_status.EVICTED, storage.result()
                elif not self._stopping.is_set():
                    self._reason = "DeadlineExceeded"
                    self._message = "Pod was active on the node longer than the specified deadline"
                work.cancel()
                await asyncio.wait({work})
                await self._stop_all(EVICTION_GRACE if self._reason == pod_status.EVICTED else self._grace())
            if not work.cancelled():
                work.result()
            for folder in {path.parent for path in self._temporary.values()}:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            await self._show(final=True)
        finally:
            for task in (stopping, work, storage):
                task.cancel()
            for run in self._runs.values():
                run.signal(signal.SIGKILL)

    async def _watch_storage(self) -> str:
        """Wait until the pod exceeds a limit of local storage; the message of its eviction."""
        if not storage_limits.is_limited(self.pod):
            await self._stopping.wait()
            return ""
        while True:
            if message := await asyncio.to_thread(
                storage_limits.exceeded, self.pod, self._around.folder, self._temporary
            ):
                return message
            await asyncio.sleep(storage_limits.MEASURED)

    def stop(self, pod: Json) -> None:
        """Stop the pod within the grace period of its deletion; :meth:`run` returns when it has ended."""
        self.pod = pod
        self._stopping.set()
        self._termination.shorten(self._grace())

    async def refresh(self, pod: Json) -> None:
        """Write changed ConfigMaps, Secrets, labels and annotations into the volumes."""
        self.pod = pod
        with contextlib.suppress(ContainerConfigError):
            self._volumes.refresh(await self._around.sources(pod))

    def running(self, container: str) -> ProgramRun | None:
        """The current run of a container."""
        return self._runs.get(container)

    def used(self) -> dict[str, Usage]:
        """What each container that runs uses."""
        return {name: run.used() for name, run in self._runs.items()}

    def log_path(self, container: str, run: int) -> Path:
        """The log of a run of a container."""
        return self._around.folder / "logs" / container / f"{run}.log"

    def _grace(self) -> float:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        seconds = metadata.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE))
        return float(seconds)

    async def _recover(self) -> None:
        """End the runs that the status has from before: their processes ended with the cluster that started them.

        A pod whose containers do not restart is evicted, as from a node that is lost.
        """
        for state in (*self._init, *self._main):
            if (running := state.state.get("running")) is not None:
                ended = min(self._around.served_until, time.time())
                began = datetime.fromisoformat(running["startedAt"]).timestamp() if "startedAt" in running else ended
                state.end(self.uid, End(137, began, max(began, ended)), "ContainerStatusUnknown", _UNKNOWN_END)
                if self._policy == "Never" and not self._stopping.is_set():
                    self._reason, self._message = pod_status.EVICTED, _LOST

    async def _run_all(self) -> None:
        if self._around.gpus is not None:
            self._devices = await self._around.gpus(self.pod)
        if self._around.credentials is not None:
            self._credentials = await self._around.credentials(self.pod)
        await self._prepare()
        sidecars: list[asyncio.Task[None]] = []
        try:
            for state in self._init:
                if is_sidecar(state.container):
                    started = asyncio.Event()
                    sidecars.append(asyncio.create_task(self._supervise(state, "Always", started)))
                    await started.wait()
                elif state.exit_code != 0:
                    policy = "Never" if self._policy == "Never" else "OnFailure"
                    await self._supervise(state, policy)
                    if state.exit_code != 0:
                        return
            await asyncio.gather(*(self._supervise(state, self._policy) for state in self._main))
        finally:
            for task in sidecars:
                task.cancel()
            await asyncio.gather(*sidecars, return_exceptions=True)
            if sidecars and not self._stopping.is_set():
                await self._stop_all(self._grace())

    async def _prepare(self) -> None:
        """Create the volumes; wait while something that they need is missing."""
        while True:
            try:
                owners = [self._around.runtime.owner(self.pod, state.container) for state in (*self._init, *self._main)]
                self._volumes.create(await self._around.sources(self.pod), owners)
                if not self._temporary:
                    names = [state.name for state in (*self._init, *self._main)]
                    self._temporary = temporary_folders(self._around.temporary, names)
            except (ContainerConfigError, OSError) as error:
                for state in (*self._init, *self._main):
                    state.wait("CreateContainerConfigError", str(error))
                await self._show()
                await asyncio.sleep(RETRY_CONFIG)
            else:
                return

    # Life of a container

    async def _supervise(self, state: ContainerRecord, policy: str, started: asyncio.Event | None = None) -> None:
        """Run a container and restart it by its policy."""
        back_off = 0.0
        if state.exit_code is not None and not self._restarts(state, policy):
            return
        while True:
            if state.exit_code is not None:
                if back_off:
                    state.wait("CrashLoopBackOff", f"back-off {back_off:.0f}s restarting failed container={state.name}")
                    await self._show()
                    await asyncio.sleep(back_off)
                state.restarts += 1
                back_off = min(back_off * 2, LONGEST_BACK_OFF) if back_off else self._around.back_off
            end = await self._run_once(state, started)
            if end is not None and end.ended - end.began >= STABLE:
                back_off = 0.0
            await self._show()
            if not self._restarts(state, policy):
                return

    def _restarts(self, state: ContainerRecord, policy: str) -> bool:
        return policy == "Always" or (policy == "OnFailure" and state.exit_code != 0)

    async def _run_once(self, state: ContainerRecord, started: asyncio.Event | None) -> End | None:
        """Run a container once; None if it could not be started."""
        self._around.runtime.report_image(self.pod, state.container, self._around.record)
        try:
            run = await self._around.runtime.start(await self._resolve(state))
        except StartError as error:
            now = time.time()
            state.container_id = ""
            state.end(self.uid, End(error.code, now, now), "StartError", f"failed to start container: {error}")
            return None
        self._runs[state.name] = run
        state.run(self.uid, run.began)
        watches = self._watch_probes(state, run, started)
        try:
            await self._hook(state, "postStart", self._grace())
            await self._show()
            end = await run.wait()
        finally:
            for task in watches:
                task.cancel()
        self._runs.pop(state.name, None)
        state.end(self.uid, end)
        return end

    async def _resolve(self, state: ContainerRecord) -> ContainerRequest:
        """What the container runs and sees; waits while something that it needs is missing."""
        pod = {**self.pod, "status": {**(self.pod.get("status") or {}), "podIP": self._around.addresses["pod"]}}
        pod["status"]["hostIP"] = self._around.addresses["host"]
        while True:
            try:
                sources = await self._around.sources(self.pod)
                self._around.runtime.owner(self.pod, state.container)
                spec = resolve(pod, state.container, sources, self._credentials.environment)
                placement = self._placement(spec)
            except ContainerConfigError as error:
                state.wait("CreateContainerConfigError", str(error))
                await self._show()
                await asyncio.sleep(RETRY_CONFIG)
                continue
            if (devices := self._devices.get(state.name)) is not None:
                spec = replace(spec, environment={VARIABLE: devices, **spec.environment})
            name, log_path = f"{self.uid}-{state.name}-{state.restarts}", self.log_path(state.name, state.restarts)
            return ContainerRequest(self.pod, state.container, spec, placement, log_path, name)

    def _placement(self, spec: ContainerSpec) -> ContainerView:
        mounts = {mount.path: self._volumes.source(mount) for mount in spec.mounts}
        if self._credentials.folder is not None:
            mounts.setdefault(MOUNT_PATH, MountSource(self._credentials.folder.resolve(), read_only=True))
        hostname = self.pod["spec"].get("hostname") or self.pod["metadata"]["name"]
        return ContainerView(mounts, self._temporary[spec.name], self._around.hosts, hostname[:63], self._around.names)

    # Probes and hooks

    def _watch_probes(
        self, state: ContainerRecord, run: ProgramRun, started: asyncio.Event | None
    ) -> list[asyncio.Task[None]]:
        """Watch the probes of a container; without any it has started and is ready."""
        container, address = state.container, self._around.addresses["pod"]
        if not any(container.get(key) for key in ("startupProbe", "readinessProbe", "livenessProbe")):
            state.started = state.ready = True
            if started is not None:
                started.set()
            return []

        async def on_started() -> None:
            state.started = True
            if started is not None:
                started.set()
            await self._show()

        async def on_ready(verdict: bool) -> None:
            state.ready = verdict
            await self._show()

        async def restart(kind: str) -> None:
            message = f"Container {state.name} failed {kind} probe, will be restarted"
            self._around.record(PodEvent("Normal", "Killing", message, state.place))
            await run.stop(self._grace())

        def unhealthy(message: str) -> None:
            self._around.record(PodEvent("Warning", "Unhealthy", message, state.place))

        reactions = probes.Reactions(on_started, on_ready, restart, unhealthy)
        watching = probes.watch_all(container, address, partial(self._execute, state), reactions)
        return [asyncio.create_task(watching, name=f"probes of {state.name}")]

    async def _execute(self, state: ContainerRecord, command: list[str], timeout: float) -> tuple[int, str]:
        """Run a command in a container; its exit code and the beginning of its output. Raises TimeoutError, OSError."""
        output = bytearray()

        async def collect(data: bytes) -> None:
            output.extend(data[: OUTPUT_LIMIT - len(output)])

        try:
            async with asyncio.timeout(timeout):
                code = await self.execute(state.name, command, CommandStreams(stdout=collect, stderr=collect))
        except StartError as error:
            raise OSError(str(error)) from None
        return code, output.decode(errors="replace")

    async def execute(self, container: str, command: list[str], streams: CommandStreams) -> int:
        """Run a command in a running container until it ends; its exit code. Raises StartError."""
        state, run = self._state(container), self._runs.get(container)
        if run is None:
            raise StartError(f'container not found ("{container}")', 126)
        request = await self._resolve(state)
        request = replace(request, spec=replace(request.spec, command=tuple(command), arguments=()))
        return await self._around.runtime.execute(run, request, streams)

    async def _hook(self, state: ContainerRecord, kind: str, seconds: float) -> None:
        """Run a command of the container's lifecycle, within a time."""
        hook = ((state.container.get("lifecycle") or {}).get(kind) or {}).get("exec")
        if hook and seconds > 0:
            with contextlib.suppress(TimeoutError, OSError):
                await self._execute(state, list(hook.get("command") or ()), seconds)

    # Stop

    async def _stop_all(self, grace: float) -> None:
        """Stop what runs: preStop hooks, SIGTERM, and SIGKILL after the grace period, which a later deletion can shorten."""
        for name in self._runs:
            self._around.record(PodEvent("Normal", "Killing", f"Stopping container {name}", self._state(name).place))
        await self._termination.run(grace, [self._terminate(name, run, grace) for name, run in self._runs.items()])
        for name, run in list(self._runs.items()):
            run.signal(signal.SIGKILL)
            end = await run.wait()
            self._runs.pop(name, None)
            self._state(name).end(self.uid, end)

    async def _terminate(self, name: str, run: ProgramRun, grace: float) -> None:
        await self._hook(self._state(name), "preStop", grace)
        await run.stop(grace)

    def _state(self, container: str) -> ContainerRecord:
        return next(state for state in (*self._init, *self._main) if state.name == container)

    # Status

    async def _show(self, *, final: bool = False) -> None:
        states = [*self._init, *self._main]
        phase = pod_status.phase_of(self.pod, states)
        if (final and phase in {"Pending", "Running"}) or self._reason:
            phase = "Failed"
        now = time.time()
        status = pod_status.status(
            phase, states, self._began, now, self._around.addresses, reason=self._reason, message=self._message
        )
        self._conditions = status["conditions"] = with_transition_times(
            status["conditions"], self._conditions, stamp(now)
        )
        if status != self._published:
            self._published = status
            await self._publish(status)
