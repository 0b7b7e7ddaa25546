"""WatchedObjects the objects of a kind as they change: for ``--watch``, and for commands that wait for something."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind

Changes = Sequence[Change[Json]]


class WatchedObjects:
    """A live copy of what is followed, and a way to await that something in it changes."""

    def __init__(self, reflector: Reflector[Json], also: "WatchedObjects | None" = None) -> None:
        self._reflector = reflector
        self._changed: asyncio.Event = asyncio.Event() if also is None else also._changed

    @property
    def objects(self) -> dict[str, Json]:
        """The objects now, by ``namespace/name``."""
        return self._reflector.objects

    @property
    def fault(self) -> str:
        """What keeps us from hearing of changes now, if anything does."""
        return self._reflector.fault

    async def changed(self, timeout: float | None = None) -> bool:
        """Return when something has changed since the last call (True), or after so many seconds (False)."""
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def note(self) -> None:
        """Say that something has changed."""
        self._changed.set()


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
    """Follow the objects that the selectors choose; those that exist are known when this is entered.

    ``take`` is told each batch of changes, the first list included. With ``also``, what changes in the other is awaited too. Raises what the server says of a list or a watch
    that it does not allow; later faults of the network are waited out.
    """
    listing = await client.list(kind, namespace, label_selector=selector, field_selector=fields, page=1)
    allowed = client.watch(
        kind, namespace, resource_version=listing.resource_version, label_selector=selector, timeout=1
    )
    async with allowed:
        pass
    reflector = Reflector(client, kind, namespace, label_selector=selector, field_selector=fields)
    followed = WatchedObjects(reflector, also)

    def sink(changes: Changes) -> None:
        if take is not None:
            take(changes)
        followed.note()

    running = asyncio.create_task(reflector.run(sink))
    listed = asyncio.create_task(reflector.synced.wait())
    try:
        await asyncio.wait((running, listed), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield followed
    finally:
        listed.cancel()
        running.cancel()
        await asyncio.wait((running, listed))
