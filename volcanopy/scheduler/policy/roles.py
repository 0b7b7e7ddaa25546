"""The roles that a policy can have: each is a base class with the methods that several policies answer."""

from collections.abc import Sequence
from enum import Enum

from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.policy.plugin import hook


class Purpose(Enum):
    """What pods are evicted for; the value is the switch of the configuration file that turns a policy off for it."""

    PREEMPT = "enablePreemptable"
    """For a task, of jobs of its queue."""
    RECLAIM = "enableReclaimable"
    """For a task, of jobs of other queues."""
    GANG_PREEMPT = "gangpreempt"
    """For a gang, bundles of pods of jobs of its queue; it has no switch."""
    GANG_RECLAIM = "gangreclaim"
    """For a gang, bundles of pods of jobs of other queues; it has no switch."""
    SHUFFLE = "enabledVictim"
    """For no task: to move pods, to end them, or to drain a queue."""

    @property
    def is_between_queues(self) -> bool:
        """Whether the pods are of other queues than the preemptor."""
        return self in (Purpose.RECLAIM, Purpose.GANG_RECLAIM)

    @property
    def is_for_gang(self) -> bool:
        """Whether bundles of pods are evicted for a whole gang."""
        return self in (Purpose.GANG_PREEMPT, Purpose.GANG_RECLAIM)


class Victims:
    """Which pods may be evicted, and which are to be."""

    @hook("victims")
    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """Which candidates may be evicted for the task, in order; None to abstain.

        The policies of a tier must agree, and the first tier that leaves any victims decides.
        """
        raise NotImplementedError

    @hook("victims")
    def unprotected(
        self, preemptor: TaskView | None, victims: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView]:
        """Which of these victims may be evicted, in order: a protection that is valid whichever tier decides.

        It is asked about the victims that a tier agreed on, and about those that are evicted for no task.
        """
        raise NotImplementedError

    @hook("union", "enabledVictim")
    def evicts(self, running: Rows) -> Rows:
        """Which of the running task rows are to be evicted for no task (``shuffle``)."""
        raise NotImplementedError
