"""Processes of a simulation: a service with its own machine, which may be killed at any await and started again."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, NoReturn, Self

from tests.simulation.network import Network
from tests.simulation.virtual_time import START, VirtualLoop
from volcanopy.kube import machine
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.leader.elector import Elector, LostLeadership

Entry = Callable[[asyncio.Event, asyncio.Event], Awaitable[None]]
"""Runs until the first event is set, and sets the second when it is ready."""
RESTART = 1.0
"""Seconds after which a process that has ended is started again."""


class SimulatedMachine(machine.Machine):
    """A machine with virtual clocks: ``ahead`` is by how much its wall clock is wrong, in seconds."""

    def __init__(self, name: str, seed: str, clock: Callable[[], float]) -> None:
        self.name, self.ahead = name, 0.0
        self._clock, self._rng = clock, Random(seed)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.parts: list[Any] = []
        """What the process remembers is kept in these objects."""
        self.succeeded: set[str] = set()
        """The uids of the pods of which the process has learnt that they have succeeded."""

    def host(self) -> str:
        return self.name

    def monotonic(self) -> float:
        return 1000.0 + self._clock()

    def boottime(self) -> float:
        return 1000.0 + self._clock()

    def epoch(self) -> float:
        return START + self._clock() + self.ahead

    def thread_time(self) -> float:
        return self._clock()

    def random_bytes(self, count: int) -> bytes:
        return self._rng.randbytes(count)


def task_started(task: asyncio.Task[Any], context: contextvars.Context | None) -> None:
    """Count a task among those of the machine in whose context it runs."""
    there = context.get(machine.current) if context is not None else machine.current.get()
    if isinstance(there, SimulatedMachine):
        there.tasks.add(task)
        task.add_done_callback(there.tasks.discard)


class LeaseOnLoop:
    """The counterpart of :class:`~volcanopy.kube.leader.lease_thread.LeaseThread` without a thread."""

    def __init__(self, connection: Connection, manager: str, elector: Callable[[Client], Elector]) -> None:
        self._client = Client(connection, connections=2, field_manager=manager)
        self._elector = elector(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    @property
    def leader(self) -> str:
        return self._elector.leader

    def may_act(self) -> bool:
        return self._elector.may_act()

    async def acquire(self) -> None:
        await self._elector.acquire()

    async def hold(self) -> NoReturn:
        await self._elector.hold()

    async def release(self) -> None:
        await self._elector.release()


async def at_once(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The counterpart of ``in_thread``: decide, after other tasks had their turn."""
    await asyncio.sleep(0)
    result = function(*arguments, **named)
    await asyncio.sleep(0.001)
    return result


class Process:
    """One service that is started again whenever it ends, as in a Deployment."""

    def __init__(self, name: str, entry: Entry, loop: VirtualLoop, network: Network, seed: str) -> None:
        self.name, self._entry, self._loop, self._network, self._seed = name, entry, loop, network, seed
        self.starts = 0
        self.ready = asyncio.Event()
        self.ends: list[str] = []
        """Why it ended by itself, but for the loss of its Lease."""
        self.machine: SimulatedMachine
        self._stopped = False
        self._stop = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self.ahead = 0.0

    def start(self) -> None:
        """Start the process on a new machine."""
        self.starts += 1
        host = f"{self.name}-{self.starts}"
        self.machine = there = SimulatedMachine(host, f"{self._seed}/{host}", self._loop.time)
        there.ahead = self.ahead
        context = contextvars.copy_context()
        context.run(machine.current.set, there)
        self._stop, self.ready = asyncio.Event(), asyncio.Event()
        self._main = self._loop.create_task(self._run(there), name=host, context=context)

    async def _run(self, there: SimulatedMachine) -> None:
        try:
            await self._entry(self._stop, self.ready)
            if not self._stopped:
                self.ends.append("stopped by itself")
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            if not _only(error, LostLeadership):
                self.ends.append(f"{self.name}: {_first(error)!r}")
        if there is self.machine and not self._stopped:
            self._loop.call_later(RESTART, self._start_again, there, context=contextvars.Context())

    def _start_again(self, there: SimulatedMachine) -> None:
        if there is self.machine and not self._stopped:
            self.start()

    def kill(self, restart: float = RESTART) -> None:
        """End the process at this moment, wherever its tasks wait, and start it again later."""
        there = self.machine
        self._loop.resume(there)
        self._network.vanish(there.name)
        for task in sorted(there.tasks, key=hash):
            task.cancel()
        self._loop.call_later(restart, self._start_again, there, context=contextvars.Context())

    def cut(self, seconds: float) -> None:
        """Let nothing pass between this process and the rest for so long."""
        self._network.cuts[self.machine.name] = self._loop.time() + seconds

    def pause(self, seconds: float) -> None:
        """Let the process stand still for so long, as if the machine had no processor time for it; what arrives waits."""
        there = self.machine
        if there not in self._loop.paused:
            self._loop.paused[there] = []
            self._loop.call_later(seconds, self._loop.resume, there, context=contextvars.Context())

    async def stop(self) -> None:
        """End it in good order."""
        self._stopped = True
        self._stop.set()
        if self._main is not None:
            await asyncio.wait({self._main}, timeout=60.0)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _only(error: BaseException, kind: type[BaseException]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_only(part, kind) for part in error.exceptions)
    return isinstance(error, kind)


def descriptions(processes: Mapping[str, Process]) -> list[str]:
    """Return how processes ended by themselves."""
    return [why for process in processes.values() for why in process.ends]
