"""Leader election of a service: it writes only while it is the leader, and exits when it has lost the Lease.

Everything that a service opens is opened inside :func:`candidacy`, so that it is closed, and its last writes done, when the
Lease is released.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import NotLeading
from volcanopy.kube.leader.elector import Elector, new_identity
from volcanopy.kube.leader.lease import LeaseLock
from volcanopy.kube.leader.lease_thread import LeaseThread
from volcanopy.kube.metrics import registry
from volcanopy.services.process.settings import Election


class Candidate:
    """A candidate for leadership, or the leader; without a ``lease`` it leads always."""

    def __init__(self, lease: LeaseThread | None, tasks: asyncio.TaskGroup, component: str) -> None:
        self._lease, self._tasks = lease, tasks
        self._gauge = registry.LEADER.labels(component)
        self._gauge.set(0)
        self._holding: asyncio.Task[None] | None = None

    def may_act(self) -> bool:
        """Whether this process is the leader at this moment: the fence of its client."""
        return self._lease is None or self._lease.may_act()

    def description(self) -> str:
        """Return the leader for people."""
        if self._lease is None:
            return "this process, without leader election"
        if self.may_act():
            return f"this process, {self._lease.leader}"
        return self._lease.leader or "unknown"

    async def lead(self) -> None:
        """Wait for leadership. From then on its loss ends the block of :func:`candidacy`."""
        if self._lease is not None:
            await self._lease.acquire()
            self._holding = self._tasks.create_task(self._lease.hold(), name="lease")
        self._gauge.set(1)

    async def lost(self) -> None:
        """Handle a write that the fence rejected. Raises LostLeadership, with the reason, if this process was the leader."""
        if self._holding is not None:
            await self._holding

    def release_now(self, seconds: float = 5.0) -> None:
        """Give back the Lease from another thread, while the event loop stands still."""
        if self._lease is not None:
            self._lease.release_now(seconds)

    async def retire(self) -> None:
        """Stop acting and release the leadership."""
        self._gauge.set(0)
        if self._holding is not None:
            self._holding.cancel()
        if self._lease is not None:
            await self._lease.release()


@contextlib.asynccontextmanager
async def candidacy(connection: Connection, election: Election | None, component: str) -> AsyncIterator[Candidate]:
    """A candidate for the duration of the block; always the leader without an election.

    Raises LostLeadership, in a group, and cancels the block, when the Lease is lost.
    """
    if election is None:
        async with asyncio.TaskGroup() as tasks:
            alone = Candidate(None, tasks, component)
            try:
                yield alone
            finally:
                await alone.retire()
        return

    def elector(client: Client) -> Elector:
        lock = LeaseLock(client, election.namespace or home(connection), election.name)
        return Elector(lock, new_identity(), election.terms)

    async with LeaseThread(connection, f"volcanopy-{component}", elector) as leadership, asyncio.TaskGroup() as tasks:
        candidate = Candidate(leadership, tasks, component)
        try:
            yield candidate
        except* NotLeading:
            await candidate.lost()
            raise
        finally:
            await candidate.retire()


def home(connection: Connection) -> str:
    """Return the default namespace for own objects: the pod's, or kube-system outside of a pod."""
    return "kube-system" if connection.context else connection.namespace
