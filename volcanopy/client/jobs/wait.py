"""Waiting for a job until it reaches a phase, or cannot reach it any more."""

from dataclasses import dataclass

from volcanopy.api.batch_read import BatchJob
from volcanopy.client.durations import WEEK
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.status import FINISHED, phase, phase_named, summary
from volcanopy.client.kinds import read
from volcanopy.client.watch import DELETED, wait_until
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS


@dataclass(frozen=True)
class Goal:
    """What to wait for: one of these phases, or (with none) the job's deletion.

    ``passed`` is a phase that also counts when the job has left it since. ``command`` is the uid of a Command that the
    controller must have processed.
    """

    name: str
    phases: frozenset[str] = frozenset()
    passed: str = ""
    command: str = ""

    def is_reached(self, job: BatchJob) -> bool:
        """Return whether the job has reached the goal."""
        if self.command and job.status.last_command != self.command:
            return False
        earlier = {condition.type for condition in job.status.conditions}
        return phase(job) in self.phases or bool(self.passed and self.passed in earlier)

    def is_impossible(self, job: BatchJob) -> bool:
        """Return whether the job can no longer reach the goal."""
        return bool(self.phases) and phase(job) in FINISHED and not self.is_reached(job)


class UnreachableError(CommandError):
    """The job has ended otherwise than awaited."""

    def __init__(self, job: BatchJob, target: Goal) -> None:
        super().__init__(f'job "{job.metadata.name}" cannot become {target.name}: it is {summary(job)}')
        self.job = job


def goal(text: str) -> Goal:
    """Return the goal of ``--for``; raises CommandError for an invalid one."""
    key, equals, value = text.partition("=")
    if text.lower() in {"delete", "deleted"}:
        return Goal(DELETED)
    if equals and key in {"phase", "condition"}:
        name = phase_named(value)
        return Goal(name, frozenset({name}), passed=name if key == "condition" else "")
    if equals:
        message = f"--for: {text!r} is invalid: use a phase such as completed, phase=NAME, condition=NAME or deleted"
        raise CommandError(message, 2)
    if text.lower() == "finished":
        return Goal("finished", FINISHED)
    name = phase_named(text)
    return Goal(name, frozenset({name}), passed=name if name == "Running" else "")


async def wait_until_job(
    client: Client, body: Json, target: Goal, timeout: float = WEEK, *, quiet: bool = False
) -> BatchJob:
    """Wait until this job reaches the goal; returns it in its last state. A terminal shows its state unless ``quiet``."""

    def reached(body: Json, _: object) -> bool:
        job = read(BatchJob, body)
        if target.is_impossible(job):
            raise UnreachableError(job, target)
        return target.is_reached(job)

    last = await wait_until(
        client, JOBS, body, target.name, reached, lambda body, _: summary(read(BatchJob, body)), timeout, quiet=quiet
    )
    return read(BatchJob, last)
