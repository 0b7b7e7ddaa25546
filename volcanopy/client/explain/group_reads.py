"""Reads the objects about a pod group: of volcanopy's API, of Volcano's, or of another gang API, and about the group of a pod."""

import asyncio

from volcanopy.api import core, names
from volcanopy.api.gang_apis import GANG_APIS, GangApi
from volcanopy.api.translation import with_names_of_scheduler
from volcanopy.client.durations import current_time
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.cluster_reads import lease_of, start_warnings
from volcanopy.client.explain.gates import waits
from volcanopy.client.explain.pod_group import GroupFacts, title_of
from volcanopy.client.explain.queue_reads import Reads, queue_if_readable
from volcanopy.client.jobs.pods import Pod
from volcanopy.client.kinds import read, readable
from volcanopy.client.objects import bare_name, find_object
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import api_views
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import POD_GROUPS, PODS


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
    own = [pod for pod in pods if _group_of(dict(pod.metadata.annotations)) == group.metadata.name]
    return sorted(own, key=lambda pod: pod.metadata.name)
