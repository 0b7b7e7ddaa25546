"""A service as one of several equals of which one acts: it may write only while it leads, and ends when it has lost that.

Everything that a service has open is opened inside :func:`candidacy`, so that it is closed, and its last writes done,
when the Lease is given back.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.errors import NotLeading
from volcanopy.kube.leader.elector import AlwaysLeader, Elector, Leadership, new_identity
from volcanopy.kube.leader.lease import LeaseLock
from volcanopy.kube.metrics import registry
from volcanopy.services.process.settings import Election


class Candidate:
    """A process that wants to lead, or does."""

    def __init__(self, leadership: Leadership, tasks: asyncio.TaskGroup, component: str) -> None:
        self._leadership, self._tasks = leadership, tasks
        self._gauge = registry.LEADER.labels(component)
        self._gauge.set(0)
        self._holding: asyncio.Task[None] | None = None

    def may_act(self) -> bool:
        """Whether this process leads at this very moment: the fence of its client."""
        return self._leadership.may_act()

    def told(self) -> str:
        """Who leads, in words."""
        if isinstance(self._leadership, AlwaysLeader):
            return "this process, which has no equals"
        if self.may_act():
            return f"this process, {self._leadership.leader}"
        return self._leadership.leader or "not known"

    async def lead(self) -> None:
        """Wait until this process leads. From then on the loss of that ends whatever runs in :func:`candidacy`."""
        await self._leadership.acquire()
        self._holding = self._tasks.create_task(self._leadership.hold(), name="lease")
        self._gauge.set(1)

    async def lost(self) -> None:
        """A write has met the fence. Raises LostLeadership, which says why, if this process has led."""
        if self._holding is not None:
            await self._holding

    async def retire(self) -> None:
        """Act no more, and let another lead."""
        self._gauge.set(0)
        if self._holding is not None:
            self._holding.cancel()
        await self._leadership.release()


@contextlib.asynccontextmanager
async def candidacy(connection: Connection, election: Election | None, component: str) -> AsyncIterator[Candidate]:
    """A candidate for as long as the block lasts; without an election it leads unopposed.

    Raises LostLeadership, in a group, and cancels the block, when the Lease is lost.
    """
    if election is None:
        async with asyncio.TaskGroup() as tasks:
            alone = Candidate(AlwaysLeader(), tasks, component)
            try:
                yield alone
            finally:
                await alone.retire()
        return
    # A client of its own: no flood of other requests may hold up a renewal.
    async with (
        Client(connection, connections=2, field_manager=f"volcanopy-{component}") as client,
        asyncio.TaskGroup() as tasks,
    ):
        lock = LeaseLock(client, election.namespace or home(connection), election.name)
        candidate = Candidate(Elector(lock, new_identity(), election.terms), tasks, component)
        try:
            yield candidate
        except* NotLeading:
            await candidate.lost()
            raise
        finally:
            await candidate.retire()


def home(connection: Connection) -> str:
    """The namespace for what is ours where none is given: the pod's own, or where a cluster keeps such things."""
    return "kube-system" if connection.context else connection.namespace
