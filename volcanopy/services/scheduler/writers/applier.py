"""Application of plans: effects in, API requests out.

:meth:`Applier.submit` starts the urgent writes (admissions, binds, evictions) and queues the others. Plans may overlap: the
writes of one object are serialised, so a later plan's effect never overtakes an earlier one's.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.logs import Logger
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.kube.writes.write_queue import DelayedWrites
from volcanopy.kube.writes.write_slots import WriteSlots
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.services.scheduler.state.store import Store
from volcanopy.services.scheduler.writers.pod_writer import PodWriter
from volcanopy.services.scheduler.writers.status_writer import (
    ExplanationWriter,
    PodGroupStatusWriter,
    QueueStatusWriter,
    Timing,
)
from volcanopy.services.scheduler.writers.writer_context import WriterContext

log = Logger(__name__)


@dataclass(frozen=True)
class Applied:
    """The result of a plan's effects on pods. Statuses and explanations may still be queued."""

    bound: int = 0
    evicted: int = 0
    nominated: int = 0
    failed: tuple[str, ...] = ()
    """The pods whose bind, eviction or nomination failed."""


class Applier:
    """Applies plans that the store has assumed, between ``async with`` and its end.

    An error of the network or the server leads to an event, a log line and a correction of the store; any other exception
    is a bug and ends the ``async with`` block.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        recorder: EventRecorder,
        *,
        timing: Timing | None = None,
        in_flight: int = 64,
        pod_events: bool = False,
    ) -> None:
        """``in_flight`` limits the concurrent binds and evictions; with ``pod_events`` scheduled pods get events."""
        timing = timing or Timing()
        self._tasks = asyncio.TaskGroup()
        self._later = DelayedWrites(self._spawn)
        slots = WriteSlots(in_flight)
        self._context = WriterContext(client, store, recorder, self._later, bind_slots=slots, pod_events=pod_events)
        self._running: set[asyncio.Task[Any]] = set()
        self._placing = PodWriter(self._context)
        self._groups = PodGroupStatusWriter(self._context, timing)
        self._queues = QueueStatusWriter(self._context, timing)
        self._explanations = ExplanationWriter(self._context, timing)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._later.close()
        for task in self._running:
            task.cancel()
        await self._tasks.__aexit__(kind, fault, trace)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    @property
    def waiting(self) -> int:
        """The number of delayed writes."""
        return len(self._later)

    def submit(self, plan: Plan) -> asyncio.Task[Applied]:
        """Start to apply a plan: its writes are queued at once, the task returns the result."""
        first = [task for task in (self._groups.enqueue(key) for key in _admitted_first(plan)) if task is not None]
        writes = self._context.store.state.writes
        binds, evicts, rest = [], [], []
        # A gang's binds are sent one after another, so that it is complete as soon as possible.
        for bind in sorted(plan.of(Bind), key=_gang_order(plan)):
            assumed = writes.binds.get(bind.pod)
            if assumed is not None and assumed[1] == bind.node:
                binds.append((bind.pod, self._spawn(self._placing.bind(bind, assumed[0]))))
        for effect in plan.effects:
            match effect:
                case Evict() if effect.pod in writes.evictions:
                    evicts.append((effect.pod, self._spawn(self._placing.evict(effect, writes.evictions[effect.pod]))))
                case Nominate():
                    rest.append((effect.pod, self._spawn(self._placing.nominate(effect))))
                case SetQueue():
                    self._queues.enqueue(effect.queue)
                case Explain():
                    explain = effect.in_namespace()
                    self._explanations.enqueue(explain)
                    self._groups.explain(explain)
        return self._spawn(_outcome(first, binds, evicts, rest))

    async def finish(self, deadline: float) -> bool:
        """Start all delayed writes and wait for those in progress, for ``deadline`` seconds. Whether all were done."""
        try:
            async with asyncio.timeout(deadline):
                await self._later.flush()
                while others := self._running - {asyncio.current_task()}:
                    await asyncio.wait(others)
        except TimeoutError:
            log.warning("writes not finished in time", writes=len(self._running) + len(self._later))
            return False
        return True


def _admitted_first(plan: Plan) -> list[str]:
    """Return the pod groups to write, admitted ones first, because their pods are created then."""
    effects: list[SetPodGroup] = plan.of(SetPodGroup)
    return [effect.pod_group for effect in sorted(effects, key=lambda effect: effect.phase != "Inqueue")]


def _gang_order(plan: Plan) -> Any:
    order: dict[str, int] = {}
    for effect in plan.of(Bind):
        order.setdefault(effect.group or effect.pod, len(order))
    return lambda effect: order[effect.group or effect.pod]


_Started = Iterable[tuple[str, "asyncio.Task[bool]"]]


async def _outcome(first: Iterable[asyncio.Task[None]], binds: _Started, evicts: _Started, rest: _Started) -> Applied:
    failed: list[str] = []

    async def count(started: _Started) -> int:
        done = 0
        for pod, task in started:
            if await task:
                done += 1
            else:
                failed.append(pod)
        return done

    for task in first:
        await task
    return Applied(await count(binds), await count(evicts), await count(rest), tuple(failed))
