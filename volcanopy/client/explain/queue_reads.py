"""Reads the objects about a queue for a report; what the user may not read is noted and left out.

Reads about jobs are apart, because they import the what-if engine.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from volcanopy.api import core, names
from volcanopy.client.explain.hierarchy import ancestors, descendants, parent_of
from volcanopy.client.explain.queue import QueueFacts
from volcanopy.client.kinds import read, readable
from volcanopy.client.objects import find_object
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.raw_kinds import POD_GROUPS, QUEUES

if TYPE_CHECKING:
    from volcanopy.whatif.answer import JobAnswer

T = TypeVar("T")
_DEPTH = 32
"""Maximum number of ancestors of a queue that are read."""


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

    async def confirmed(self, client: Client, group: str, seconds: float) -> "JobAnswer | None":
        """Return when the job of a pod group starts, with the remedies that were found within so many seconds."""
        from volcanopy.client.explain.confirmed import confirmed  # noqa: PLC0415 - imports the scheduler

        search = await confirmed(client, group, seconds)
        self.unread += [search.note] if search.note else []
        return search.answer


async def queue_if_readable(reads: Reads, client: Client, name: str) -> tuple[core.Queue | None, bool]:
    """Return the queue of any API if it may be read, and whether it is known not to exist."""
    try:
        queue = await api_views(client).find(QUEUES, None, name)
    except Forbidden:
        reads.unread.append(f'you may not read queue "{name}": not included')
        return None, False
    return (None, True) if queue is None else (read(core.Queue, queue[1]), False)


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
    groups = await _groups(reads, client, {member.metadata.name for member in (queue, *(below or ()))})
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
        readable_groups = await reads.optional(
            client.list(POD_GROUPS, namespace), f'the pod groups of namespace "{namespace}"'
        )
        if readable_groups is None:
            return None
        reads.unread.append(f'you may read pod groups of namespace "{namespace}" only: others are not included')
        listing = readable_groups
    groups = readable(core.PodGroup, listing.items)
    return [group for group in groups if (group.spec.queue or names.DEFAULT_QUEUE) in queues]
