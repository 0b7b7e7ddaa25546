"""Reads the objects for a report; what the user may not read is noted and left out."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from volcanopy.api import core, names
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.bindings import BINDINGS, VOLCANOPY, Binding
from volcanopy.cli.explain.confirmed import Confirmed, confirmed, waits
from volcanopy.cli.explain.hierarchy import ancestors, descendants, parent_of
from volcanopy.cli.explain.job import JobFacts, Lease
from volcanopy.cli.explain.pod_problems import is_starting
from volcanopy.cli.explain.queue import QueueFacts
from volcanopy.cli.explain.report import single_line
from volcanopy.cli.framework.description import events_of
from volcanopy.cli.framework.durations import current_time
from volcanopy.cli.framework.kinds import read, readable
from volcanopy.cli.framework.objects import bare_name, find_object
from volcanopy.cli.jobs import status as job_status
from volcanopy.cli.jobs.pods import Pod, pods_of
from volcanopy.cli.jobs.status import queue as queue_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS, LEASES, POD_GROUPS, QUEUES, bound

T = TypeVar("T")
_DEPTH = 32
"""Maximum number of ancestors of a queue that are read."""
_STARTING_PODS = 8
"""Maximum number of pods whose events are read."""


@dataclass
class Reads:
    """Reads that may be forbidden; ``unread`` has a sentence for each that was."""

    unread: list[str] = field(default_factory=list)

    async def optional(self, request: Awaitable[T], what: str) -> T | None:
        """Return the result; None if the object does not exist or may not be read."""
        try:
            return await request
        except NotFound:
            return None
        except Forbidden:
            self.unread.append(f"you may not read {what}: not included")
            return None


async def find_job(client: Client, namespace: str, name: str, api: str = "") -> tuple[Binding, Json]:
    """Return a job with its API: of the named one, else a BatchJob or, where there is none, a Job of Volcano.

    Raises CommandError.
    """
    name = bare_name(JOBS, name)
    for binding in BINDINGS:
        try:
            if api in {"", binding.name}:
                return binding, await client.get(bound(JOBS, binding), namespace, name)
        except NotFound:
            continue
        except Forbidden:
            if binding is VOLCANOPY:
                raise
    return VOLCANOPY, await find_object(client, JOBS, namespace, name)


async def job_facts(
    client: Client, namespace: str, name: str, system_namespace: str, seconds: float = 0, api: str = ""
) -> JobFacts:
    """Read the objects about a job, and search for remedies so long. Raises CommandError.

    ``system_namespace`` is that of the scheduler's lease, ``api`` as in :func:`find_job`.
    """
    binding, body = await find_job(client, namespace, name, api)
    job, reads = read(BatchJob, body), Reads()
    group_name = f"{job.metadata.name}-{job.metadata.uid}"
    reading: Awaitable[Json] = client.get(bound(POD_GROUPS, binding), namespace, group_name)
    group, queue, pods, lease = await asyncio.gather(
        reads.optional(reading, "the job's pod group"),
        queue_if_readable(reads, client, queue_of(job)),
        reads.optional(pods_of(client, job, binding=binding), f'the pods of namespace "{namespace}"'),
        lease_of(client, system_namespace),
    )
    pod_group = read(core.PodGroup, group) if group is not None else None
    search = Confirmed()
    if seconds and job_status.phase(job) in {"Pending", "Running", "Restarting"} and waits(pod_group):
        search = await confirmed(client, f"{job.metadata.namespace}/{group_name}", seconds)
        reads.unread += [search.note] if search.note else []
    return JobFacts(
        job=job,
        now=current_time(),
        group=pod_group,
        answer=search.answer,
        queue=queue[0],
        queue_missing=queue[1],
        pods=pods,
        warnings=await start_warnings(client, pods or ()),
        lease=lease,
        unread=tuple(sorted(reads.unread)),
    )


async def start_warnings(client: Client, pods: Sequence[Pod]) -> dict[str, str]:
    """Return the warning of pods that are starting, by name, where it is in the latest event of the pod.

    A volume that cannot be mounted is in no status: kubelets write an event only.
    """
    starting = [pod.metadata for pod in pods if is_starting(pod)][:_STARTING_PODS]
    latest = {event.involved_object.name: event for event in await events_of(client, *starting) or ()}
    return {
        name: single_line(f"{event.reason}: {event.message}")
        for name, event in latest.items()
        if event.type == "Warning" and event.reason != "FailedScheduling"
    }


async def queue_if_readable(reads: Reads, client: Client, name: str) -> tuple[core.Queue | None, bool]:
    """Return the queue of any API if it may be read, and whether it is known not to exist."""
    for binding in BINDINGS:
        try:
            return read(core.Queue, await client.get(bound(QUEUES, binding), None, name)), False
        except NotFound:
            continue
        except Forbidden:
            if binding is VOLCANOPY:
                reads.unread.append(f'you may not read queue "{name}": not included')
                return None, False
    return None, True


async def lease_of(client: Client, namespace: str) -> Lease | None:
    """Return the scheduler's lease; None if it does not exist or may not be read, which most users may not."""
    try:
        body = await client.get(LEASES, namespace, f"{names.SCHEDULER}-scheduler")
    except KubeError:
        return None
    return read(Lease, body)


async def queue_facts(client: Client, name: str) -> QueueFacts:
    """Read the objects about a queue. Raises CommandError."""
    queue, reads = read(core.Queue, await find_object(client, QUEUES, None, name)), Reads()
    listing = await reads.optional(client.list(QUEUES), "the list of queues")
    below: Sequence[core.Queue] | None
    if listing is None:
        above, below = await _ancestors(reads, client, queue), None
    else:
        queues = readable(core.Queue, listing.items)
        above, below = ancestors(queue, queues), descendants(queue.metadata.name, queues)
    groups = await _groups(reads, client, {each.metadata.name for each in (queue, *(below or ()))})
    return QueueFacts(queue=queue, ancestors=above, descendants=below, groups=groups, unread=tuple(reads.unread))


async def _ancestors(reads: Reads, client: Client, queue: core.Queue) -> list[core.Queue]:
    """Read the ancestors one by one, for users who may not list queues."""
    result: list[core.Queue] = []
    name = parent_of(queue)
    while name and len(result) < _DEPTH:
        body = await reads.optional(client.get(QUEUES, None, name), f'queue "{name}"')
        if body is None:
            break
        parent = read(core.Queue, body)
        result.append(parent)
        name = parent_of(parent)
    return result


async def _groups(reads: Reads, client: Client, queues: set[str]) -> list[core.PodGroup] | None:
    """Return the PodGroups of these queues: of all namespaces, or of the user's own if others are forbidden."""
    try:
        listing = await client.list(POD_GROUPS)
    except Forbidden:
        namespace = client.connection.namespace
        own = await reads.optional(client.list(POD_GROUPS, namespace), f'the pod groups of namespace "{namespace}"')
        if own is None:
            return None
        reads.unread.append(f'you may read pod groups of namespace "{namespace}" only: others are not included')
        listing = own
    groups = readable(core.PodGroup, listing.items)
    return [group for group in groups if (group.spec.queue or names.DEFAULT_QUEUE) in queues]
