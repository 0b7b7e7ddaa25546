"""Watches of the kinds that users write: jobs, flows, templates, cron jobs, queues and Commands.

Every kind has an own reflector, which retries every error, so a kind whose definition is missing delays no other.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import structlog

from volcanopy.kube.cache.watch import Change, ChangeType, Reflector, each_alone
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json, Kind

log = structlog.get_logger(__name__)

Sink = Callable[[str, Json], None]
"""Called with the type of an event (ADDED, MODIFIED, DELETED) and the object."""
_EVENTS = {ChangeType.ADDED: "ADDED", ChangeType.MODIFIED: "MODIFIED", ChangeType.DELETED: "DELETED"}


class UserKinds:
    """The watches of several kinds. ``required`` must be listed before anything is reconciled."""

    def __init__(self, client: Client, kinds: Sequence[Kind[Json]], required: Sequence[Kind[Json]], sink: Sink) -> None:
        self._sink = sink
        self.watches = tuple(Reflector(client, kind) for kind in kinds)
        self.required = tuple(watch for watch in self.watches if watch.kind in required)

    def following(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Return the name and the work of each watch."""
        return [
            (f"{watch.kind.plural}.{watch.kind.group}", partial(watch.run, each_alone(self._take)))
            for watch in self.watches
        ]

    def _take(self, changes: Sequence[Change[Json]]) -> None:
        for change in changes:
            self._sink(_EVENTS[change.type], change.object)

    async def listed(self) -> None:
        """Wait for the first list of the required kinds, and for the first answer about the others."""
        for watch in self.required:
            await watch.synced.wait()
        for watch in self.watches:
            await watch.answered.wait()


async def wait_for_kinds(client: Client, kinds: Sequence[Kind[Any]]) -> None:
    """Wait until the server serves these kinds; logs each missing group once."""
    logged: set[str] = set()
    pause = 0.1
    for group in sorted({f"/apis/{kind.api_version}" for kind in kinds}):
        while True:
            try:
                await client.get_raw(group)
                break
            except KubeError as fault:
                if group not in logged:
                    log.warning("API group not served: install charts/volcanopy/crds", group=group, error=str(fault))
                    logged.add(group)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
