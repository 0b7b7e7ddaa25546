"""``volcanopy job logs``: logs of a job's pods, once or until the job finishes.

When following, a container is read from its start, and again after each restart; the command ends when the job has
finished and all logs are read.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import urlencode

import aiohttp

from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.durations import WEEK, seconds
from volcanopy.cli.framework.kinds import read
from volcanopy.cli.framework.objects import find_object
from volcanopy.cli.framework.options import Cluster, Place
from volcanopy.cli.framework.tables import coloured
from volcanopy.cli.framework.watch import WatchedObjects, watch_objects
from volcanopy.cli.jobs.options import LogOptions
from volcanopy.cli.jobs.pods import ContainerStatus, Pod, index_of, pods_in_order, pods_of, selector_of
from volcanopy.cli.jobs.status import FINISHED, SUSPENDED, message, phase, summary
from volcanopy.cli.jobs.wait_notes import GRACE, WaitNotes
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.lines import Lines
from volcanopy.kube.client.raw_kinds import JOBS, PODS
from volcanopy.kube.client.streams import no_answer

_COLOURS = (36, 33, 32, 35, 34, 31)
"""Colours of prefixes (SGR codes), one pod after the other."""
_PARALLEL = 8
"""Maximum number of concurrent requests for logs."""


def log_path(source: "Source", options: LogOptions, *, follow: bool) -> str:
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


def is_selected(pod: Pod, options: LogOptions) -> bool:
    """Return whether a pod of the task is selected."""
    return options.index is None or index_of(pod) == options.index


@dataclass(frozen=True)
class Source:
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


async def logs(cluster: Cluster, place: Place, name: str, options: LogOptions) -> None:
    """Print the logs of the job's pods; raises CommandError when there are none."""
    if options.since:
        seconds("--since", options.since)
    async with cluster.client() as client:
        body = await find_object(client, JOBS, place.of(client), name)
        job = read(BatchJob, body)
        tasks = [task.name for task in job.spec.tasks]
        if options.task and options.task not in tasks:
            message = f'--task: job "{job.metadata.name}" has no task "{options.task}", only {", ".join(tasks)}'
            raise CommandError(message)
        if options.follow:
            await follow_logs(client, body, options)
            return
        pods = [pod for pod in await pods_of(client, job, options.task) if is_selected(pod, options)]
        sources = [source for pod in pods for source in _sources(pod, options)]
        if not sources:
            raise _no_pod(job, options)
        await _print_all(client, job, sources, options)


async def follow_logs(client: Client, body: Json, options: LogOptions, *, required: bool = True) -> None:
    """Print the logs of a job until it has finished; with ``required``, raises CommandError when there were none."""
    follower = _Follower(client, read(BatchJob, body), options)
    await follower.run()
    if required and not follower.any_read:
        raise _no_pod(follower.job, options)


def _no_pod(job: BatchJob, options: LogOptions) -> CommandError:
    pods = "pod" if options.index is None else f"pod {options.index}"
    task = f' of task "{options.task}"' if options.task else ""
    return CommandError(f'no {pods}{task} of job "{job.metadata.name}" found; the job is {summary(job)}')


def _sources(pod: Pod, options: LogOptions) -> list[Source]:
    """Return the selected containers of a pod, by default the first one."""
    containers = [container.name for container in pod.spec.containers]
    init_containers = [container.name for container in pod.spec.init_containers]
    if options.all_containers:
        return [Source(pod, name) for name in (*init_containers, *containers)]
    name = options.container or containers[0]
    if name not in {*containers, *init_containers}:
        names = ", ".join((*init_containers, *containers))
        raise CommandError(f'--container: pod "{pod.metadata.name}" has no container "{name}", only {names}')
    return [Source(pod, name)]


async def _print_all(client: Client, job: BatchJob, sources: Sequence[Source], options: LogOptions) -> None:
    """Print the logs one after the other; containers that have not started are reported."""
    prefix = len(sources) > 1 if options.prefix is None else options.prefix
    slots = asyncio.Semaphore(_PARALLEL)

    async def fetch(source: Source) -> bytes | CommandError:
        name = source.pod.metadata.name
        if not source.started and not options.previous:
            return CommandError(f'pod "{name}" has not started: {_wait_reason(source)}')
        async with slots:
            try:
                return await client.get_raw(log_path(source, options, follow=False))
            except ApiError as fault:
                return CommandError(f'pod "{name}": {fault}')

    results = await asyncio.gather(*(fetch(source) for source in sources))
    failures = [result for result in results if isinstance(result, CommandError)]
    if len(failures) == len(results):
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        suffix = f'; job "{job.metadata.name}" is {summary(job)}' if message(job) else ""
        raise CommandError(f"{failures[0]}{more}{suffix}")
    for number, (source, result) in enumerate(zip(sources, results, strict=True)):
        if isinstance(result, CommandError):
            sys.stdout.flush()
            print(f"volcanopy: {result}", file=sys.stderr)
        else:
            _write(result, _coloured(source.title if prefix else "", number))


def _wait_reason(source: Source) -> str:
    default = "its node has not started it yet" if source.pod.spec.node_name else "it has no node yet"
    waiting = source.status.state.waiting
    return (waiting.message or waiting.reason or default) if waiting else default


def _coloured(title: str, number: int) -> str:
    """Return a prefix in a colour of its own, on a terminal that shows colours."""
    return f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{title}\x1b[0m" if title and coloured() else title


def _write(text: bytes, title: str) -> None:
    out = sys.stdout.buffer
    if title and text:
        prefix = title.encode()
        text = b"".join(prefix + line for line in text.splitlines(keepends=True))
    out.write(text if not text or text.endswith(b"\n") else text + b"\n")
    out.flush()


class _Follower:
    """Reads the logs of a job's pods from their start until the job has finished."""

    def __init__(self, client: Client, job: BatchJob, options: LogOptions) -> None:
        self._client, self.job, self._options = client, job, options
        self._read: set[tuple[str, str, int]] = set()
        self._numbers: dict[str, int] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._notes = WaitNotes()
        pods = sum(task.replicas for task in job.spec.tasks if options.task in {"", task.name})
        single = (pods == 1 or (options.index is not None and bool(options.task))) and not options.all_containers
        self._prefix = not single if options.prefix is None else options.prefix

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
                    self._notes.observe(self.job)
                    if not await self._next(pods, only_ends=finished):
                        self._notes.observe(self.job, patient=False)
            finally:
                for task in self._reading:
                    task.cancel()
                await asyncio.gather(*self._reading, return_exceptions=True)

    async def _next(self, pods: WatchedObjects, *, only_ends: bool) -> bool:
        """Wait until an object has changed or a log has ended; return False if nothing has for some time."""
        changed = asyncio.create_task(pods.changed())
        waiting = self._reading if only_ends and self._reading else {changed, *self._reading}
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=GRACE)
        changed.cancel()
        for task in done - {changed}:
            self._reading.discard(task)
            task.result()
        return bool(done)

    def _start(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            if not is_selected(pod, self._options):
                continue
            for source in _sources(pod, self._options):
                if source.started and source.run not in self._read:
                    self._read.add(source.run)
                    self._reading.add(asyncio.create_task(self._copy(source)))

    def _is_finished(self, jobs: WatchedObjects) -> bool:
        current = jobs.with_uid(self.job.metadata.uid)
        if current is None:
            return True
        self.job = read(BatchJob, current)
        return phase(self.job) in FINISHED or phase(self.job) == SUSPENDED

    async def _copy(self, source: Source) -> None:
        """Print a container's log until it ends; a broken connection is reported and ends it."""
        number = self._numbers.setdefault(source.pod.metadata.name, len(self._numbers))
        title = _coloured(source.title if self._prefix else "", number)
        try:
            async with aclosing(self._lines(source)) as lines:
                async for line in lines:
                    _write(line, title)
        except NotFound:
            return  # the pod was deleted meanwhile
        except KubeError as fault:
            print(f'volcanopy: log of pod "{source.pod.metadata.name}" interrupted: {fault}', file=sys.stderr)

    async def _lines(self, source: Source) -> AsyncGenerator[bytes, None]:
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
