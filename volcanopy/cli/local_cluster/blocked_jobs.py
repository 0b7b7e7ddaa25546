"""Jobs of `local run` that only a change lets start, as the scheduler decides on a copy of the cluster."""

from collections.abc import Sequence

from volcanopy.api.batch_read import BatchJob
from volcanopy.api.flow_read import JobFlow
from volcanopy.cli.jobs.views import group_key
from volcanopy.client.explain.confirmed import UnreadableError, answers, cluster_state
from volcanopy.client.jobs.status import phase, starts_soon
from volcanopy.kube.client.api_client import Client
from volcanopy.scheduler.model import pod_fields
from volcanopy.whatif.answer import JobAnswer
from volcanopy.whatif.starts import Start

_SECONDS = 5.0
"""Time for the search for remedies."""


def is_explained(job: BatchJob) -> bool:
    """Return whether a job waits for a reason that the scheduler has given."""
    return phase(job) == "Pending" and not starts_soon(job)


def is_blocked(flow: JobFlow, jobs: Sequence[BatchJob]) -> bool:
    """Return whether a flow creates no further job before one of its unfinished jobs, all that are given, has completed."""
    steps = {f"{flow.metadata.name}-{step.name}": step for step in flow.spec.flows}
    own = {job.metadata.name: job for job in jobs if job.metadata.namespace == flow.metadata.namespace}
    completed = {name for name, job in own.items() if phase(job) == "Completed"}
    missing = [step for name, step in steps.items() if name not in own]
    targets = [step.depends_on.targets if step.depends_on is not None else () for step in missing]
    creates = any(all(f"{flow.metadata.name}-{target}" in completed for target in names) for names in targets)
    return not creates and any(is_explained(own[name]) for name in steps if name in own)


async def blocked_jobs(client: Client, jobs: Sequence[BatchJob]) -> list[JobAnswer]:
    """Return why these jobs, which are all that have not ended, do not start, and what lets them start.

    Empty if one of them may start without a change: now, or when what runs has ended.
    """
    try:
        state = await cluster_state(client)
    except UnreadableError:
        return []
    job_answers = await answers(state, [group_key(job) for job in jobs], _SECONDS)
    pods = state.cluster.of_kind("Pod").values()
    idle = not any(pod.spec.node_name and not pod_fields.is_over(pod) for pod in pods)
    blocked = [
        answer
        for answer in job_answers.values()
        if answer.start is Start.NEVER or (idle and answer.start is Start.AFTER)
    ]
    return blocked if len(blocked) == len(jobs) else []
