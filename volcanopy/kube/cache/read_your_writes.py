"""What answers to our writes have shown before the watches did, and how much later the watches were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from volcanopy.api import core
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS, QUEUES
from volcanopy.kube.metrics import registry

_PLURALS: dict[str, str] = {
    core.Pod.__name__: PODS.plural,
    core.PodGroup.__name__: POD_GROUPS.plural,
    core.Queue.__name__: QUEUES.plural,
}


class _Answered(NamedTuple):
    """The version that an answer showed, and when it came."""

    version: int
    at: float


class Ahead:
    """Objects that an answer showed in a version which the watch has not reached yet."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._answers: dict[tuple[str, str], _Answered] = {}

    def __contains__(self, where: tuple[str, str]) -> bool:
        """Whether the watch is behind with the object of this kind and key."""
        return where in self._answers

    def note(self, thing: Any) -> None:
        """An answer showed this, and the watch has not."""
        self._answers[_where(thing)] = _Answered(version(thing), self._clock())

    def overtaken(self, thing: Any) -> None:
        """An answer showed what the watch had shown already."""
        self._lag(thing, 0.0)

    def is_behind(self, thing: Any, known: bool) -> bool:
        """Whether the watch tells of an earlier version than an answer did, of an object that is still ``known``."""
        where = _where(thing)
        answer = self._answers.get(where)
        if answer is None:
            return False
        if version(thing) < answer.version and known:
            return True
        self._lag(thing, self._clock() - answer.at)
        del self._answers[where]
        return False

    def forget(self, thing: Any) -> None:
        """The object is gone."""
        self._answers.pop(_where(thing), None)

    def _lag(self, thing: Any, seconds: float) -> None:
        registry.WATCH_LAG.labels(_PLURALS[type(thing).__name__]).observe(max(seconds, 0.0))


def version(thing: Any) -> int:
    """The resource version, which is a whole number that grows."""
    return int(thing.metadata.resource_version or 0)


def _where(thing: Any) -> tuple[str, str]:
    return type(thing).__name__, thing.metadata.key
