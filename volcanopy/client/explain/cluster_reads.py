"""Reads the objects about a job for a report; what the user may not read is noted and left out."""

import asyncio
from collections.abc import Awaitable, Sequence

from volcanopy.api import core, names
from volcanopy.api.batch_read import BatchJob
from volcanopy.client.durations import current_time
from volcanopy.client.events import events_of
from volcanopy.client.explain.gates import waits
from volcanopy.client.explain.job import JobFacts, Lease
from volcanopy.client.explain.pod_problems import is_starting
from volcanopy.client.explain.queue_reads import Reads, queue_if_readable
from volcanopy.client.explain.report import single_line
from volcanopy.client.jobs import status as job_status
from volcanopy.client.jobs.pods import Pod, pods_of
from volcanopy.client.jobs.status import queue as queue_of
from volcanopy.client.kinds import read
from volcanopy.client.objects import bare_name, find_object
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS, LEASES, POD_GROUPS

_STARTING_PODS = 8
"""Maximum number of pods whose events are read."""


async def find_job(client: Client, namespace: str, name: str, api: str = "") -> tuple[Client, Json]:
    """Return a job with the view of its API: of the named one, else a BatchJob or, where there is none, a Job of Volcano.

    Raises CommandError.
    """
    name = bare_name(JOBS, name)
    apis = api_views(client)
    if api not in {"", names.API}:
        return apis.named(api), await find_object(apis.named(api), JOBS, namespace, name)
    job = None if api else await apis.find(JOBS, namespace, name)
    return job or (client, await find_object(client, JOBS, namespace, name))


async def job_facts(
    client: Client, namespace: str, name: str, system_namespace: str, seconds: float = 0, api: str = ""
) -> JobFacts:
    """Read the objects about a job, and search for remedies so long. Raises CommandError.

    ``system_namespace`` is that of the scheduler's lease, ``api`` as in :func:`find_job`.
    """
    view, body = await find_job(client, namespace, name, api)
    job, reads = read(BatchJob, body), Reads()
    group_name = f"{job.metadata.name}-{job.metadata.uid}"
    reading: Awaitable[Json] = view.get(POD_GROUPS, namespace, group_name)
    group, queue, pods, lease = await asyncio.gather(
        reads.optional(reading, "the job's pod group"),
        queue_if_readable(reads, client, queue_of(job)),
        reads.optional(pods_of(view, job), f'the pods of namespace "{namespace}"'),
        lease_of(client, system_namespace),
    )
    pod_group = read(core.PodGroup, group) if group is not None else None
    answer = None
    if seconds and job_status.phase(job) in {"Pending", "Running", "Restarting"} and waits(pod_group):
        answer = await reads.confirmed(client, f"{job.metadata.namespace}/{group_name}", seconds)
    return JobFacts(
        job=job,
        now=current_time(),
        group=pod_group,
        answer=answer,
        queue=queue[0],
        queue_missing=queue[1],
        pods=pods,
        warnings=await start_warnings(client, pods or ()),
        lease=lease,
        unread=tuple(sorted(reads.unread)),
    )


async def start_warnings(client: Client, pods: Sequence[Pod]) -> dict[str, str]:
    """Return the warning of pods that are starting, by name, where it is in the latest event of the pod.

    A volume that cannot be mounted is in no status: kubelets write an event only.
    """
    starting = [pod.metadata for pod in pods if is_starting(pod)][:_STARTING_PODS]
    latest = {event.involved_object.name: event for event in await events_of(client, *starting) or ()}
    return {
        name: single_line(f"{event.reason}: {event.message}")
        for name, event in latest.items()
        if event.type == "Warning" and event.reason != "FailedScheduling"
    }


async def lease_of(client: Client, namespace: str) -> Lease | None:
    """Return the scheduler's lease; None if it does not exist or may not be read, which most users may not."""
    try:
        body = await client.get(LEASES, namespace, f"{names.SCHEDULER}-scheduler")
    except KubeError:
        return None
    return read(Lease, body)
