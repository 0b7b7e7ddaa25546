"""``volcanopy job suspend``, ``resume``, ``restart``, ``terminate`` and ``complete``: Commands for the job controller."""

from dataclasses import dataclass

from volcanopy.api.batch import Phase
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.lifecycle import Action
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.changes import Changes, Request, send_command
from volcanopy.cli.framework.kinds import read
from volcanopy.cli.framework.objects import for_each, select_objects
from volcanopy.cli.framework.options import Cluster, Place, Selection, WriteOptions
from volcanopy.cli.jobs.status import phase
from volcanopy.cli.jobs.wait import Goal, wait_until_job
from volcanopy.jobcontroller.phases import TRANSITIONS
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS


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


async def send(cluster: Cluster, place: Place, write: WriteOptions, selection: Selection, request: Request) -> None:
    """Create the Command for each job; with a ``timeout``, wait until the controller has processed it."""
    command, changes = COMMANDS[request.verb], Changes(write)
    async with cluster.client() as client:
        bodies = await select_objects(client, JOBS, place.of(client), selection)
        if not selection.by_name:
            bodies = [body for body in bodies if command.is_allowed(phase(read(BatchJob, body)))]

        async def send_to(body: Json) -> None:
            job = read(BatchJob, body)
            _check(command, job)
            sent = await send_command(
                client, changes, JOBS, body, job.metadata.namespace, request, str(command.action), command.result
            )
            if request.timeout is not None and sent is not None:
                goal = Goal(command.result, frozenset(map(str, command.phases)), command=sent["metadata"]["uid"])
                await wait_until_job(client, body, goal, request.timeout)

        await for_each(bodies, send_to, together=True)


def _check(command: JobCommand, job: BatchJob) -> None:
    if not command.is_allowed(phase(job)):
        *others, last = (str(name) for name in Phase if command.is_allowed(name))
        allowed = f"{', '.join(others)} or {last}" if others else last
        message = f'job "{job.metadata.name}" is {phase(job)}: only jobs in phase {allowed} can be {command.result}'
        raise CommandError(message)
