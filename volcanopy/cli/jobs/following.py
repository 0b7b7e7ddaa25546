"""``volcanopy job run --follow``: the logs of a job that was just made, and how it ended as the exit status."""

import asyncio

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.kinds import JOBS
from volcanopy.cli.framework.options import Cluster
from volcanopy.cli.jobs.columns import message, phase
from volcanopy.cli.jobs.logs import Reading, follow
from volcanopy.cli.jobs.phases import FINISHED
from volcanopy.cli.jobs.wait import Goal, until


async def to_the_end(cluster: Cluster, namespace: str, name: str) -> None:
    """Print the job's logs until it has ended; raises Stop when it did not end well."""
    async with cluster.client() as client:
        job = await client.get(JOBS, namespace, name)
        ending = asyncio.create_task(until(client, job, Goal("finished", FINISHED), -1))
        try:
            await follow(client, job, Reading(), must_find=False)
            ended = await ending
        finally:
            ending.cancel()
    if phase(ended) != "Completed":
        raise CommandError(f"job {name} is {phase(ended)}: {message(ended)}")
