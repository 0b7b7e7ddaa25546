"""Commands for jobs: the action, the word for its result, and the phases that it leads to."""

from dataclasses import dataclass

from volcanopy.api.batch import Phase
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.lifecycle import Action
from volcanopy.client.jobs.status import phase
from volcanopy.jobcontroller.phases import TRANSITIONS


@dataclass(frozen=True)
class JobCommand:
    """The action of a Command, the word for its result, and the phases that it leads to."""

    action: Action
    result: str
    phases: tuple[Phase, ...]

    def rejection(self, job: BatchJob) -> str:
        """Return why the job controller would reject the action for the job as it is now; empty if it would not."""
        if self.action is Action.RESUME_JOB and job.spec.suspend:
            return f'job "{job.metadata.name}" is suspended by its spec: set spec.suspend to false'
        if self._is_allowed(Phase(phase(job))):
            return ""
        *phases, last = filter(self._is_allowed, Phase)
        allowed = f"{', '.join(phases)} or {last}" if phases else last
        return f'job "{job.metadata.name}" is {phase(job)}: only jobs in phase {allowed} can be {self.result}'

    def _is_allowed(self, name: Phase) -> bool:
        return TRANSITIONS[name, self.action].to is not None


_STARTED = (Phase.PENDING, Phase.RUNNING, Phase.COMPLETED)
"""Phases of a job that was started again, including short jobs."""
COMMANDS = {
    "suspend": JobCommand(Action.ABORT_JOB, "suspended", (Phase.ABORTED,)),
    "resume": JobCommand(Action.RESUME_JOB, "resumed", _STARTED),
    "restart": JobCommand(Action.RESTART_JOB, "restarted", _STARTED),
    "terminate": JobCommand(Action.TERMINATE_JOB, "terminated", (Phase.TERMINATED,)),
    "complete": JobCommand(Action.COMPLETE_JOB, "completed", (Phase.COMPLETED,)),
}
