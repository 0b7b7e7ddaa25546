"""``volcanopy job logs``: prints the logs of a job's pods, with the pod's name before each line where there are several."""

import sys
from collections.abc import Sequence

from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption
from volcanopy.cli.framework.tables import coloured
from volcanopy.cli.jobs.wait_notes import WaitNotes
from volcanopy.client.durations import seconds
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.logs import ContainerLog, Follower, no_pod_error, read_logs, sources_of
from volcanopy.client.jobs.options import LogOptions
from volcanopy.client.jobs.pods import pods_of
from volcanopy.client.jobs.status import message, summary
from volcanopy.client.kinds import read
from volcanopy.client.objects import find_object
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS

_COLOURS = (36, 33, 32, 35, 34, 31)
"""Colours of prefixes (SGR codes), one pod after the other."""


async def logs(cluster: ClusterOptions, place: NamespaceOption, name: str, options: LogOptions) -> None:
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
        sources = sources_of(await pods_of(client, job, options.task), options)
        if not sources:
            raise no_pod_error(job, options)
        await _print_all(client, job, sources, options)


async def follow_logs(client: Client, body: Json, options: LogOptions, *, required: bool = True) -> None:
    """Print the logs of a job until it has finished; with ``required``, raises CommandError when there were none."""
    job = read(BatchJob, body)
    follower = Follower(client, job, options, _FollowedLogs(job, options))
    await follower.run()
    if required and not follower.any_read:
        raise no_pod_error(follower.job, options)


async def _print_all(client: Client, job: BatchJob, sources: Sequence[ContainerLog], options: LogOptions) -> None:
    """Print the logs one after the other; containers that have not started are reported."""
    prefix = len(sources) > 1 if options.prefix is None else options.prefix
    results = await read_logs(client, sources, options)
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


class _FollowedLogs(WaitNotes):
    """Prints lines as they arrive, and notes on why the job waits."""

    def __init__(self, job: BatchJob, options: LogOptions) -> None:
        super().__init__()
        self._numbers: dict[str, int] = {}
        pods = sum(task.replicas for task in job.spec.tasks if options.task in {"", task.name})
        single = (pods == 1 or (options.index is not None and bool(options.task))) and not options.all_containers
        self._prefix = not single if options.prefix is None else options.prefix

    def write(self, source: ContainerLog, text: bytes) -> None:
        """Print lines of a container."""
        number = self._numbers.setdefault(source.pod.metadata.name, len(self._numbers))
        _write(text, _coloured(source.title if self._prefix else "", number))

    def interrupted(self, source: ContainerLog, fault: KubeError) -> None:
        """Report a log that ended too early."""
        print(f'volcanopy: log of pod "{source.pod.metadata.name}" interrupted: {fault}', file=sys.stderr)
