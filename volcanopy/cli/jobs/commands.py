"""``volcanopy job suspend``, ``resume``, ``restart``, ``terminate`` and ``complete``: a wish that is left for the controller.

A wish is a Command that belongs to its job: it names the job's identity, so that it cannot reach a later job of the
same name, and goes with the job if that is deleted first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from volcanopy.api.batch import Phase
from volcanopy.api.lifecycle import Action
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.kinds import COMMANDS, JOBS, key_of
from volcanopy.cli.framework.objects import for_each, select_objects
from volcanopy.cli.framework.options import Chosen, Cluster, Dry, Place, Written
from volcanopy.cli.jobs.columns import phase
from volcanopy.cli.jobs.wait import Goal, until
from volcanopy.jobcontroller.phases import TRANSITIONS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json


@dataclass(frozen=True)
class Wish:
    """What is asked for: the action, the word for a job that it was asked of, and the phases that it ends in."""

    action: Action
    word: str
    ends: tuple[Phase, ...]


_ALIVE = (Phase.PENDING, Phase.RUNNING, Phase.COMPLETED)
"""Where a job may be found once it has started anew, short ones included."""
WISHES = {
    "suspend": Wish(Action.ABORT_JOB, "suspended", (Phase.ABORTED,)),
    "resume": Wish(Action.RESUME_JOB, "resumed", _ALIVE),
    "restart": Wish(Action.RESTART_JOB, "restarted", _ALIVE),
    "terminate": Wish(Action.TERMINATE_JOB, "terminated", (Phase.TERMINATED,)),
    "complete": Wish(Action.COMPLETE_JOB, "completed", (Phase.COMPLETED,)),
}
"""By the commands' names."""


async def wish(
    cluster: Cluster, place: Place, written: Written, which: Chosen, verb: str, reason: str, timeout: float | None
) -> None:
    """Leave the wish for each job; with a ``timeout`` in seconds, wait until it is carried out."""
    asked, changes = WISHES[verb], Changes(written)
    async with cluster.client() as client:
        namespace = place.of(client)
        jobs = await select_objects(
            client, JOBS, namespace, which.names or (), which.selector, everything=which.everything
        )
        if which.selector or which.everything:
            jobs = [job for job in jobs if _possible(asked, job)]

        async def leave(job: Json) -> None:
            command = await _leave(client, changes, asked, verb, job, reason)
            if timeout is not None and command:
                await until(client, job, Goal(asked.word, frozenset(map(str, asked.ends)), command=command), timeout)

        await for_each(jobs, leave, together=True)


def _possible(asked: Wish, job: Json) -> bool:
    return TRANSITIONS[Phase(phase(job)), asked.action].to is not None


async def _leave(client: Client, changes: Changes, asked: Wish, verb: str, job: Json, reason: str) -> str:
    """Leave the Command; gives its identity, empty when it was only tried."""
    where = key_of(job)
    if not _possible(asked, job):
        able = [str(one) for one in Phase if TRANSITIONS[one, asked.action].to is not None]
        raise CommandError(f"job {where.name} is {phase(job)}: only one that is {_or(able)} can be {asked.word}")
    owner = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": where.name,
        "uid": job["metadata"]["uid"],
    }
    command: Json = {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {
            "generateName": f"{where.name}-{verb}-",
            "namespace": where.namespace,
            "ownerReferences": [owner],
        },
        "action": str(asked.action),
        "target": owner,
        "reason": "AskedFor",
        "message": reason or f"a person asked for it: volcanopy job {verb}",
    }
    made = command
    if not changes.pretended:
        made = await client.create(COMMANDS, where.namespace, command, options=changes.options)
    changes.tell(JOBS, job, asked.word)
    return str(made["metadata"].get("uid", "")) if changes.written.dry_run is Dry.none else ""


def _or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
