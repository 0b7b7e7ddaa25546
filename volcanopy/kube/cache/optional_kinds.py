"""Watches of kinds that the server may lack or that this user may not read.

Without such a kind the scheduler works without its objects; a kind that appears later is followed from then on.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import OLDER
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.backoff import AFTER_OUTAGE, Backoff
from volcanopy.kube.client.errors import Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.client.transport import Sleep

log = Logger(__name__)

T = TypeVar("T")
_DISCOVERY_PERIOD = 300.0


class OptionalReflector(Generic[T]):
    """A reflector of a kind in the newest version that the server serves; idle while it serves none."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        namespace: str | None = None,
        *,
        transform: Callable[[T], T] | None = None,
        unreadable: bool = False,
        discovery_period: float = _DISCOVERY_PERIOD,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """``discovery_period``: seconds between two discoveries of a kind that the server does not serve."""
        self.kind = client.of_api(kind)
        """The kind, in the served version once that is known."""
        self.synced = asyncio.Event()
        """Set once the first list has been delivered, or the kind is known not to be served."""
        self._client, self._namespace, self._transform, self._unreadable = client, namespace, transform, unreadable
        self._discovery_period, self._sleep = discovery_period, sleep
        self._logged = ""
        self._reflector: Reflector[T] | None = None
        self._fault = ""
        self._faulty_since: float | None = None

    @property
    def fault(self) -> str:
        """The error that keeps the cache from being up to date, empty without one."""
        return self._fault if self._reflector is None else self._reflector.fault

    @property
    def faulty_since(self) -> float | None:
        """The time of the first such error (monotonic seconds), None without one."""
        return self._faulty_since if self._reflector is None else self._reflector.faulty_since

    @property
    def objects(self) -> Mapping[str, T]:
        """The cached objects by key; none while the kind is not served."""
        return {} if self._reflector is None else self._reflector.objects

    async def run(self, sink: Callable[[list[Change[T]]], object]) -> None:
        """Follow the kind until cancelled, once the server serves it."""
        while (kind := await self._discover()) is None:
            self.synced.set()
            await self._sleep(self._discovery_period)
        self.kind = kind
        reflector = self._reflector = Reflector(
            self._client, kind, self._namespace, transform=self._transform, unreadable=self._unreadable
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflector.run(sink), name=f"watch {kind.plural}")
            await reflector.synced.wait()
            self.synced.set()

    async def _discover(self) -> Kind[T] | None:
        backoff = Backoff(machine.new_random(), 0.2, AFTER_OUTAGE)
        while True:
            try:
                kind = await self._served()
            except KubeError as fault:
                self._fault, self._faulty_since = str(fault), self._faulty_since or machine.monotonic()
                log.warning("discovery failed", kind=self.kind.plural, error=str(fault))
                await self._sleep(backoff.next())
            else:
                self._fault, self._faulty_since = "", None
                return kind

    async def _served(self) -> Kind[T] | None:
        kind = self.kind
        for version in (kind.version, *OLDER.get(kind.group, ())):
            candidate = kind.in_version(version)
            try:
                await self._client.get_raw(f"{candidate.path(self._namespace)}?limit=1")
            except NotFound:
                continue
            except Forbidden as error:
                if str(error) != self._logged:
                    self._logged = str(error)
                    log.warning("kind not readable, pods that use it stay pending", kind=kind.plural, error=str(error))
                return None
            return candidate
        log.debug("kind not served", kind=kind.plural)
        return None
