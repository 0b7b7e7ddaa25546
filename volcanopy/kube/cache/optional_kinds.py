"""Following kinds that a server may or may not have, and that we may or may not be allowed to read.

A cluster without dynamic resources schedules as ever; when it learns of them later, so do we.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from volcanopy.kube.cache.followed_kinds import OLDER
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import Backoff
from volcanopy.kube.client.errors import Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.transport import Sleep

log = logging.getLogger(__name__)

T = TypeVar("T")
_LOOK_AGAIN = 300.0


class OptionalReflector(Generic[T]):
    """A reflector of a kind in the newest of its versions that the server has; none as long as it has none."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        *,
        transform: Callable[[T], T] | None = None,
        look_again: float = _LOOK_AGAIN,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """``look_again``: after how many seconds it is looked again for a kind that was not there."""
        self.kind = kind
        """The kind in the version that the server has, once that is known."""
        self.synced = asyncio.Event()
        """Set once the first list has been delivered, or it is known that there is nothing to list."""
        self._client, self._transform = client, transform
        self._look_again, self._sleep = look_again, sleep
        self._said = ""
        self._reflector: Reflector[T] | None = None
        self._fault = ""
        self._faulty_since: float | None = None

    @property
    def fault(self) -> str:
        """What keeps the copy from being up to date now, as a sentence; empty when nothing does."""
        return self._fault if self._reflector is None else self._reflector.fault

    @property
    def faulty_since(self) -> float | None:
        """Since when (monotonic seconds) that is so, None when nothing does."""
        return self._faulty_since if self._reflector is None else self._reflector.faulty_since

    async def run(self, sink: Callable[[list[Change[T]]], object]) -> None:
        """Follow the kind until cancelled, from when the server has it."""
        while (found := await self._find()) is None:
            self.synced.set()
            await self._sleep(self._look_again)
        self.kind = found
        reflector = self._reflector = Reflector(self._client, found, transform=self._transform)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflector.run(sink), name=f"watch {found.plural}")
            await reflector.synced.wait()
            self.synced.set()

    async def _find(self) -> Kind[T] | None:
        backoff = Backoff(Random(), 0.2, 30.0)
        while True:
            try:
                found = await self._served()
            except KubeError as fault:
                self._fault, self._faulty_since = str(fault), self._faulty_since or time.monotonic()
                log.warning("looking for %s: %s", self.kind.plural, fault)
                await self._sleep(backoff.next())
            else:
                self._fault, self._faulty_since = "", None
                return found

    async def _served(self) -> Kind[T] | None:
        kind = self.kind
        for version in (kind.version, *OLDER.get(kind.group, ())):
            candidate = Kind(kind.group, version, kind.kind, kind.plural, kind.namespaced, kind.type)
            try:
                await self._client.get_raw(f"{candidate.path()}?limit=1")
            except NotFound:
                continue
            except Forbidden as error:
                self._say(f"{kind.plural} cannot be read, and pods that claim such will wait: {error}")
                return None
            return candidate
        log.debug("the server has no %s", kind.plural)
        return None

    def _say(self, what: str) -> None:
        if what != self._said:
            log.warning("%s", what)
            self._said = what
