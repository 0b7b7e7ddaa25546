"""What is asked of the cluster for an explanation: as much as whoever asks may read, and what was not to be read."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from volcanopy.api import names
from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.explaining.job import JobFacts
from volcanopy.cli.explaining.queue import QueueFacts
from volcanopy.cli.framework.durations import current_time
from volcanopy.cli.framework.kinds import JOBS, POD_GROUPS, PODS, QUEUES, key_of, read, spec_of
from volcanopy.cli.framework.objects import find_object
from volcanopy.cli.jobs.pods import pods_in_order, selector_of
from volcanopy.cli.jobs.status import queue as queue_of
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.leader.lease import LEASES

T = TypeVar("T")
_DEPTH = 32
"""Queues above a queue at most: a tree that is deeper, or a ring, is none."""


@dataclass
class Asking:
    """Asks what may be asked, and keeps what may not."""

    unread: list[str] = field(default_factory=list)

    async def may(self, asked: Awaitable[T], what: str) -> T | None:
        """The answer; None where there is no such thing, and where it may not be read, which is noted."""
        try:
            return await asked
        except NotFound:
            return None
        except Forbidden:
            self.unread.append(f"{what} may not be read by you, so nothing is said about it")
            return None


async def job_facts(client: Client, namespace: str, given: str, system: str) -> JobFacts:
    """What is known of the job of that name; raises Stop when there is none. ``system`` is where the scheduler's lease is."""
    job = await find_object(client, JOBS, namespace, given)
    asking = Asking()
    name = queue_of(read(BatchJob, job))
    group_name = f"{key_of(job).name}-{job['metadata']['uid']}"
    reading: Awaitable[Json] = client.get(POD_GROUPS, namespace, group_name)
    group, queue, pods, lease = await asyncio.gather(
        asking.may(reading, "the job's pod group"),
        _queue(asking, client, name),
        asking.may(_pods(client, job), f"the pods of namespace {namespace}"),
        _lease(client, system),
    )
    there, missing = queue
    return JobFacts(
        job=job,
        now=current_time(),
        group=group,
        queue=there,
        queue_missing=missing,
        pods=pods,
        lease=lease,
        unread=tuple(sorted(asking.unread)),
    )


async def _pods(client: Client, job: Json) -> list[Json]:
    key = key_of(job)
    listing = await client.list(PODS, key.namespace, label_selector=selector_of(key.name))
    bodies = {key_of(body).name: body for body in listing.items}
    return [bodies[pod.metadata.name] for pod in pods_in_order(listing.items, read(BatchJob, job))]


async def _queue(asking: Asking, client: Client, name: str) -> tuple[Json | None, bool]:
    """The queue if it may be read, and whether there certainly is none."""
    try:
        return await client.get(QUEUES, None, name), False
    except NotFound:
        return None, True
    except Forbidden:
        asking.unread.append(f"queue {name} may not be read by you, so nothing is said about it")
        return None, False


async def _lease(client: Client, system: str) -> Json | None:
    """The scheduler's lease; None where there is none or it may not be read: not everybody's business."""
    try:
        return await client.get(LEASES, system, f"{names.SCHEDULER}-scheduler")
    except KubeError:
        return None


async def queue_facts(client: Client, given: str) -> QueueFacts:
    """What is known of the queue of that name; raises Stop when there is none."""
    queue = await find_object(client, QUEUES, None, given)
    asking = Asking()
    every = await asking.may(client.list(QUEUES), "the list of queues")
    if every is None:
        above = await _above_one_by_one(asking, client, queue)
        below: Sequence[Json] | None = None
    else:
        above, below = line_above(queue, every.items), all_below(queue, every.items)
    groups = await _groups(asking, client, {key_of(each).name for each in (queue, *(below or ()))})
    return QueueFacts(queue=queue, above=above, below=below, groups=groups, unread=tuple(asking.unread))


async def _above_one_by_one(asking: Asking, client: Client, queue: Json) -> list[Json]:
    line: list[Json] = []
    name = parent_of(queue)
    while name and len(line) < _DEPTH:
        above = await asking.may(client.get(QUEUES, None, name), f"queue {name}")
        if above is None:
            break
        line.append(above)
        name = parent_of(above)
    return line


async def _groups(asking: Asking, client: Client, queues: set[str]) -> list[Json] | None:
    """The PodGroups of these queues: of all namespaces, or, with fewer rights, of one's own."""
    try:
        listing = await client.list(POD_GROUPS)
    except Forbidden:
        own = client.connection.namespace
        kept = await asking.may(client.list(POD_GROUPS, own), f"the pod groups of namespace {own}")
        if kept is None:
            return None
        asking.unread.append(
            f"pod groups were looked at in namespace {own} only: those of others may not be read by you"
        )
        listing = kept
    return [group for group in listing.items if (spec_of(group).get("queue") or names.DEFAULT_QUEUE) in queues]


def parent_of(queue: Json) -> str:
    """The name of the queue above; empty for the root."""
    name = key_of(queue).name
    return "" if name == names.ROOT_QUEUE else str(spec_of(queue).get("parent") or names.ROOT_QUEUE)


def line_above(queue: Json, every: Sequence[Json]) -> list[Json]:
    """The queues above it, the nearest first; it ends where one does not exist, or comes again."""
    known = {key_of(one).name: one for one in every}
    line: list[Json] = []
    seen = {key_of(queue).name}
    name = parent_of(queue)
    while name in known and name not in seen:
        seen.add(name)
        line.append(known[name])
        name = parent_of(known[name])
    return line


def all_below(queue: Json, every: Sequence[Json]) -> list[Json]:
    """The queues below it at any depth, by name."""
    children: dict[str, list[Json]] = {}
    for each in every:
        children.setdefault(parent_of(each), []).append(each)
    reached: dict[str, Json] = {}
    waiting = [key_of(queue).name]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            name = key_of(child).name
            if name not in reached and name != key_of(queue).name:
                reached[name] = child
                waiting.append(name)
    return [reached[name] for name in sorted(reached)]
