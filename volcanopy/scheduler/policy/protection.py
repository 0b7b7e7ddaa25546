"""A base class for plugins that protect tasks from eviction."""

from collections.abc import Sequence
from typing import TypeVar

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.policy.plugin import Arguments, GangPreemptor, Plugin

A = TypeVar("A", bound=Arguments)


class Protection(Plugin[A]):
    """Answers the hooks of preempt, reclaim, gangpreempt and gangreclaim with the same filter."""

    def unprotected(self, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Return the tasks that may be evicted, in order."""
        raise NotImplementedError

    def preemptable(self, preemptor: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Filter the candidates."""
        return self.unprotected(candidates)

    def reclaimable(self, reclaimer: TaskView, candidates: Sequence[TaskView]) -> Sequence[TaskView]:
        """Filter the candidates."""
        return self.unprotected(candidates)

    def preemptable_at_all(self, preemptor: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Filter the victims."""
        return self.unprotected(victims)

    def reclaimable_at_all(self, reclaimer: TaskView, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Filter the victims."""
        return self.unprotected(victims)

    def unified_evictable_at_all(self, preemptor: GangPreemptor, victims: Sequence[TaskView]) -> Sequence[TaskView]:
        """Filter the victims."""
        return self.unprotected(victims)
