"""Carries plans out: effects in, requests to the API server out, in an order that makes sense and as few as possible.

:meth:`Applier.submit` starts everything that must be done now (admissions, binds, evictions) and puts the rest in line.
Plans may overlap: a later plan's effect on an object never overtakes an earlier one's, since each object has its lane.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from volcanopy.kube.apply.event_writer import EventRecorder
from volcanopy.kube.apply.pod_writer import PodWriter, WriterContext
from volcanopy.kube.apply.status_writer import ExplanationWriter, PodGroupStatusWriter, QueueStatusWriter, Timing
from volcanopy.kube.apply.write_queue import DelayedWrites
from volcanopy.kube.cache.store import Store
from volcanopy.kube.client.api_client import Client
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan, SetPodGroup, SetQueue

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Applied:
    """What became of a plan's effects on pods. Statuses and explanations may still be in line."""

    bound: int = 0
    evicted: int = 0
    nominated: int = 0
    failed: tuple[str, ...] = ()
    """The pods that wait or run on, against the plan."""


class Applier:
    """Applies plans that the store has assumed, between ``async with`` and its end.

    A fault of the network or the server ends in an event, a log line, and the store's knowing better; any other
    exception is an error of ours and ends the ``async with`` block.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        recorder: EventRecorder,
        *,
        timing: Timing | None = None,
        in_flight: int = 64,
    ) -> None:
        """``in_flight`` bounds the binds and evictions that are on their way at once."""
        timing = timing or Timing()
        self._tasks = asyncio.TaskGroup()
        self._later = DelayedWrites(self._spawn)
        self._means = WriterContext(client, store, recorder, self._later, bind_slots=asyncio.Semaphore(in_flight))
        self._running: set[asyncio.Task[Any]] = set()
        self._placing = PodWriter(self._means)
        self._groups = PodGroupStatusWriter(self._means, timing)
        self._queues = QueueStatusWriter(self._means, timing)
        self._explanations = ExplanationWriter(self._means, timing)

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
        """The writes that wait for their time."""
        return len(self._later)

    async def apply(self, plan: Plan) -> Applied:
        """Carry a plan out; done when its effects on pods and its changes of phase are."""
        return await self.submit(plan)

    def submit(self, plan: Plan) -> asyncio.Task[Applied]:
        """Begin to carry a plan out, with its place in line taken at once; the task gives what became of it."""
        first = [task for task in (self._groups.enqueue(key) for key in _admitted_first(plan)) if task is not None]
        state = self._means.store.state
        binds, evicts, rest = [], [], []
        # A gang's binds follow each other on the wire, so that it is whole as soon as it can be.
        for bind in sorted(plan.of(Bind), key=_gang_order(plan)):
            assumed = state.assumed.get(bind.pod)
            if assumed is not None and assumed[1] == bind.node:
                binds.append((bind.pod, self._spawn(self._placing.bind(bind, assumed[0]))))
        for effect in plan.effects:
            match effect:
                case Evict() if effect.pod in state.evicted:
                    evicts.append((effect.pod, self._spawn(self._placing.evict(effect, state.evicted[effect.pod]))))
                case Nominate():
                    rest.append((effect.pod, self._spawn(self._placing.nominate(effect))))
                case SetQueue():
                    self._queues.enqueue(effect.queue)
                case Explain():
                    self._explanations.enqueue(effect)
                    self._groups.explain(effect)
        return self._spawn(_outcome(first, binds, evicts, rest))

    async def finish(self, deadline: float) -> bool:
        """Do what waits at once and wait for all that is under way, for so many seconds. Whether all was done."""
        try:
            async with asyncio.timeout(deadline):
                await self._later.flush()
                while others := self._running - {asyncio.current_task()}:
                    await asyncio.wait(others)
        except TimeoutError:
            log.warning("%d writes could not be finished in time", len(self._running) + len(self._later))
            return False
        return True


def _admitted_first(plan: Plan) -> list[str]:
    """The pod groups to write, those that are admitted before the others: their pods are waited for."""
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
