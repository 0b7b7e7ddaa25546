"""``volcanopy job list``: the jobs, all or those of a queue or in a phase."""

from collections.abc import Sequence

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.lists import Wanted, show_list
from volcanopy.cli.framework.options import Cluster, Scope, Show
from volcanopy.cli.jobs.columns import VIEW, phase, queue
from volcanopy.cli.jobs.phases import phase_named
from volcanopy.kube.client.kinds import Json


async def list_jobs(cluster: Cluster, scope: Scope, show: Show, queues: Sequence[str], phases: Sequence[str]) -> None:
    """Print the jobs of these queues that are in these phases; of all where none are given."""
    wanted_phases = {phase_named(one) for one in phases}
    if scope.all_namespaces and scope.namespace:
        raise CommandError("give -n or -A: not both", 2)

    def keep(job: Json) -> bool:
        return (not queues or queue(job) in queues) and (not wanted_phases or phase(job) in wanted_phases)

    async with cluster.client() as client:
        words = [*(f"in queue {one}" for one in queues), *(f"in phase {one}" for one in sorted(wanted_phases))]
        what = " ".join(["jobs", " or ".join(words)]) if words else "jobs"
        await show_list(client, VIEW, Wanted(scope.of(client), scope.selector, keep=keep, what=what), show)
