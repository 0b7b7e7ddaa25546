"""Waiting until objects reach a goal, such as a phase or their deletion."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.durations import WEEK
from volcanopy.cli.framework.kinds import key_of, resource, word
from volcanopy.cli.framework.objects import for_each, select_objects
from volcanopy.cli.framework.options import Selection
from volcanopy.cli.framework.watch import watch_objects
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind

DELETED = "deleted"
"""The goal of objects that are waited for until they do not exist any more."""
Objects = Mapping[str, Json]


async def wait_until(
    client: Client,
    kind: Kind[Json],
    body: Json,
    goal: str,
    reached: Callable[[Json, Objects], bool],
    summary: Callable[[Json, Objects], str],
    timeout: float = WEEK,
    *,
    watch_all: bool = False,
) -> Json:
    """Wait until this object, identified by its uid, reaches the goal; returns it in its last state.

    ``reached`` and ``summary`` get the object and all watched ones: those of its kind with ``watch_all``. ``reached`` may
    raise CommandError for an object that can no longer reach the goal. Raises CommandError at the timeout.
    """
    key, uid = key_of(body), body["metadata"]["uid"]
    name = f'{word(kind)} "{key.name}"'
    objects: Objects = {}
    fields = "" if watch_all else f"metadata.name={key.name}"
    try:
        async with (
            asyncio.timeout(timeout),
            watch_objects(client, kind, key.namespace or None, fields=fields) as watched,
        ):
            while True:
                current, objects = watched.with_uid(uid), watched.objects
                if current is None and goal == DELETED:
                    return body
                if current is None:
                    raise CommandError(
                        f"{name} was deleted before it was {goal.lower()}: it was {summary(body, objects)}"
                    )
                body = current
                if goal != DELETED and reached(body, objects):
                    return body
                await watched.changed()
    except TimeoutError:
        state = summary(body, objects)
        raise CommandError(f"timed out waiting for {name} to be {goal.lower()}: it is {state}") from None


async def wait_for_selection(
    client: Client,
    kind: Kind[Json],
    namespace: str | None,
    selection: Selection,
    goal: str,
    wait: Callable[[Json], Awaitable[Any]],
) -> None:
    """Wait for all selected objects at the same time, and print each that has reached the goal."""
    bodies = await select_objects(client, kind, namespace, selection)
    if not bodies:
        raise CommandError(f"no {word(kind)} matches the selection")

    async def wait_for(body: Json) -> None:
        await wait(body)
        result = DELETED if goal == DELETED else "condition met"
        print(f"{resource(kind)}/{key_of(body).name} {result}", flush=True)

    await for_each(bodies, wait_for, together=True)
