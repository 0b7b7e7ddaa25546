"""Watches of the objects of a kind, and waiting until objects reach a goal, such as their deletion."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext

from volcanopy.client.durations import WEEK
from volcanopy.client.errors import CommandError
from volcanopy.client.kinds import key_of, word
from volcanopy.client.progress import progress
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind

Changes = Sequence[Change[Json]]


class WatchedObjects:
    """A live copy of watched objects, with an event for changes."""

    def __init__(self, reflector: Reflector[Json], also: "WatchedObjects | None" = None) -> None:
        self._reflector = reflector
        self.changes: asyncio.Event = asyncio.Event() if also is None else also.changes

    @property
    def objects(self) -> dict[str, Json]:
        """The current objects by ``namespace/name``."""
        return self._reflector.objects

    def with_uid(self, uid: str) -> Json | None:
        """Return the object with this uid; None when it does not exist any more."""
        return next((body for body in self.objects.values() if body["metadata"]["uid"] == uid), None)

    async def changed(self, timeout: float | None = None) -> bool:
        """Wait for a change since the last call; returns False after ``timeout`` seconds without one."""
        try:
            async with asyncio.timeout(timeout):
                await self.changes.wait()
        except TimeoutError:
            return False
        self.changes.clear()
        return True


@asynccontextmanager
async def watch_objects(
    client: Client,
    kind: Kind[Json],
    namespace: str | None,
    *,
    selector: str = "",
    fields: str = "",
    take: Callable[[Changes], object] | None = None,
    also: WatchedObjects | None = None,
) -> AsyncIterator[WatchedObjects]:
    """Watch the objects that the selectors match; the existing ones are listed when the context is entered.

    ``take`` is called with each batch of changes, including the first list. With ``also``, ``changed`` returns for
    changes of both watches. Raises ApiError where the server rejects the list or watch; network errors are retried.
    """
    listing = await client.list(kind, namespace, label_selector=selector, field_selector=fields, page=1)
    allowed = client.watch(
        kind, namespace, resource_version=listing.resource_version, label_selector=selector, timeout=1
    )
    async with allowed:
        pass
    reflector = Reflector(client, kind, namespace, label_selector=selector, field_selector=fields)
    watched = WatchedObjects(reflector, also)

    def sink(changes: Changes) -> None:
        if take is not None:
            take(changes)
        watched.changes.set()

    running = asyncio.create_task(reflector.run(sink))
    first_list = asyncio.create_task(reflector.synced.wait())
    try:
        await asyncio.wait((running, first_list), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield watched
    finally:
        first_list.cancel()
        running.cancel()
        await asyncio.wait((running, first_list))


async def wait_until_deleted(client: Client, kind: Kind[Json], body: Json) -> None:
    """Wait until this object, identified by its uid, does not exist any more."""
    key, uid = key_of(body), body["metadata"]["uid"]
    namespace = key.namespace or None
    try:
        current = await client.get(kind, namespace, key.name)
    except NotFound:
        return
    if current["metadata"]["uid"] != uid:
        return
    async with watch_objects(client, kind, namespace, fields=f"metadata.name={key.name}") as watched:
        while watched.with_uid(uid) is not None:
            await watched.changed()


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
    quiet: bool = False,
) -> Json:
    """Wait until this object, identified by its uid, reaches the goal; returns it in its last state.

    ``reached`` and ``summary`` get the object and all watched ones: those of its kind with ``watch_all``. ``reached`` may
    raise CommandError for an object that can no longer reach the goal. A terminal shows the state unless ``quiet``. Raises
    CommandError at the timeout.
    """
    key, uid = key_of(body), body["metadata"]["uid"]
    name = f'{word(kind)} "{key.name}"'
    objects: Objects = {}
    fields = "" if watch_all else f"metadata.name={key.name}"
    display = nullcontext() if quiet else progress(lambda: f"{name}: {summary(body, objects)}")
    try:
        with display:
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
