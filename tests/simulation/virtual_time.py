"""An event loop whose time advances only when nothing is left to do, so that hours pass in the time of their work."""

import asyncio
import selectors
from collections.abc import Callable, Mapping
from contextvars import Context
from heapq import heapify, heappop
from typing import Any, TypeVar, TypeVarTuple

from tests.simulation.network import Network
from volcanopy.kube import machine

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
STEP = 1e-6
"""Seconds that each iteration of the loop takes: without it, work that waits for a time that is a rounding error ahead never ends."""
START = 1_800_000_000.0
"""Seconds since the epoch at which a simulation begins."""


MOST_STEPS = 200_000
"""Iterations of the loop after which a run counts as endless; a seed needs 3,400 on average."""


class DeadlockError(RuntimeError):
    """Nothing can ever happen again: no task is ready and no timer is set."""


class EndlessError(RuntimeError):
    """A run has used up its iterations of the loop."""


class _NoFiles(selectors.BaseSelector):
    """Watches no files."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise NotImplementedError("the loop has its own clock")


class _Task(asyncio.Task[T]):
    """A task with a number as its hash: the order of sets of tasks is the same in each run."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[T]):
    number = 0

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with virtual time and the connections of a simulated network.

    ``started`` is called with each new task, in the context of the task. What a machine of ``paused`` would do waits until
    the machine is resumed.
    """

    def __init__(self, network: Network, started: Callable[[asyncio.Task[Any], Context | None], None]) -> None:
        self._virtual, self._count, self.steps_left = 0.0, 0, MOST_STEPS
        self.network, self._started = network, started
        self.paused: dict[machine.Machine, list[asyncio.Handle]] = {}
        super().__init__(_NoFiles())
        network.loop = self
        self.set_task_factory(self._make_task)

    def _run_once(self) -> None:
        """Run what is ready; if nothing is, advance to the next timer."""
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        if self._timer_cancelled_count > 200 and self._timer_cancelled_count * 2 > len(timers):  # type: ignore[has-type]
            timers[:] = [timer for timer in timers if not timer._cancelled]
            heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heappop(timers)
        if not ready and not timers and not self._stopping:  # type: ignore[attr-defined]
            raise DeadlockError("no task is ready and no timer is set")
        self.steps_left -= 1
        if self.steps_left == 0:
            raise EndlessError(f"the run has not ended after {MOST_STEPS} steps of the loop and {self._virtual:.0f} s")
        wait = timers[0]._when - self._virtual if timers and not ready else 0.0
        self._virtual += max(wait, STEP)
        until = self._virtual + STEP
        while timers and timers[0]._when < until:
            timer = heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            held = self.paused.get(handle._context.get(machine.current)) if self.paused else None
            if held is None:
                handle._run()
            else:
                held.append(handle)

    def resume(self, there: machine.Machine) -> None:
        """Let a machine do what it would have done since it was paused."""
        self._ready.extend(self.paused.pop(there, ()))  # type: ignore[attr-defined]

    def time(self) -> float:
        """Return the virtual time in seconds since the beginning."""
        return self._virtual

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, context: Context | None = None) -> Any:
        task: _Task[Any] = _Task.__new__(_Task)
        self._count += 1
        task.number = self._count
        task.__init__(coroutine, loop=loop, context=context)  # type: ignore[misc]
        self._started(task, context)
        return task

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future with a number as its hash."""
        future: _Future[Any] = _Future.__new__(_Future)
        self._count += 1
        future.number = self._count
        future.__init__(loop=self)  # type: ignore[misc]
        return future

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call the function at once: nothing runs beside the loop."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Connect to a server of the simulated network."""
        await self.network.connect(sock, address)

    async def create_connection(self, protocol_factory: Any, *_: Any, sock: Any = None, **__: Any) -> Any:
        """Open a connection through a socket that :meth:`sock_connect` has connected."""
        return await self.network.open(protocol_factory, sock)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **__: Any) -> Any:
        """Listen at an address of the simulated network."""
        return self.network.listen(protocol_factory, host, port)
