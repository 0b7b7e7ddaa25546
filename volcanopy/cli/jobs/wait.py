"""``volcanopy job wait``: until a job has come to a phase, told by the watch; and no longer than it still can."""

import asyncio
from dataclasses import dataclass

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.kinds import JOBS, key_of, resource, status_of
from volcanopy.cli.framework.objects import for_each, select_objects
from volcanopy.cli.framework.options import Chosen, Cluster, Place
from volcanopy.cli.framework.watch import watch_objects
from volcanopy.cli.jobs.columns import message, phase
from volcanopy.cli.jobs.phases import FINISHED, phase_named
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json

_WEEK = 7 * 86400.0


@dataclass(frozen=True)
class Goal:
    """What is waited for: one of these phases, or (with none) that the job is gone.

    ``passed`` is a phase that counts also when the job has left it since. ``command`` is the identity of a Command
    that must have been carried out.
    """

    word: str
    phases: frozenset[str] = frozenset()
    passed: str = ""
    command: str = ""

    def reached(self, job: Json) -> bool:
        """Whether the job is there."""
        if self.command and status_of(job).get("lastCommand") != self.command:
            return False
        been = {one["type"] for one in status_of(job).get("conditions") or ()}
        return phase(job) in self.phases or bool(self.passed and self.passed in been)

    def hopeless(self, job: Json) -> bool:
        """Whether the job can no longer get there."""
        return bool(self.phases) and phase(job) in FINISHED and not self.reached(job)


def goal(text: str) -> Goal:
    """The goal of ``--for``; raises Stop for what is none."""
    what, equals, which = text.partition("=")
    if text.lower() in {"delete", "deleted"}:
        return Goal("deleted")
    if equals and what in {"phase", "condition"}:
        name = phase_named(which)
        return Goal(name, frozenset({name}), passed=name if what == "condition" else "")
    if equals:
        raise CommandError(
            f"--for: {text!r} is neither a phase, such as completed, nor phase=NAME, condition=NAME or delete", 2
        )
    if text.lower() == "finished":
        return Goal("finished", FINISHED)
    name = phase_named(text)
    return Goal(name, frozenset({name}), passed=name if name == "Running" else "")


async def wait(cluster: Cluster, place: Place, which: Chosen, wanted: Goal, timeout: float) -> None:
    """Wait for all of the jobs; raises Stop when the time is up, or one can no longer get there."""
    async with cluster.client() as client:
        jobs = await select_objects(
            client, JOBS, place.of(client), which.names or (), which.selector, everything=which.everything
        )
        if not jobs:
            raise CommandError("there is no such job to wait for")
        await for_each(jobs, lambda job: _told(client, job, wanted, timeout), together=True)


async def _told(client: Client, job: Json, wanted: Goal, timeout: float) -> None:
    await until(client, job, wanted, timeout)
    print(f"{resource(JOBS)}/{key_of(job).name} {'deleted' if not wanted.phases else 'condition met'}", flush=True)


async def until(client: Client, job: Json, wanted: Goal, timeout: float) -> Json:
    """Wait until this very job is there; gives it as it is then. Less than 0 seconds is a week, as with kubectl."""
    where, uid = key_of(job), job["metadata"]["uid"]
    now = job
    try:
        async with asyncio.timeout(timeout if timeout >= 0 else _WEEK):
            fields = f"metadata.name={where.name}"
            async with watch_objects(client, JOBS, where.namespace, fields=fields) as followed:
                while True:
                    found_now = next((one for one in followed.objects.values() if one["metadata"]["uid"] == uid), None)
                    if found_now is None:
                        if not wanted.phases:
                            return now
                        raise CommandError(
                            f"job {where.name} was deleted, as {phase(now)}, before it was {wanted.word}"
                        )
                    now = found_now
                    if wanted.reached(now):
                        return now
                    if wanted.hopeless(now):
                        raise CommandError(f"job {where.name} is {phase(now)} and stays so: {message(now)}")
                    await followed.changed()
    except TimeoutError:
        stands = f"it is {phase(now)}" + (f": {message(now)}" if message(now) else "")
        raise CommandError(f"timed out waiting for job {where.name} to be {wanted.word.lower()}; {stands}") from None
