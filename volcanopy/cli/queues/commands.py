"""Changes of queues: ``open`` and ``close`` by the queue controller, ``create``, ``update``, ``hold``, ``drain`` and ``resume`` in
their specification; and ``volcanopy queue wait``."""

import asyncio
from dataclasses import dataclass
from typing import Any

from volcanopy.api import names
from volcanopy.api.core import Queue
from volcanopy.cli.framework.changes import ChangeWriter, send_command
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption, Selection, WriteOptions
from volcanopy.cli.framework.selection import for_each, select_objects, wait_for_selection
from volcanopy.cli.queues.spec_options import SpecOptions
from volcanopy.client.commands import CommandRequest
from volcanopy.client.durations import WEEK
from volcanopy.client.errors import CommandError
from volcanopy.client.events import events_of
from volcanopy.client.explain.hierarchy import CLOSED, parent_of, state, stop_policy, unfinished
from volcanopy.client.kinds import key_of, read, readable, spec_of
from volcanopy.client.watch import DELETED, Objects, wait_until, watch_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.merge_patch import merge_patch
from volcanopy.kube.client.raw_kinds import COMMANDS, QUEUES


@dataclass(frozen=True)
class QueueCommand:
    """The action of a Command, the word for its result, and the states that it leads to."""

    action: str
    result: str
    states: frozenset[str]


VERBS = {
    "open": QueueCommand("OpenQueue", "opened", frozenset({"Open"})),
    "close": QueueCommand("CloseQueue", "closed", CLOSED),
}


STOP_POLICIES = {"hold": ("Hold", "held"), "drain": ("HoldAndDrain", "drained"), "resume": ("None", "resumed")}
"""Stop policy and result by command."""


@dataclass(frozen=True)
class Goal:
    """What to wait for: one of these states, a queue without unfinished jobs, or (with neither) its deletion."""

    name: str
    states: frozenset[str] = frozenset()
    empty: bool = False


GOALS = {
    "open": Goal("open", frozenset({"Open"})),
    "closed": Goal("closed", frozenset({"Closed"})),
    "empty": Goal("empty", empty=True),
    DELETED: Goal(DELETED),
}
"""Goals by the values of ``--for``."""


async def send(
    cluster: ClusterOptions, place: NamespaceOption, write: WriteOptions, selection: Selection, request: CommandRequest
) -> None:
    """Create the Command for each queue; with a ``timeout``, wait until the controller has processed it."""
    command, changes = VERBS[request.verb], ChangeWriter(write)
    async with cluster.client() as client:
        bodies = await _selected(client, selection)

        async def send_to(body: Json) -> None:
            queue = read(Queue, body)
            await _check(client, command, queue)
            if state(queue) in command.states:
                changes.report(QUEUES, body, f"unchanged: already {state(queue).lower()}")
                return
            sent = await send_command(
                client, changes, QUEUES, body, place.of(client), request, command.action, command.result
            )
            if request.timeout is not None and sent is not None:
                await _wait_until_processed(client, body, command, sent, request.timeout)

        await for_each(bodies, send_to)


async def _selected(client: Client, selection: Selection) -> list[Json]:
    """Return the queues of a selection; the root queue is one of them only if it is named."""
    queues = await select_objects(client, QUEUES, None, selection)
    return [queue for queue in queues if selection.by_name or key_of(queue).name != names.ROOT_QUEUE]


async def _check(client: Client, command: QueueCommand, queue: Queue) -> None:
    """Raise CommandError at once for what the controller would reject."""
    name = queue.metadata.name
    if command.action == "CloseQueue":
        if name == names.ROOT_QUEUE:
            raise CommandError('queue "root" cannot be closed: close the queues below it')
        return
    try:
        parent = read(Queue, await client.get(QUEUES, None, parent_of(queue)))
    except (NotFound, Forbidden):
        return
    if state(parent) in CLOSED:
        parent_name = parent.metadata.name
        raise CommandError(
            f'queue "{name}" cannot be opened: its parent "{parent_name}" is {state(parent).lower()}; '
            f"run `volcanopy queue open {parent_name}` first"
        )


async def _wait_until_processed(client: Client, body: Json, command: QueueCommand, sent: Json, timeout: float) -> None:
    """Wait until the Command is deleted and the queue in its state; raises CommandError if it was rejected."""
    key, name = key_of(sent), key_of(body).name
    try:
        async with (
            asyncio.timeout(timeout),
            watch_objects(client, COMMANDS, key.namespace, fields=f"metadata.name={key.name}") as commands,
        ):
            while commands.objects:
                await commands.changed()
            queue = read(Queue, await client.get(QUEUES, None, name))
            if state(queue) in command.states:
                return
            warnings = [event for event in await events_of(client, queue.metadata) or () if event.type == "Warning"]
            if warnings:
                message = " ".join((warnings[-1].message or "").split())
                raise CommandError(f'queue "{name}" is {state(queue).lower()}: {message}')
            await wait_until_queue(client, body, Goal(command.result, command.states))
    except TimeoutError:
        message = f'timed out waiting for queue "{name}" to be {command.result}: check that the controller is running'
        raise CommandError(message) from None


async def wait(cluster: ClusterOptions, selection: Selection, goal: Goal, timeout: float) -> None:
    """Wait for all queues; raises CommandError at the timeout."""
    async with cluster.client() as client:
        await wait_for_selection(
            client, QUEUES, None, selection, goal.name, lambda queue: wait_until_queue(client, queue, goal, timeout)
        )


async def wait_until_queue(client: Client, body: Json, goal: Goal, timeout: float = WEEK) -> None:
    """Wait until this queue reaches the goal."""

    def count(body: Json, objects: Objects) -> int:
        return unfinished(read(Queue, body), readable(Queue, objects.values()))

    def reached(body: Json, objects: Objects) -> bool:
        return state(read(Queue, body)) in goal.states or (goal.empty and count(body, objects) == 0)

    def summary(body: Json, objects: Objects) -> str:
        number = count(body, objects)
        return f"{state(read(Queue, body)).lower()} with {number} unfinished job{'' if number == 1 else 's'}"

    await wait_until(client, QUEUES, body, goal.name, reached, summary, timeout, watch_all=goal.empty)


async def create(cluster: ClusterOptions, write: WriteOptions, queue_names: list[str], options: SpecOptions) -> None:
    """Create queues of these names with the same spec."""
    changes, spec = ChangeWriter(write), _without_none(options.spec())
    bodies: list[Json] = [
        {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}, "spec": spec}
        for name in queue_names
    ]
    if changes.client_only:
        for body in bodies:
            changes.report(QUEUES, body, "created")
        return
    async with cluster.client() as client:
        await for_each(bodies, lambda body: changes.create(client, QUEUES, None, body))


def _without_none(spec: Json) -> Json:
    return {key: value for key, value in spec.items() if value is not None}


async def update(cluster: ClusterOptions, write: WriteOptions, selection: Selection, options: SpecOptions) -> None:
    """Change the given fields; a resource list is replaced as a whole."""
    fields = options.spec()
    if not fields:
        raise CommandError("no field to update: give an option such as --weight or --capability", 2)
    changes = ChangeWriter(write)
    async with cluster.client() as client:

        async def change(queue: Json) -> None:
            before = spec_of(queue)
            after = _without_none({**before, **fields})
            patch = merge_patch(before, after)
            if not patch:
                changes.report(QUEUES, queue, "unchanged")
                return
            await changes.patch(client, QUEUES, queue, _patch(queue, patch), {**queue, "spec": after}, "updated")

        await for_each(await select_objects(client, QUEUES, None, selection), change)


async def set_stop_policy(cluster: ClusterOptions, write: WriteOptions, selection: Selection, verb: str) -> None:
    """Hold, drain or resume queues."""
    policy, result = STOP_POLICIES[verb]
    changes = ChangeWriter(write)
    async with cluster.client() as client:

        async def change(body: Json) -> None:
            queue = read(Queue, body)
            if queue.metadata.name == names.ROOT_QUEUE:
                raise CommandError(f'queue "root" cannot be {result}: name the queues below it, or use --all')
            if stop_policy(queue) == policy:
                current = "not held or drained" if verb == "resume" else f"already {result}"
                changes.report(QUEUES, body, f"unchanged: {current}")
                return
            after = {**body, "spec": {**spec_of(body), "stopPolicy": policy}}
            await changes.patch(client, QUEUES, body, _patch(body, {"stopPolicy": policy}), after, result)

        await for_each(await _selected(client, selection), change)


def _patch(queue: Json, spec: dict[str, Any]) -> Json:
    """Return a patch for this queue, identified by its uid."""
    return {"metadata": {"uid": queue["metadata"]["uid"]}, "spec": spec}
