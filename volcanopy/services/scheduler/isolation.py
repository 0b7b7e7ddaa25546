"""Search for the object that makes every scheduling cycle fail.

1. The objects that have changed since the last successful cycle are suspects. Infrastructure comes first (nodes, classes,
   queues, ...), then pods, then PodGroups. Without all of them a cycle must succeed; else nothing can be concluded.
2. The shortest list of suspects, from the front, with which a cycle fails ends with the object that completes the fault:
   usually a PodGroup, whose job is excluded. This is repeated for the rest.
3. More than one such object may have a common cause: if a cycle succeeds without a single other object, a node for
   example, that one is excluded instead of them. Likewise the queue of several jobs.

A cycle is tried about ``2 log2(suspects)`` times for each object that is found.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from volcanopy.api import core
from volcanopy.services.scheduler.state.quarantine import Excluded, Quarantine

MOST = 8
"""Most objects that one search excludes; the search is repeated when a cycle fails again."""
_EXAMINED = "examined after a failed scheduling cycle"

Attempt = Callable[[], Awaitable[bool]]
"""Tries a cycle of the current state without applying its plan; whether it succeeds."""


async def isolate(quarantine: Quarantine, attempt: Attempt, error: str) -> list[Excluded]:
    """Exclude the objects that make ``attempt`` fail with ``error`` and return them; none if they cannot be found."""
    suspects = sorted(quarantine.recent(), key=_rank)
    search = _SuspectList(quarantine, attempt, suspects)
    if not suspects or not await search.passes(0):
        search.admit(len(suspects))
        return []
    culprits: list[Any] = []
    while len(culprits) < MOST and not await search.passes(len(search.suspects)):
        culprits.append(await search.first())
        if len(culprits) == 2 and (cause := await search.common_cause(culprits)) is not None:
            culprits = [cause]
        search.exclude(culprits[-1], error)
    search.admit(len(search.suspects))
    excluded = {(type(item).__name__, item.metadata.key) for item in culprits}
    return [entry for entry in quarantine.entries() if (entry.kind, entry.key) in excluded]


class _SuspectList:
    """The suspects, of which a number from the front is in the state."""

    def __init__(self, quarantine: Quarantine, attempt: Attempt, suspects: Sequence[Any]) -> None:
        self.suspects = list(suspects)
        self._quarantine, self._attempt = quarantine, attempt
        self._admitted = len(self.suspects)

    def admit(self, count: int) -> None:
        """Have the first ``count`` suspects in the state, and no others."""
        if count < self._admitted:
            for item in reversed(self.suspects[count : self._admitted]):
                self._quarantine.exclude(item, _EXAMINED, held=True)
        else:
            self._quarantine.readmit(self.suspects[self._admitted : count])
        self._admitted = count

    async def passes(self, count: int) -> bool:
        """Whether a cycle succeeds with the first ``count`` suspects."""
        self.admit(count)
        return await self._attempt()

    async def first(self) -> Any:
        """Return the last suspect of the shortest list with which a cycle fails."""
        passing, failing = 0, len(self.suspects)
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if await self.passes(middle):
                passing = middle
            else:
                failing = middle
        return self.suspects[failing - 1]

    def exclude(self, culprit: Any, error: str) -> None:
        """Exclude an object for good."""
        position = next(number for number, item in enumerate(self.suspects) if item is culprit)
        del self.suspects[position]
        if position < self._admitted:
            self._admitted -= 1
        self._quarantine.exclude(culprit, error)

    async def common_cause(self, culprits: Sequence[Any]) -> Any | None:
        """Return a single other object without which a cycle with all suspects succeeds."""
        first, second = culprits
        self.admit(len(self.suspects))
        self._quarantine.readmit([first])
        self.suspects.append(first)
        self._admitted += 1
        others = [item for item in self.suspects if _rank(item) < _rank(first)]
        queue = _queue_of(second)
        named = [item for item in others if isinstance(item, core.Queue) and item.metadata.name == queue]
        if _queue_of(first) == queue and named and await self._passes_without(named):
            return named[0]
        low, high = 0, len(others)
        while high - low > 1:  # without which half does a cycle succeed?
            middle = (low + high) // 2
            if await self._passes_without(others[low:middle]):
                high = middle
            elif await self._passes_without(others[middle:high]):
                low = middle
            else:
                break
        if high - low == 1 and await self._passes_without(others[low:high]):
            return others[low]
        self.exclude(first, _EXAMINED)
        return None

    async def _passes_without(self, items: Sequence[Any]) -> bool:
        for item in items:
            self._quarantine.exclude(item, _EXAMINED, held=True)
        passes = await self._attempt()
        self._quarantine.readmit(items)
        return passes


def _rank(item: Any) -> int:
    """Infrastructure, then pods on nodes, then other pods, then PodGroups."""
    if isinstance(item, core.PodGroup):
        return 3
    if isinstance(item, core.Pod):
        return 1 if item.spec.node_name else 2
    return 0


def _queue_of(item: Any) -> str:
    return (item.spec.queue or "default") if isinstance(item, core.PodGroup) else ""
