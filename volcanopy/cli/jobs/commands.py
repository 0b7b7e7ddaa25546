"""``volcanopy job wait``, and Commands for the job controller: suspend, resume, restart, terminate and complete."""

from volcanopy.api.batch_read import BatchJob
from volcanopy.cli.framework.changes import ChangeWriter, send_command
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption, Selection, WriteOptions
from volcanopy.cli.framework.selection import for_each, select_objects, wait_for_selection
from volcanopy.client.commands import CommandRequest
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.commands import COMMANDS
from volcanopy.client.jobs.wait import Goal, wait_until_job
from volcanopy.client.kinds import read
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS


async def send(
    cluster: ClusterOptions, place: NamespaceOption, write: WriteOptions, selection: Selection, request: CommandRequest
) -> None:
    """Create the Command for each job; with a ``timeout``, wait until the controller has processed it."""
    command, changes = COMMANDS[request.verb], ChangeWriter(write)
    async with cluster.client() as client:
        bodies = await select_objects(client, JOBS, place.of(client), selection)
        if not selection.by_name:
            bodies = [body for body in bodies if not command.rejection(read(BatchJob, body))]

        async def send_to(body: Json) -> None:
            job = read(BatchJob, body)
            if rejection := command.rejection(job):
                raise CommandError(rejection)
            sent = await send_command(
                client, changes, JOBS, body, job.metadata.namespace, request, str(command.action), command.result
            )
            if request.timeout is not None and sent is not None:
                goal = Goal(command.result, frozenset(map(str, command.phases)), command=sent["metadata"]["uid"])
                await wait_until_job(client, body, goal, request.timeout)

        await for_each(bodies, send_to, together=True)


async def wait(
    cluster: ClusterOptions, place: NamespaceOption, selection: Selection, target: Goal, timeout: float
) -> None:
    """Wait for all jobs; raises CommandError at the timeout, or when a job cannot reach the goal any more."""
    async with cluster.client() as client:
        await wait_for_selection(
            client,
            JOBS,
            place.of(client),
            selection,
            target.name,
            lambda job: wait_until_job(client, job, target, timeout),
        )
