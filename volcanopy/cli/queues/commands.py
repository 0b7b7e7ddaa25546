"""``volcanopy queue open`` and ``close``: wishes that are left for the controller, and ``wait``, until they have come true.

A wish is a Command that names the queue's identity and belongs to it, in the namespace of whoever leaves it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from volcanopy.api import names
from volcanopy.cli.errors import CommandError
from volcanopy.cli.explaining.account import counted
from volcanopy.cli.explaining.queue import state
from volcanopy.cli.explaining.reading import all_below, parent_of
from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.description import events_of
from volcanopy.cli.framework.kinds import COMMANDS, QUEUES, key_of, resource, status_of
from volcanopy.cli.framework.objects import for_each, select_objects
from volcanopy.cli.framework.options import Chosen, Cluster, Dry, Place, Written
from volcanopy.cli.framework.watch import watch_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json

_WEEK = 7 * 86400.0
_SHUT = frozenset({"Closing", "Closed"})


@dataclass(frozen=True)
class Wish:
    """What is asked for, the word for a queue that it was asked of, and the states in which it is fulfilled."""

    action: str
    word: str
    ends: frozenset[str]


WISHES = {
    "open": Wish("OpenQueue", "opened", frozenset({"Open"})),
    "close": Wish("CloseQueue", "closed", _SHUT),
}
"""By the commands' names."""


@dataclass(frozen=True)
class Goal:
    """What ``wait`` waits for: one of these states, that nothing unfinished is in the queue, or that it is gone."""

    word: str
    states: frozenset[str] = frozenset()
    empty: bool = False

    def reached(self, queue: Json, every: Iterable[Json]) -> bool:
        """Whether the queue is there; ``every`` are all queues."""
        return unfinished(queue, every) == 0 if self.empty else state(queue) in self.states


def unfinished(queue: Json, every: Iterable[Json]) -> int:
    """How many pod groups, or jobs that have none yet, have not come to their end in the queue and in those below it."""

    def inside(one: Json) -> int:
        status = status_of(one)
        groups = sum(int(status.get(kind, 0)) for kind in ("pending", "inqueue", "running", "unknown"))
        return max(groups, int(status.get("jobs", 0)))

    return sum(map(inside, [queue, *all_below(queue, list(every))]))


GOALS = {
    "open": Goal("open", frozenset({"Open"})),
    "closed": Goal("closed", frozenset({"Closed"})),
    "empty": Goal("empty", empty=True),
    "deleted": Goal("deleted"),
}
"""By the words of ``--for``."""


async def wish(
    cluster: Cluster, place: Place, written: Written, which: Chosen, verb: str, reason: str, timeout: float | None
) -> None:
    """Leave the wish for each queue; with a ``timeout`` in seconds, wait until it is carried out."""
    asked, changes = WISHES[verb], Changes(written)
    async with cluster.client() as client:
        queues = await select_objects(
            client, QUEUES, None, which.names or (), which.selector, everything=which.everything
        )
        if which.everything or which.selector:
            queues = [queue for queue in queues if key_of(queue).name != names.ROOT_QUEUE]

        async def leave(queue: Json) -> None:
            await _check(client, asked, queue)
            if state(queue) in asked.ends:
                changes.tell(QUEUES, queue, f"unchanged, it is {state(queue).lower()}")
                return
            command = await _leave(client, changes, place.of(client), asked, verb, queue, reason)
            if timeout is not None and command is not None:
                await _carried_out(client, queue, asked, command, timeout)

        await for_each(queues, leave)


async def _check(client: Client, asked: Wish, queue: Json) -> None:
    """Say at once what the controller would refuse."""
    name = key_of(queue).name
    if name == names.ROOT_QUEUE and asked.action == "CloseQueue":
        raise CommandError("queue root stays open: close the queues below it")
    if asked.action != "OpenQueue":
        return
    try:
        above = await client.get(QUEUES, None, parent_of(queue))
    except (NotFound, Forbidden):
        return
    if state(above) in _SHUT:
        raise CommandError(
            f"queue {name} cannot be opened while queue {key_of(above).name} above it is {state(above).lower()}: "
            f"volcanopy queue open {key_of(above).name}"
        )


async def _leave(
    client: Client, changes: Changes, namespace: str, asked: Wish, verb: str, queue: Json, reason: str
) -> Json | None:
    """Leave the Command; gives it as it was made, None when it was only tried."""
    owner = {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "name": key_of(queue).name,
        "uid": queue["metadata"]["uid"],
    }
    command: Json = {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {
            "generateName": f"{key_of(queue).name}-{verb}-",
            "namespace": namespace,
            "ownerReferences": [owner],
        },
        "action": asked.action,
        "target": owner,
        "reason": "AskedFor",
        "message": reason or f"a person asked for it: volcanopy queue {verb}",
    }
    made = command
    if not changes.pretended:
        made = await client.create(COMMANDS, namespace, command, options=changes.options)
    changes.tell(QUEUES, queue, asked.word)
    return made if changes.written.dry_run is Dry.none else None


async def _carried_out(client: Client, queue: Json, asked: Wish, command: Json, timeout: float) -> None:
    """Wait until the Command is gone, and the queue where it should be; raises Stop if it is refused."""
    where = key_of(command)
    name = key_of(queue).name
    try:
        async with (
            asyncio.timeout(timeout),
            watch_objects(client, COMMANDS, where.namespace, fields=f"metadata.name={where.name}") as commands,
        ):
            while commands.objects:
                await commands.changed()
            now = await client.get(QUEUES, None, name)
            if state(now) in asked.ends:
                return
            said = await _refusal(client, queue)
            if said:
                raise CommandError(f"queue {name} is {state(now).lower()}: {said}")
            await until(client, queue, Goal(asked.word, asked.ends), -1)
    except TimeoutError:
        raise CommandError(
            f"timed out waiting for queue {name} to be {asked.word}: is the controller running?"
        ) from None


async def _refusal(client: Client, queue: Json) -> str:
    """What the controller has said of the queue last, in a warning; empty if nothing."""
    events = [one for one in await events_of(client, queue) or () if one.get("type") == "Warning"]
    last = max(events, key=lambda one: one.get("lastTimestamp") or "", default=None)
    return " ".join(str(last.get("message") or "").split()) if last is not None else ""


async def wait(cluster: Cluster, which: Chosen, goal: Goal, timeout: float) -> None:
    """Wait for all of the queues; raises Stop when the time is up."""
    async with cluster.client() as client:
        queues = await select_objects(
            client, QUEUES, None, which.names or (), which.selector, everything=which.everything
        )
        if not queues:
            raise CommandError("there is no such queue to wait for")

        async def one(queue: Json) -> None:
            await until(client, queue, goal, timeout)
            print(
                f"{resource(QUEUES)}/{key_of(queue).name} {'deleted' if goal.word == 'deleted' else 'condition met'}",
                flush=True,
            )

        await for_each(queues, one, together=True)


async def until(client: Client, queue: Json, goal: Goal, timeout: float) -> None:
    """Wait until this very queue is there. Less than 0 seconds is a week."""
    name, uid = key_of(queue).name, queue["metadata"]["uid"]
    now, every = queue, [queue]
    try:
        async with (
            asyncio.timeout(timeout if timeout >= 0 else _WEEK),
            watch_objects(client, QUEUES, None, fields="" if goal.empty else f"metadata.name={name}") as followed,
        ):
            while True:
                there = next((one for one in followed.objects.values() if one["metadata"]["uid"] == uid), None)
                if there is None:
                    if goal.word == "deleted":
                        return
                    raise CommandError(f"queue {name} was deleted before it was {goal.word}")
                now = there
                every = list(followed.objects.values())
                if goal.word != "deleted" and goal.reached(now, every):
                    return
                await followed.changed()
    except TimeoutError:
        stands = f"it is {state(now).lower()}, with {counted(unfinished(now, every), 'unfinished job')} in it"
        raise CommandError(f"timed out waiting for queue {name} to be {goal.word}; {stands}") from None
