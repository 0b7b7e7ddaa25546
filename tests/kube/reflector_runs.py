"""A consumer of a reflector that checks its guarantees with each change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tests.kube.faulty_server import FakeTime, FaultyServer
from tests.kube.shapes import PODS, Thing
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.metrics import registry


def watch_ends(reason: str) -> int:
    """The metric of the ends of watches of pods."""
    labels = {"resource": PODS.plural, "reason": reason}
    return int(registry.REGISTRY.get_sample_value("volcanopy_watch_restarts_total", labels) or 0)


class Follower:
    """Folds the changes into its own state, and rejects any that does not follow from it."""

    def __init__(self) -> None:
        self.state: dict[str, Thing] = {}
        self.changes: list[Change[Thing]] = []
        self.batches = 0
        self._ends_before = {reason: watch_ends(reason) for reason in ("fault", "stalled")}
        self._unreadable: set[str] = set()
        self._versions: set[tuple[str, str]] = set()
        self._moved = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    def ends(self, reason: str) -> int:
        """How many lists and watches of pods have ended for this reason since the start."""
        return watch_ends(reason) - self._ends_before[reason]

    def __call__(self, batch: list[Change[Thing]]) -> None:
        assert batch, "a batch is never empty"
        self.batches += 1
        for change in batch:
            self._fold(change)
        self.changes += batch
        self._moved.set()

    def _fold(self, change: Change[Thing]) -> None:
        meta = change.object.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        known = self.state.get(key)
        assert change.old is known, f"{change} does not follow from {known}"
        if change.type is ChangeType.UNREADABLE:
            self._unreadable.add(key)
            return
        if change.type is ChangeType.DELETED and known is None:
            self._unreadable.remove(key)
            return
        if change.type is ChangeType.DELETED:
            assert known is not None
            assert known.metadata.uid == meta.uid
            del self.state[key]
            return
        if change.type is ChangeType.ADDED:
            assert known is None, f"{key} was added twice"
        else:
            assert known is not None
            assert known.metadata.uid == meta.uid, f"{key} was replaced without a word"
            assert int(known.metadata.resource_version) < int(meta.resource_version), f"{key} went backwards"
        version = (meta.uid, meta.resource_version)
        assert version not in self._versions, f"{version} was told twice"
        self._versions.add(version)
        self.state[key] = change.object

    async def until(self, *keys: str) -> None:
        """Wait until these objects are there."""
        while not all(key in self.state for key in keys):
            self._moved.clear()
            assert self.running is not None
            moved = asyncio.create_task(self._moved.wait())
            await asyncio.wait({moved, self.running}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            if self.running.done():
                self.running.result()
            assert moved.done(), f"{keys} did not come, there are {list(self.state)}"

    @property
    def descriptions(self) -> list[str]:
        """The changes as texts."""
        return [f"{change.type.value} {change.object.metadata.name}" for change in self.changes]


@asynccontextmanager
async def following(
    client: Client, time: FakeTime, namespace: str | None = None, kind: Kind[Thing] = PODS, **options: Any
) -> AsyncIterator[tuple[Reflector[Thing], Follower]]:
    """A reflector that runs, and who follows it; ends by cancelling it."""
    reflector = Reflector(client, kind, namespace, rng=Random(3), sleep=time.sleep, clock=time.clock, **options)
    follower = Follower()
    running = follower.running = asyncio.create_task(reflector.run(follower))
    try:
        synced = asyncio.create_task(reflector.synced.wait())
        await asyncio.wait({synced, running}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert synced.done() or running.done(), f"not synced: {reflector.fault}"
        yield reflector, follower
        assert not running.done(), running.exception()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def stored(server: FaultyServer, plural: str = "pods") -> dict[str, tuple[str, str]]:
    """What the server has: key -> (uid, version)."""
    return {
        "/".join(part for part in key[1:] if part): (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
        for key, item in server.objects.items()
        if key[0] == plural
    }


def names_and_values(state: dict[str, Thing]) -> dict[str, tuple[str, str]]:
    """The same of a follower's state or a reflector's copy."""
    return {key: (item.metadata.uid, item.metadata.resource_version) for key, item in state.items()}
