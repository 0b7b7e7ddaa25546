"""``volcanopy job logs``: what the pods of a job write, once or for as long as the job lasts.

While it is followed, a pod's containers are read from when they start, and again each time they are restarted; it ends
when the job has come to its end and all has been read.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import urlencode

import aiohttp

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.kinds import JOBS, PODS, key_of, spec_of, status_of
from volcanopy.cli.framework.objects import find_object
from volcanopy.cli.framework.options import Cluster, Place
from volcanopy.cli.framework.watch import WatchedObjects, watch_objects
from volcanopy.cli.jobs.columns import message, phase
from volcanopy.cli.jobs.phases import FINISHED, SUSPENDED
from volcanopy.cli.jobs.pods import in_order, index_of, pods_of, selector_of
from volcanopy.kube.cache.watch import Lines
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import ApiError, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.transport import no_answer

_AT_ONCE = 8
"""Logs that are fetched at the same time."""
_SILENCE = 7 * 86400.0
"""Seconds for which a container may write nothing."""


@dataclass(frozen=True)
class Reading:
    """Which logs, and how they are printed; ``prefix`` None leaves it to how many there are."""

    task: str = ""
    index: int | None = None
    container: str = ""
    every_container: bool = False
    previous: bool = False
    tail: int | None = None
    seconds: int | None = None
    timestamps: bool = False
    prefix: bool | None = None

    def chooses(self, pod: Json) -> bool:
        """Whether a pod of the task is meant."""
        return self.index is None or index_of(pod) == self.index

    def path(self, pod: Json, container: str, *, follow: bool) -> str:
        """Where a container's log is read."""
        said = {
            "container": container,
            "follow": "true" if follow else "",
            "previous": "true" if self.previous else "",
            "tailLines": "" if self.tail is None else str(self.tail),
            "sinceSeconds": "" if self.seconds is None else str(self.seconds),
            "timestamps": "true" if self.timestamps else "",
        }
        where = key_of(pod)
        query = urlencode({key: value for key, value in said.items() if value})
        return f"{PODS.path(where.namespace, where.name, 'log')}?{query}"


@dataclass(frozen=True)
class Source:
    """One container of one pod."""

    pod: Json
    container: str

    @property
    def title(self) -> str:
        """As ``kubectl logs --prefix`` says it."""
        return f"[pod/{key_of(self.pod).name}/{self.container}] "

    @property
    def status(self) -> Json:
        """What the kubelet says of the container."""
        every = [
            *(status_of(self.pod).get("initContainerStatuses") or ()),
            *(status_of(self.pod).get("containerStatuses") or ()),
        ]
        return next((one for one in every if one.get("name") == self.container), {})

    @property
    def started(self) -> bool:
        """Whether it runs or has run, so that there is something to read."""
        stands = self.status.get("state") or {}
        return "running" in stands or "terminated" in stands

    @property
    def run(self) -> tuple[str, str, int]:
        """Which run of which container it is."""
        return (self.pod["metadata"]["uid"], self.container, self.status.get("restartCount", 0))


async def logs(cluster: Cluster, place: Place, name: str, reading: Reading, *, on: bool) -> None:
    """Print the logs of the job's pods, and go ``on`` until it has ended; raises Stop when there are none."""
    async with cluster.client() as client:
        job = await find_object(client, JOBS, place.of(client), name)
        tasks = [task["name"] for task in spec_of(job)["tasks"]]
        if reading.task and reading.task not in tasks:
            raise CommandError(f"job {key_of(job).name} has no task {reading.task!r}: it has {', '.join(tasks)}")
        if on:
            await follow(client, job, reading)
            return
        pods = [pod for pod in await pods_of(client, job, reading.task) if reading.chooses(pod)]
        sources = [source for pod in pods for source in _sources(pod, reading)]
        if not sources:
            raise CommandError(_nothing(job, reading))
        await _print_all(client, job, sources, reading)


async def follow(client: Client, job: Json, reading: Reading, *, must_find: bool = True) -> None:
    """Print the logs of a job until it has ended; raises Stop when there were none that had to be."""
    follower = _Follower(client, job, reading)
    await follower.run()
    if must_find and not follower.found_any:
        raise CommandError(_nothing(follower.job, reading))


def _nothing(job: Json, reading: Reading) -> str:
    which = f"task {reading.task} of " if reading.task else ""
    which = f"pod {reading.index} of {which}" if reading.index is not None else which
    told = f": {message(job)}" if message(job) else ""
    return f"there is no pod of {which}job {key_of(job).name}, which is {phase(job)}{told}"


def _sources(pod: Json, reading: Reading) -> list[Source]:
    """The containers of a pod that are to be read: the first one if nothing else is said."""
    containers = [one["name"] for one in spec_of(pod)["containers"]]
    first = [one["name"] for one in spec_of(pod).get("initContainers") or ()]
    if reading.every_container:
        return [Source(pod, name) for name in (*first, *containers)]
    wanted = reading.container or containers[0]
    if wanted not in {*containers, *first}:
        raise CommandError(
            f"pod {key_of(pod).name} has no container {wanted!r}: it has {', '.join((*first, *containers))}"
        )
    return [Source(pod, wanted)]


async def _print_all(client: Client, job: Json, sources: Sequence[Source], reading: Reading) -> None:
    """Print the logs one after the other, whole; what has not started is said."""
    prefix = len(sources) > 1 if reading.prefix is None else reading.prefix
    room = asyncio.Semaphore(_AT_ONCE)

    async def fetch(source: Source) -> bytes | CommandError:
        if not source.started and not reading.previous:
            return CommandError(f"pod {key_of(source.pod).name} has not started: {_why_not(source)}")
        async with room:
            try:
                return await client.get_raw(reading.path(source.pod, source.container, follow=False))
            except ApiError as fault:
                return CommandError(f"pod {key_of(source.pod).name}: {fault}")

    answers = await asyncio.gather(*(fetch(source) for source in sources))
    refused = [one for one in answers if isinstance(one, CommandError)]
    if len(refused) == len(answers):
        rest = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        told = f"; job {key_of(job).name} is {phase(job)}: {message(job)}" if message(job) else ""
        raise CommandError(f"{refused[0]}{rest}{told}")
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(answer, CommandError):
            sys.stdout.flush()
            print(f"volcanopy: {answer}", file=sys.stderr)
        else:
            _write(answer, source.title if prefix else "")


def _why_not(source: Source) -> str:
    waiting = (source.status.get("state") or {}).get("waiting") or {}
    unplaced = "it has no node yet" if not spec_of(source.pod).get("nodeName") else "its node has not started it yet"
    return str(waiting.get("message") or waiting.get("reason") or unplaced)


def _write(text: bytes, title: str) -> None:
    out = sys.stdout.buffer
    if title and text:
        mark = title.encode()
        text = b"".join(mark + line for line in text.splitlines(keepends=True))
    out.write(text if not text or text.endswith(b"\n") else text + b"\n")
    out.flush()


class _Follower:
    """Reads the logs of a job's pods as they start, until the job has come to its end."""

    def __init__(self, client: Client, job: Json, reading: Reading) -> None:
        self._client, self.job, self._reading = client, job, reading
        self._read: set[tuple[str, str, int]] = set()
        self._going: set[asyncio.Task[None]] = set()
        pods = sum(task.get("replicas", 1) for task in spec_of(job)["tasks"] if reading.task in {"", task["name"]})
        single = (pods == 1 or (reading.index is not None and bool(reading.task))) and not reading.every_container
        self._prefix = not single if reading.prefix is None else reading.prefix

    @property
    def found_any(self) -> bool:
        """Whether anything of the job has run."""
        return bool(self._read)

    async def run(self) -> None:
        """Return when the job is finished or gone and all that was written has been printed."""
        where = key_of(self.job)
        one_job = f"metadata.name={where.name}"
        labels = selector_of(where.name, self._reading.task)
        async with (
            watch_objects(self._client, JOBS, where.namespace, fields=one_job) as jobs,
            watch_objects(self._client, PODS, where.namespace, selector=labels, also=jobs) as pods,
        ):
            try:
                while True:
                    self._start(pods)
                    ended = self._ended(jobs)
                    if ended and not self._going:
                        break
                    await self._next(pods, only_ends=ended)
            finally:
                for task in self._going:
                    task.cancel()
                await asyncio.gather(*self._going, return_exceptions=True)

    async def _next(self, pods: WatchedObjects, *, only_ends: bool) -> None:
        """Wait until something has changed, or a log has ended."""
        changed = asyncio.create_task(pods.changed())
        waiting = self._going if only_ends and self._going else {changed, *self._going}
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        changed.cancel()
        for task in done - {changed}:
            self._going.discard(task)
            task.result()

    def _start(self, pods: WatchedObjects) -> None:
        for pod in in_order(list(pods.objects.values()), self.job):
            if not self._reading.chooses(pod):
                continue
            for source in _sources(pod, self._reading):
                if source.started and source.run not in self._read:
                    self._read.add(source.run)
                    self._going.add(asyncio.create_task(self._copy(source)))

    def _ended(self, jobs: WatchedObjects) -> bool:
        uid = self.job["metadata"]["uid"]
        now = next((job for job in jobs.objects.values() if job["metadata"]["uid"] == uid), None)
        if now is None:
            return True
        self.job = now
        return phase(now) in FINISHED or phase(now) == SUSPENDED

    async def _copy(self, source: Source) -> None:
        """Print a container's log until it ends; a connection that breaks is said, and ends it."""
        title = source.title if self._prefix else ""
        try:
            async with aclosing(self._lines(source)) as pieces:
                async for piece in pieces:
                    _write(piece, title)
        except NotFound:
            return  # the pod has gone meanwhile
        except KubeError as fault:
            print(f"volcanopy: the log of pod {key_of(source.pod).name} broke off: {fault}", file=sys.stderr)

    async def _lines(self, source: Source) -> AsyncGenerator[bytes, None]:
        """Whole lines as they come, and what is left at the end."""
        path = self._reading.path(source.pod, source.container, follow=True)
        async with self._client.stream(path, stall=_SILENCE) as stream:
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
