"""Watches of the kinds that users write: jobs, flows, templates, cron jobs, queues, Commands and HyperNodes.

1. An edge (:mod:`.kopf_edge`) delivers what kopf has listed and watched.
2. A cache of each kind drops what it has delivered already, and turns a changed uid into a deletion and an addition.
3. An audit compares the cache with a list of metadata, because no edge reports what was deleted while nothing was watched.
   An object that is listed and stays unseen ends the watches, and the supervisor starts them again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
import structlog

from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, ChangeType, each_alone
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import AFTER_OUTAGE, Backoff
from volcanopy.kube.client.decoding import Listing
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Bare, Identity, Json, Kind
from volcanopy.kube.client.raw_kinds import served_kinds
from volcanopy.kube.client.transport import Clock, Sleep
from volcanopy.kube.metrics import registry

log = structlog.get_logger(__name__)

Sink = Callable[[str, Json], None]
"""Called with the type of an event (ADDED, MODIFIED, DELETED) and the object."""
Receive = Callable[[Kind[Json], str | None, Json], None]
"""Called by an edge with a kind, the type of an event (None: the object was listed) and the object, on the main event loop."""
Edge = Callable[[Sequence[Kind[Json]], Receive], Coroutine[Any, Any, None]]
"""Lists and watches kinds until it fails. It may repeat and reorder the events of different objects, and omit deletions."""

AUDIT_PERIOD = (15.0, 30.0)
"""Seconds between two audits of a kind, drawn evenly."""
AUDIT_SHARE = 0.05
"""The most of the time that the audits of a kind may take."""
GRACE = 60.0
"""Seconds after which a listed object that has not been delivered ends the edge. A busy machine takes long to deliver many."""
_EVENTS = {ChangeType.ADDED: "ADDED", ChangeType.MODIFIED: "MODIFIED", ChangeType.DELETED: "DELETED"}


class EdgeError(RuntimeError):
    """The watches of the kinds that users write cannot go on and must start again."""


class _Unseen(msgspec.Struct, frozen=True):
    """An object that an audit has listed in a version that has not been delivered, and the time of that audit."""

    key: str
    version: int
    since: float


class WatchedKind:
    """The objects of a kind as they were delivered, and their comparison with the server's list."""

    def __init__(
        self, kind: Kind[Json], deliver: Callable[[list[Change[Json]]], object], clock: Clock = machine.monotonic
    ) -> None:
        self.kind = kind
        self.objects: dict[str, Json] = {}
        """The delivered objects by ``namespace/name`` (or ``name``)."""
        self.synced = asyncio.Event()
        """Set once all objects of a list have been delivered."""
        self.answered = asyncio.Event()
        """Set once that is so, or the list has failed, or the kind is not served."""
        self.relisted = asyncio.Event()
        """Set when the edge has listed again: objects may have been deleted before."""
        self.fault = ""
        """The error that keeps the audit from working, empty without one."""
        self.faulty_since: float | None = None
        """The time of the first such error (monotonic seconds), None without one."""
        self._deliver, self._clock = deliver, clock
        self._versions: dict[str, int] = {}
        self._newest = 0
        self._unseen: dict[str, _Unseen] = {}
        self._listed: frozenset[str] = frozenset()
        self._listed_version = 0
        self._progress = clock()
        self._received = registry.WATCH_EVENTS.labels(kind.plural)
        registry.CACHE_SIZE.follow(self, lambda watched: [((watched.kind.plural,), len(watched.objects))])

    def start(self) -> None:
        """Begin with a new edge, which lists all objects."""
        self._unseen.clear()
        self._progress = self._clock()

    def receive(self, event: str | None, manifest: Json) -> None:
        """Take an object from the edge, and pass it on if that is news."""
        if event is None:
            self.relisted.set()
        self._progress = self._clock()
        identity = self.kind.identify(manifest)
        version, before = int(identity.version), self.objects.get(identity.key)
        is_same = before is not None and self.kind.identify(before).uid == identity.uid
        if event == "DELETED":
            if is_same:
                self._remove(identity.key, manifest)
            self._saw(identity.uid, version)
            return
        if self._is_outdated(identity, version, is_same):
            return
        if before is not None and not is_same:
            self._remove(identity.key, before)
        self.objects[identity.key], self._versions[identity.key] = manifest, version
        self._newest = max(self._newest, version)
        self._pass_on(Change(ChangeType.MODIFIED, manifest, before) if is_same else Change(ChangeType.ADDED, manifest))
        self._saw(identity.uid, version)

    def _is_outdated(self, identity: Identity, version: int, is_same: bool) -> bool:
        """Whether a later version, a later object of the name, or the absence of this one has been delivered."""
        if version <= self._versions.get(identity.key, -1):
            return True
        return not is_same and version <= self._listed_version and identity.uid not in self._listed

    def _remove(self, key: str, last: Json) -> None:
        before = self.objects.pop(key)
        del self._versions[key]
        self._pass_on(Change(ChangeType.DELETED, last, before))

    def _pass_on(self, change: Change[Json]) -> None:
        self._received.inc()
        self._deliver([change])

    def _saw(self, uid: str, version: int) -> None:
        unseen = self._unseen.get(uid)
        if unseen is not None and version >= unseen.version:
            del self._unseen[uid]
            self._check_synced()

    def _check_synced(self) -> None:
        if self._listed_version and not self._unseen:
            self.synced.set()
            self.answered.set()

    async def audit(self, client: Client) -> None:
        """Compare with a list of the server. Raises EdgeError when an object has stayed unseen, or versions have gone back."""
        newest = self._newest
        try:
            listing = await client.list(self.kind.of(Bare), page_deadline=30.0)
            version = int(listing.resource_version)
        except (KubeError, ValueError) as fault:
            text = str(fault)
            (log.debug if text == self.fault else log.warning)("audit failed", kind=self.kind.plural, error=text)
            self.fault = text
            self.faulty_since = self._clock() if self.faulty_since is None else self.faulty_since
            self.answered.set()
            return
        self.fault, self.faulty_since = "", None
        if version < newest:
            # The server was restored from a backup: what it has now counts, whatever its version.
            self._versions, self._newest, self._listed_version = dict.fromkeys(self.objects, -1), 0, 0
            raise EdgeError(f"{self.kind.plural}: the server's resource version went back from {newest} to {version}")
        self._compare(listing, version)

    def _compare(self, listing: Listing[Bare], version: int) -> None:
        now = self._clock()
        listed = {item.metadata.uid: item.identity for item in listing.items}
        for key, manifest in list(self.objects.items()):
            if self._versions[key] <= version and self.kind.identify(manifest).uid not in listed:
                self._remove(key, manifest)
        self._listed, self._listed_version = frozenset(listed), version
        unseen = {uid: self._noticed(identity, now) for uid, identity in listed.items()}
        self._unseen = {uid: noticed for uid, noticed in unseen.items() if noticed is not None}
        self._check_synced()
        for noticed in self._unseen.values():
            # While many are delivered for the first time, the last one waits for all others.
            since = noticed.since if self.synced.is_set() else max(noticed.since, self._progress)
            if now - since > GRACE:
                raise EdgeError(f"{self.kind.plural} {noticed.key} is listed, and was not delivered within {GRACE:g} s")

    def _noticed(self, identity: Identity, now: float) -> _Unseen | None:
        """Return since when an object is listed in a version that was not delivered; None if it was delivered."""
        known = self.objects.get(identity.key)
        is_same = known is not None and self.kind.identify(known).uid == identity.uid
        delivered = self._versions[identity.key] if is_same else -1
        if delivered >= int(identity.version):
            return None
        before = self._unseen.get(identity.uid)
        if before is not None and delivered < before.version:
            return before
        return _Unseen(identity.key, int(identity.version), now)


class UserKinds:
    """The watches of several kinds. ``required`` must be listed before anything is reconciled."""

    def __init__(
        self,
        client: Client,
        kinds: Sequence[Kind[Json]],
        required: Sequence[Kind[Json]],
        sink: Sink,
        edge: Edge,
        *,
        sleep: Sleep = asyncio.sleep,
        clock: Clock = machine.monotonic,
    ) -> None:
        def deliver(changes: Sequence[Change[Json]]) -> None:
            for change in changes:
                sink(_EVENTS[change.type], change.object)

        self._client, self._edge, self._sleep, self._clock = client, edge, sleep, clock
        self._random = machine.new_random()
        self.watches = tuple(WatchedKind(kind, each_alone(deliver), clock) for kind in kinds)
        self.required = tuple(watch for watch in self.watches if watch.kind in required)

    async def run(self) -> None:
        """Watch the kinds that the server serves. Ends with an error when the edge does, or when an audit finds one."""
        served = await self._served()
        watches = {watch.kind: watch for watch in self.watches}
        is_current = True

        def receive(kind: Kind[Json], event: str | None, manifest: Json) -> None:
            if is_current:
                watches[kind].receive(event, manifest)

        for watch in self.watches:
            watch.start()
        work = [self._edge([kind for kind in watches if kind in served], receive)]
        work += [self._audit(watch) if kind in served else self._appear(watch) for kind, watch in watches.items()]
        tasks = [asyncio.create_task(coroutine) for coroutine in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            raise EdgeError("the watches of the kinds that users write ended without an error")
        finally:
            is_current = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _served(self) -> set[Kind[Json]]:
        """Return the kinds in the server's discovery, once it answers."""
        backoff = Backoff(self._random, 0.2, AFTER_OUTAGE)
        while True:
            try:
                versions = sorted({watch.kind.api_version for watch in self.watches})
                plurals = {version: await self._plurals(version) for version in versions}
            except (KubeError, msgspec.MsgspecError) as fault:
                log.warning("discovery failed", error=str(fault))
                await self._sleep(backoff.next())
            else:
                return {watch.kind for watch in self.watches if watch.kind.plural in plurals[watch.kind.api_version]}

    async def _plurals(self, version: str) -> set[str]:
        return {resource.name for resource in await served_kinds(self._client, version)}

    async def _audit(self, watch: WatchedKind) -> None:
        """Audit a kind at the start, after each list of the edge, and from time to time."""
        while True:
            watch.relisted.clear()
            began = self._clock()
            await watch.audit(self._client)
            await self._sleep(max(1.0, (self._clock() - began) / AUDIT_SHARE))
            relisted = asyncio.create_task(watch.relisted.wait())
            pause = asyncio.ensure_future(self._sleep(self._random.uniform(*AUDIT_PERIOD)))
            try:
                await asyncio.wait((relisted, pause), return_when=asyncio.FIRST_COMPLETED)
            finally:
                relisted.cancel()
                pause.cancel()

    async def _appear(self, watch: WatchedKind) -> None:
        """Wait for a kind that is not served. Raises EdgeError when it is: the edge begins with all kinds."""
        watch.answered.set()
        log.info("kind not served", kind=watch.kind.plural, group=watch.kind.group)
        while True:
            await self._sleep(self._random.uniform(*AUDIT_PERIOD))
            try:
                if watch.kind.plural in await self._plurals(watch.kind.api_version):
                    raise EdgeError(f"{watch.kind.plural}.{watch.kind.group} is served now")
            except (KubeError, msgspec.MsgspecError) as fault:
                log.debug("discovery failed", error=str(fault))

    async def listed(self) -> None:
        """Wait for the objects of the required kinds, and for the first answer about the others."""
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
