"""Reads of the API server for changes of the queue tree: watch caches may not show the change before, of the same file."""

from collections import Counter
from typing import TypeVar

from volcanopy.api import names
from volcanopy.api.core import Queue
from volcanopy.api.scheduling import PodGroupPhase
from volcanopy.api.translation import read_with_own_names
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS, QUEUES
from volcanopy.kube.client.api_client import PAGE
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Kind

DEADLINE = 8.0
"""Seconds, less than the webhook timeout."""
_OVER = frozenset({"Succeeded", "Failed"})
"""Phases of pods."""

T = TypeVar("T")


async def queues_of(apis: ApiViews) -> dict[str, Queue]:
    """Return the queues of all served APIs by name; one of the first API hides others. Raises KubeError."""
    return {queue.metadata.name: queue for queue in reversed(await _listed(apis, QUEUES, page=0))}


async def users_of(apis: ApiViews, queue: str) -> Counter[str]:
    """Return the number of PodGroups that keep a queue from being deleted. Raises KubeError.

    They are not completed, and have an owner or a pod. One that a client made, and whose pods are all over or being deleted, does
    not count: nothing that runs or waits needs the queue, and no controller would complete it.
    """
    listed = await _listed(apis, POD_GROUPS)
    groups = [group for group in listed if (group.spec.queue or names.DEFAULT_QUEUE) == queue]
    groups = [group for group in groups if group.status.phase != PodGroupPhase.COMPLETED]
    left = {group.metadata.key for group in groups if not group.metadata.owner_references}
    for namespace in sorted({key.partition("/")[0] for key in left}):
        left -= await _with_pods(apis, namespace)
    return Counter({queue: sum(group.metadata.key not in left for group in groups)})


async def _with_pods(apis: ApiViews, namespace: str) -> set[str]:
    """Return the keys of the PodGroups of a namespace that have pods which are neither over nor being deleted."""
    listed = await next(iter(apis)).list(PODS, namespace, deadline=DEADLINE)
    pods = [read_with_own_names(pod, apis.bindings) for pod in listed.items]
    alive = [pod for pod in pods if not pod.metadata.deletion_timestamp and pod.status.phase not in _OVER]
    notes = [pod.metadata.annotations for pod in alive]
    return {f"{namespace}/{note.get(names.GROUP_NAME) or note.get(names.POD_GROUP_NAME)}" for note in notes}


async def _listed(apis: ApiViews, kind: Kind[T], page: int = PAGE) -> list[T]:
    """Return the objects of a kind of all served APIs, with volcanopy's names of labels and annotations."""
    items: list[T] = []
    for number, view in enumerate(apis):
        try:
            items += (await view.list(kind, deadline=DEADLINE, page=page)).items
        except NotFound:
            if not number:
                raise
            continue  # its definitions are not installed
    return items
