"""Logs of a job's pods, once or until the job finishes.

When following, a container is read from its start, and again after each restart, until the job has finished and all logs
are read.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

import aiohttp

from volcanopy.api.batch_read import BatchJob
from volcanopy.client.durations import WEEK, seconds
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.options import LogOptions
from volcanopy.client.jobs.pods import ContainerStatus, Pod, index_of, pods_in_order, pods_of, selector_of
from volcanopy.client.jobs.status import FINISHED, SUSPENDED, phase, summary
from volcanopy.client.kinds import read
from volcanopy.client.watch import WatchedObjects, watch_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError, NotFound
from volcanopy.kube.client.lines import Lines
from volcanopy.kube.client.raw_kinds import JOBS, PODS
from volcanopy.kube.client.streams import no_answer

GRACE = 5.0
"""Seconds after which a job that waits as usual, such as for its admission, is noted too."""
_PARALLEL = 8
"""Maximum number of concurrent requests for logs."""
_LAST_LINES = 20
"""Lines of the log in the error of a job that failed."""


@dataclass(frozen=True)
class ContainerLog:
    """A container of a pod."""

    pod: Pod
    container: str

    @property
    def title(self) -> str:
        """The prefix of its lines, as of ``kubectl logs --prefix``."""
        return f"[pod/{self.pod.metadata.name}/{self.container}] "

    @property
    def status(self) -> ContainerStatus:
        """The observed status of the container."""
        statuses = (*self.pod.status.init_container_statuses, *self.pod.status.container_statuses)
        return next((status for status in statuses if status.name == self.container), ContainerStatus())

    @property
    def started(self) -> bool:
        """Whether the container has started, so that there is a log."""
        state = self.status.state
        return state.running is not None or state.terminated is not None

    @property
    def run(self) -> tuple[str, str, int]:
        """Identity of the container's run."""
        return (self.pod.metadata.uid, self.container, self.status.restart_count)

    @property
    def wait_reason(self) -> str:
        """Why the container has not started."""
        default = "its node has not started it yet" if self.pod.spec.node_name else "it has no node yet"
        waiting = self.status.state.waiting
        return (waiting.message or waiting.reason or default) if waiting else default


class LogOutput(Protocol):
    """Where followed logs go."""

    def write(self, source: ContainerLog, text: bytes) -> None:
        """Take whole lines of a container."""

    def interrupted(self, source: ContainerLog, fault: KubeError) -> None:
        """Take the error that ended a log too early."""

    def observe(self, job: BatchJob, *, patient: bool) -> None:
        """Take a state of the job; not ``patient``: nothing has changed for some time."""


def log_path(source: ContainerLog, options: LogOptions, *, follow: bool) -> str:
    """Return the URL path of a container's log; raises CommandError for an invalid ``--since``."""
    parameters = {
        "container": source.container,
        "follow": "true" if follow else "",
        "previous": "true" if options.previous else "",
        "tailLines": "" if options.tail is None else str(options.tail),
        "sinceSeconds": str(max(1, round(seconds("--since", options.since)))) if options.since else "",
        "timestamps": "true" if options.timestamps else "",
    }
    query = urlencode({key: value for key, value in parameters.items() if value})
    return f"{PODS.path(source.pod.metadata.namespace, source.pod.metadata.name, 'log')}?{query}"


async def end_of_log(client: Client, pod: Pod, tail: int | None) -> str:
    """Return the last lines of the first container of a pod; all without ``tail``. Raises ApiError where there is no log."""
    path = log_path(ContainerLog(pod, pod.spec.containers[0].name), LogOptions(tail=tail), follow=False)
    return (await client.get_raw(path)).decode(errors="replace")


async def failure_log(client: Client, pods: Iterable[Pod]) -> str:
    """Return the end of the log of the first pod that failed, as the end of a sentence; empty where there is none."""
    pod = next((pod for pod in pods if pod.status.phase == "Failed"), None)
    if pod is None:
        return ""
    try:
        text = (await end_of_log(client, pod, _LAST_LINES)).rstrip()
    except KubeError:
        return ""
    return f"; the last lines of pod {pod.metadata.name}:\n{text}" if text else ""


def sources_of(pods: Iterable[Pod], options: LogOptions) -> list[ContainerLog]:
    """Return the selected containers of the selected pods. Raises CommandError for a container that does not exist."""
    selected = (pod for pod in pods if options.index is None or index_of(pod) == options.index)
    return [source for pod in selected for source in _sources(pod, options)]


def _sources(pod: Pod, options: LogOptions) -> list[ContainerLog]:
    """Return the selected containers of a pod, by default the first one."""
    containers = [container.name for container in pod.spec.containers]
    init_containers = [container.name for container in pod.spec.init_containers]
    if options.all_containers:
        return [ContainerLog(pod, name) for name in (*init_containers, *containers)]
    name = options.container or containers[0]
    if name not in {*containers, *init_containers}:
        names = ", ".join((*init_containers, *containers))
        raise CommandError(f'--container: pod "{pod.metadata.name}" has no container "{name}", only {names}')
    return [ContainerLog(pod, name)]


def no_pod_error(job: BatchJob, options: LogOptions) -> CommandError:
    """Return the error for a selection that matches no pod of the job."""
    pods = "pod" if options.index is None else f"pod {options.index}"
    task = f' of task "{options.task}"' if options.task else ""
    return CommandError(f'no {pods}{task} of job "{job.metadata.name}" found; the job is {summary(job)}')


async def read_logs(client: Client, sources: Sequence[ContainerLog], options: LogOptions) -> list[bytes | CommandError]:
    """Return the log of each container, or why there is none."""
    slots = asyncio.Semaphore(_PARALLEL)

    async def fetch(source: ContainerLog) -> bytes | CommandError:
        name = source.pod.metadata.name
        if not source.started and not options.previous:
            return CommandError(f'pod "{name}" has not started: {source.wait_reason}')
        async with slots:
            try:
                return await client.get_raw(log_path(source, options, follow=False))
            except ApiError as fault:
                return CommandError(f'pod "{name}": {fault}')

    return await asyncio.gather(*(fetch(source) for source in sources))


class Follower:
    """Reads the logs of a job's pods from their start until the job has finished."""

    def __init__(self, client: Client, job: BatchJob, options: LogOptions, output: LogOutput) -> None:
        self._client, self.job, self._options, self._output = client, job, options, output
        self._read: set[tuple[str, str, int]] = set()
        self._reading: set[asyncio.Task[None]] = set()

    @property
    def any_read(self) -> bool:
        """Whether any container of the job has started."""
        return bool(self._read)

    async def run(self) -> None:
        """Return when the job is finished or deleted and all logs are printed."""
        metadata = self.job.metadata
        labels = selector_of(metadata.name, self._options.task)
        async with (
            watch_objects(self._client, JOBS, metadata.namespace, fields=f"metadata.name={metadata.name}") as jobs,
            watch_objects(self._client, PODS, metadata.namespace, selector=labels, also=jobs) as pods,
        ):
            try:
                complete = False
                while True:
                    self._start(pods_in_order(pods.objects.values(), self.job))
                    finished = self._is_finished(jobs)
                    if finished and not complete:
                        # The watch of the pods may be behind that of the job.
                        self._start(await pods_of(self._client, self.job, self._options.task))
                        complete = True
                    if finished and not self._reading:
                        break
                    self._output.observe(self.job, patient=True)
                    if not await self._next(pods, only_ends=finished):
                        self._output.observe(self.job, patient=False)
            finally:
                for task in self._reading:
                    task.cancel()
                await asyncio.gather(*self._reading, return_exceptions=True)

    async def _next(self, pods: WatchedObjects, *, only_ends: bool) -> bool:
        """Wait until an object has changed or a log has ended; return False if nothing has for some time."""
        pods_change = asyncio.create_task(pods.changed())
        waiting = self._reading if only_ends and self._reading else {pods_change, *self._reading}
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=GRACE)
        pods_change.cancel()
        for task in done - {pods_change}:
            self._reading.discard(task)
            task.result()
        return bool(done)

    def _start(self, pods: Sequence[Pod]) -> None:
        for source in sources_of(pods, self._options):
            if source.started and source.run not in self._read:
                self._read.add(source.run)
                self._reading.add(asyncio.create_task(self._copy(source)))

    def _is_finished(self, jobs: WatchedObjects) -> bool:
        current = jobs.with_uid(self.job.metadata.uid)
        if current is None:
            return True
        self.job = read(BatchJob, current)
        return phase(self.job) in FINISHED or phase(self.job) == SUSPENDED

    async def _copy(self, source: ContainerLog) -> None:
        """Output a container's log until it ends; a broken connection is reported and ends it."""
        try:
            async with aclosing(self._lines(source)) as lines:
                async for line in lines:
                    self._output.write(source, line)
        except NotFound:
            return  # the pod was deleted meanwhile
        except KubeError as fault:
            self._output.interrupted(source, fault)

    async def _lines(self, source: ContainerLog) -> AsyncGenerator[bytes, None]:
        """Yield whole lines as they arrive, and the rest at the end."""
        path = log_path(source, self._options, follow=True)
        async with self._client.stream(path, stall=WEEK) as stream:
            lines = Lines()
            while True:
                try:
                    chunk = await stream.readany()
                except (aiohttp.ClientError, OSError, TimeoutError) as fault:
                    raise no_answer(path.partition("?")[0], fault) from fault
                if not chunk:
                    break
                if whole := lines.feed(chunk):
                    yield whole
            if rest := lines.feed(b"\n").removesuffix(b"\n"):
                yield rest + b"\n"
