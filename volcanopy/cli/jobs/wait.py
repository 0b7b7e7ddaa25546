"""``volcanopy job wait``: waits until jobs reach a phase, or cannot reach it any more."""

from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption, Selection
from volcanopy.cli.framework.selection import wait_for_selection
from volcanopy.client.jobs.wait import Goal, wait_until_job
from volcanopy.kube.client.raw_kinds import JOBS


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
