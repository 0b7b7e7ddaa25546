"""Phases of a job: the effect of each action in each phase.

An action is requested by a Command or a lifecycle policy. Transitions that follow from the pods are in
:mod:`volcanopy.jobcontroller.status`.

Differences from Volcano's table:

- AbortJob, CompleteJob and TerminateJob apply while the job restarts.
- ResumeJob does not count as a retry, and pods that had failed run again: a gang that lacks them could never start.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from volcanopy.api.batch import Phase
from volcanopy.api.lifecycle import Action


class Stop(StrEnum):
    """Which pods an action takes away."""

    NONE = "none"
    TARGET = "the pods that it is about"
    UNFINISHED = "all that have not ended"
    UNSUCCESSFUL = "all that have not succeeded"
    ALL = "all"


@dataclass(frozen=True)
class Step:
    """What an action does in a phase. ``to`` is None where it does nothing."""

    to: Phase | None = None
    stop: Stop = Stop.NONE
    costs_retry: bool = False


_NOTHING = Step()
_END = {
    Action.ABORT_JOB: Step(Phase.ABORTING, Stop.UNFINISHED),
    Action.COMPLETE_JOB: Step(Phase.COMPLETING, Stop.UNFINISHED),
    Action.TERMINATE_JOB: Step(Phase.TERMINATING, Stop.UNFINISHED),
}
_RESTART = {
    Action.RESTART_JOB: Step(Phase.RESTARTING, Stop.ALL, costs_retry=True),
    Action.RESTART_TASK: Step(Phase.RESTARTING, Stop.TARGET, costs_retry=True),
    Action.RESTART_POD: Step(Phase.RESTARTING, Stop.TARGET, costs_retry=True),
    Action.RESTART_PARTITION: Step(Phase.RESTARTING, Stop.TARGET, costs_retry=True),
}
_RESUME = {Action.RESUME_JOB: Step(Phase.RESTARTING, Stop.UNSUCCESSFUL)}

_DECIDED: dict[Phase, dict[Action, Step]] = {
    Phase.PENDING: _RESTART | _END,
    Phase.RUNNING: _RESTART | _END,
    Phase.RESTARTING: _RESTART | _END,
    Phase.ABORTING: _RESUME,
    Phase.ABORTED: _RESUME,
    Phase.COMPLETING: {},
    Phase.COMPLETED: {},
    Phase.TERMINATING: {},
    Phase.TERMINATED: {},
    Phase.FAILED: {},
}

RESTARTS = frozenset(_RESTART)
"""Actions after which pods run anew."""

TRANSITIONS = MappingProxyType(
    {(phase, action): _DECIDED[phase].get(action, _NOTHING) for phase in Phase for action in Action}
)
"""(phase, action) -> Step, for every pair."""

LIVE = frozenset({Phase.PENDING, Phase.RUNNING, Phase.RESTARTING})
"""Phases in which pods are made, and in which what happens to them counts."""

FINISHED = frozenset({Phase.COMPLETED, Phase.TERMINATED, Phase.FAILED})
"""Phases that are never left."""

STOPPED = FINISHED | {Phase.ABORTED}
"""Phases in which nothing of the job runs."""
