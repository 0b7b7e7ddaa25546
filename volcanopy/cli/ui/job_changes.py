"""Changes that the page may request of a job, each allowed by the API server for this user and sent to it as this user."""

import asyncio
from typing import Literal, get_args

from volcanopy.api.batch_read import BatchJob
from volcanopy.api.model import Json
from volcanopy.client import access
from volcanopy.client.commands import CommandRequest, command_for
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.cluster_reads import find_job
from volcanopy.client.jobs.commands import COMMANDS as JOB_COMMANDS
from volcanopy.client.kinds import read
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS

Verb = Literal["suspend", "resume", "delete"]
VERBS: tuple[Verb, ...] = get_args(Verb)
_NEEDED: dict[Verb, tuple[str, Kind[Json]]] = {
    "suspend": ("create", COMMANDS),
    "resume": ("create", COMMANDS),
    "delete": ("delete", JOBS),
}


async def allowed(client: Client, namespace: str) -> list[Verb]:
    """Return the changes that this user may make in the namespace to jobs of the API that the client is a view of."""
    needed = (_NEEDED[verb] for verb in VERBS)
    try:
        answers = await asyncio.gather(*(access.is_allowed(client, action, kind, namespace) for action, kind in needed))
    except KubeError:
        return []
    return [verb for verb, answer in zip(VERBS, answers, strict=True) if answer]


def possible(job: BatchJob) -> list[Verb]:
    """Return the changes that a job accepts as it is now."""
    return [verb for verb in VERBS if verb not in JOB_COMMANDS or not JOB_COMMANDS[verb].rejection(job)]


async def change(client: Client, namespace: str, name: str, verb: Verb, api: str = "") -> str:
    """Make a change of a job of this API; return what was done. Raises CommandError and KubeError."""
    view, body = await find_job(client, namespace, name, api)
    if verb == "delete":
        await view.delete(JOBS, namespace, name, uid=body["metadata"]["uid"], propagation="Background")
        return f'job "{name}" deleted'
    command = JOB_COMMANDS[verb]
    if rejection := command.rejection(read(BatchJob, body)):
        raise CommandError(rejection)
    request = CommandRequest(verb, "requested by a user on the web page", None)
    await view.create(COMMANDS, namespace, command_for(JOBS, body, namespace, request, str(command.action)))
    return f'job "{name}" {command.result}'
