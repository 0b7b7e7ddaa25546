"""Commands for jobs: the action, the word for its result, and the phases that it leads to."""

from dataclasses import dataclass

from volcanopy.api.batch import Phase
from volcanopy.api.lifecycle import Action
from volcanopy.jobcontroller.phases import TRANSITIONS


@dataclass(frozen=True)
class JobCommand:
    """The action of a Command, the word for its result, and the phases that it leads to."""

    action: Action
    result: str
    phases: tuple[Phase, ...]

    def is_allowed(self, phase_name: str) -> bool:
        """Return whether a job in this phase accepts the action."""
        return TRANSITIONS[Phase(phase_name), self.action].to is not None


_STARTED = (Phase.PENDING, Phase.RUNNING, Phase.COMPLETED)
"""Phases of a job that was started again, including short jobs."""
COMMANDS = {
    "suspend": JobCommand(Action.ABORT_JOB, "suspended", (Phase.ABORTED,)),
    "resume": JobCommand(Action.RESUME_JOB, "resumed", _STARTED),
    "restart": JobCommand(Action.RESTART_JOB, "restarted", _STARTED),
    "terminate": JobCommand(Action.TERMINATE_JOB, "terminated", (Phase.TERMINATED,)),
    "complete": JobCommand(Action.COMPLETE_JOB, "completed", (Phase.COMPLETED,)),
}
