"""Reads the objects about a job or a pod group for a report; what the user may not read is noted and left out."""

import asyncio
from collections.abc import Awaitable, Sequence

from volcanopy.api import core, names
from volcanopy.api.batch_read import BatchJob
from volcanopy.api.gang_apis import GANG_APIS, GangApi
from volcanopy.api.translation import with_names_of_scheduler
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError
from volcanopy.client.events import events_of
from volcanopy.client.explain.gates import waits
from volcanopy.client.explain.job import JobFacts, Lease
from volcanopy.client.explain.pod_group import GroupFacts, title_of
from volcanopy.client.explain.pod_problems import is_starting
from volcanopy.client.explain.queue_reads import Reads, queue_if_readable
from volcanopy.client.explain.report import single_line
from volcanopy.client.jobs import status as job_status
from volcanopy.client.jobs.pods import Pod, pods_of
from volcanopy.client.jobs.status import queue as queue_of
from volcanopy.client.kinds import read, readable
from volcanopy.client.objects import bare_name, find_object
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import Forbidden, KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import JOBS, LEASES, POD_GROUPS, PODS

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


async def job_or_group_of_pod(client: Client, namespace: str, name: str) -> tuple[str, str]:
    """Return the names of the job and of the pod group of a pod; one of them is empty. Raises CommandError."""
    body = with_names_of_scheduler(await find_object(client, PODS, namespace, name))
    metadata = body["metadata"]
    owners = metadata.get("ownerReferences") or ()
    job = next(
        (owner["name"] for owner in owners if names.is_job(owner.get("apiVersion", ""), owner.get("kind", ""))), ""
    )
    if job:
        return str(job), ""
    if group := _group_of(metadata.get("annotations") or {}):
        if not await _exists(client, namespace, group):
            fix = "create it, or create the pod again without the annotation"
            raise CommandError(
                f'pod "{name}" is pending: its annotation names podgroup "{group}", which is not found: {fix}'
            )
        return "", group
    raise CommandError(f'pod "{name}" belongs to no BatchJob and no pod group: see `kubectl describe pod {name}`')


async def _exists(client: Client, namespace: str, name: str) -> bool:
    """Whether there is a pod group of this name in one of the APIs."""
    if await _own(client, namespace, name) is not None:
        return True
    gangs = [await _gang(client, api, namespace, name) for api in GANG_APIS.values()]
    return any(gang is not None for gang in gangs)


def _group_of(annotations: Json) -> str:
    keys = (names.GROUP_NAME, names.POD_GROUP_NAME)
    return next((str(annotations[key]) for key in keys if annotations.get(key)), "")


async def find_group(client: Client, namespace: str, name: str) -> core.PodGroup:
    """Return a pod group by its name, or by that of the PodGroup of another gang API that it stands for. Raises CommandError."""
    name = bare_name(POD_GROUPS, name)
    if (group := await _own(client, namespace, name)) is not None:
        return group
    for api in GANG_APIS.values():
        gang = await _gang(client, api, namespace, name)
        if gang is None:
            continue
        group = await _own(client, namespace, names.workload_group(gang["metadata"]["uid"]))
        if group is None:
            why = f"no pods of volcanopy's scheduler name it, or the controller runs without --gang-api {api.name}"
            raise CommandError(f'pod group "{name}" of {api.group} is not scheduled: {why}')
        return group
    return read(core.PodGroup, await find_object(client, POD_GROUPS, namespace, name))


async def _own(client: Client, namespace: str, name: str) -> core.PodGroup | None:
    group = await api_views(client).find(POD_GROUPS, namespace, name)
    return None if group is None else read(core.PodGroup, group[1])


async def _gang(client: Client, api: GangApi, namespace: str, name: str) -> Json | None:
    for version in api.versions:
        kind: Kind[Json] = Kind(api.group, version, "PodGroup", "podgroups", True, dict)
        try:
            return {"apiVersion": kind.api_version} | await client.get(kind, namespace, name)
        except (NotFound, Forbidden):
            continue
    return None


async def group_facts(
    client: Client, namespace: str, name: str, system_namespace: str, seconds: float = 0
) -> GroupFacts:
    """Read the objects about a pod group, and search for remedies so long. Raises CommandError.

    ``system_namespace`` is that of the scheduler's lease.
    """
    group, reads = await find_group(client, namespace, name), Reads()
    queue, pods, lease = await asyncio.gather(
        queue_if_readable(reads, client, group.spec.queue or names.DEFAULT_QUEUE),
        reads.optional(_pods(client, group), f'the pods of namespace "{namespace}"'),
        lease_of(client, system_namespace),
    )
    answer = await reads.confirmed(client, group.metadata.key, seconds) if seconds and waits(group) else None
    return GroupFacts(
        group=group,
        title=title_of(group),
        now=current_time(),
        queue=queue[0],
        queue_missing=queue[1],
        pods=pods,
        warnings=await start_warnings(client, pods or ()),
        lease=lease,
        answer=answer,
        unread=tuple(sorted(reads.unread)),
    )


async def _pods(client: Client, group: core.PodGroup) -> list[Pod]:
    listing = await client.list(PODS, group.metadata.namespace)
    pods = readable(Pod, listing.items)
    members = [pod for pod in pods if _group_of(dict(pod.metadata.annotations)) == group.metadata.name]
    return sorted(members, key=lambda pod: pod.metadata.name)
