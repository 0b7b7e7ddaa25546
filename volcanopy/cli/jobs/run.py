"""``volcanopy job run``: a job of equal pods from options."""

import asyncio

from volcanopy.cli.framework.changes import ChangeWriter
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption, WriteOptions
from volcanopy.cli.jobs.interactive import interact
from volcanopy.cli.jobs.logs import follow_logs
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.manifest import manifest
from volcanopy.client.jobs.options import JobOptions, LogOptions
from volcanopy.client.jobs.status import FINISHED, phase, summary
from volcanopy.client.jobs.wait import Goal, wait_until_job
from volcanopy.client.kinds import key_of
from volcanopy.kube.client.raw_kinds import JOBS


async def run(
    cluster: ClusterOptions, place: NamespaceOption, write: WriteOptions, options: JobOptions, submitted: str = ""
) -> None:
    """Create the job; with ``--follow``, print its logs until it has finished.

    ``submitted`` is the line to print for a created job instead of the usual one.
    """
    body, changes = manifest(options), ChangeWriter(write)
    if changes.client_only:
        if place.namespace:
            body["metadata"]["namespace"] = place.namespace
        changes.report(JOBS, body, "created")
        return
    async with cluster.client() as client:
        if submitted and write.output is None and not changes.dry_run:
            created = await client.create(JOBS, place.of(client), body, options=changes.options)
            print(submitted, flush=True)
        else:
            created = await changes.create(client, JOBS, place.of(client), body)
    if changes.dry_run:
        return
    key = key_of(created)
    if options.interactive or options.follow:
        await _attend(cluster, key.namespace, key.name, options.interactive)


async def _attend(cluster: ClusterOptions, namespace: str, name: str, interactive: bool) -> None:
    """Connect the terminal or print the logs until the job has finished; raises CommandError unless it is Completed."""
    async with cluster.client() as client:
        body = await client.get(JOBS, namespace, name)
        finishing = asyncio.create_task(wait_until_job(client, body, Goal("finished", FINISHED), quiet=True))
        try:
            if interactive:
                await interact(client, namespace, name)
            else:
                await follow_logs(client, body, LogOptions(), required=False)
            job = await finishing
        finally:
            finishing.cancel()
    if phase(job) != "Completed":
        raise CommandError(f'job "{name}" is {summary(job)}')
