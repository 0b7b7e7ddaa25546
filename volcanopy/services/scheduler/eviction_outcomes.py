"""Whether pods that had to leave left for something: those for whom they were evicted get their place, or they do not."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from volcanopy.kube.metrics import registry
from volcanopy.scheduler.model.plan import Evict

PATIENCE = 600.0
"""Seconds that a job has to be bound in the room that was made for it; grace periods of pods are much shorter as a rule."""


@dataclass
class _Open:
    """What was given up for a job: since when (seconds), and how many pods, by the word that their evictions carry."""

    since: float
    pods: Counter[str] = field(default_factory=Counter)


class EvictionOutcomes:
    """The evictions that are not decided yet to have been useful or wasted, by the job that they were for."""

    def __init__(self, exists: Callable[[str], bool], clock: Callable[[], float]) -> None:
        """``exists`` says whether there still is a pod group of a key; ``clock`` gives seconds."""
        self._exists, self._clock = exists, clock
        self._open: dict[str, _Open] = {}

    def __len__(self) -> int:
        """The jobs that something was given up for and that are not bound yet."""
        return len(self._open)

    def evicted(self, evictions: Iterable[Evict]) -> None:
        """The server has agreed to these. What leaves for nobody in particular is no exchange."""
        for one in evictions:
            if one.preemptor:
                self._open.setdefault(one.preemptor, _Open(self._clock())).pods[one.reason] += 1

    def bound(self, groups: Iterable[str]) -> None:
        """Pods of these groups have been bound."""
        for group in set(groups) & self._open.keys() if self._open else ():
            self._close(group, useful=True)

    def review(self) -> None:
        """Give those up that are gone or have waited too long."""
        latest = self._clock() - PATIENCE
        for group in [key for key, one in self._open.items() if one.since < latest or not self._exists(key)]:
            self._close(group, useful=False)

    def _close(self, group: str, *, useful: bool) -> None:
        counter = registry.USEFUL_EVICTIONS if useful else registry.WASTED_EVICTIONS
        for action, pods in self._open.pop(group).pods.items():
            counter.labels(action).inc(pods)
