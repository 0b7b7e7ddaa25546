"""The cluster as the scheduler sees it, read once: the same kinds in the same slices as :class:`Store` follows.

The lists are of moments that lie close together; pods are listed last, so that what they refer to is known.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from volcanopy.kube.cache.followed_kinds import (
    DISRUPTION_BUDGETS,
    HYPER_NODES,
    NAMESPACES,
    NODES,
    NUMA_TOPOLOGIES,
    OLDER,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
    SUPPLIES,
)
from volcanopy.kube.cache.store import Store
from volcanopy.kube.cache.trimmed_objects import slim, slim_node, slim_pod
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Kind

REQUIRED: tuple[Kind[Any], ...] = (
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    DISRUPTION_BUDGETS,
    QUEUES,
    POD_GROUPS,
    NODES,
    PODS,
)
"""Kinds without which there is no picture."""
OPTIONAL: tuple[Kind[Any], ...] = (HYPER_NODES, NUMA_TOPOLOGIES, *SUPPLIES)
"""Kinds that not every server has, and that not everybody may read."""
_LIGHTER: dict[str, Callable[[Any], Any]] = {PODS.kind: slim_pod, NODES.kind: slim_node}


async def take(client: Client, store: Store) -> list[str]:
    """Let the store know all that there is. Gives the kinds that may not be read, which are left out.

    Raises KubeError where a kind that is needed cannot be read.
    """
    first = [kind for kind in REQUIRED if kind is not PODS]
    hidden: list[str] = []
    read = await asyncio.gather(
        *(_listed(client, kind) for kind in first),
        *(_sought(client, kind, hidden) for kind in OPTIONAL),
        return_exceptions=True,
    )
    faults = [found for found in read if isinstance(found, BaseException)]
    if faults:
        # Which answer came first is chance; what may not be read is what somebody can do something about.
        raise next((fault for fault in faults if isinstance(fault, Forbidden)), faults[0])
    found = [things for things in read if not isinstance(things, BaseException)]
    for things in (*found, await _listed(client, PODS)):
        store.take([Change(ChangeType.ADDED, thing) for thing in things])
    return sorted(hidden)


async def _listed(client: Client, kind: Kind[Any]) -> list[Any]:
    lighter = _LIGHTER.get(kind.kind, slim)
    return [lighter(thing) for thing in (await client.list(kind)).items]


async def _sought(client: Client, kind: Kind[Any], hidden: list[str]) -> list[Any]:
    for version in (kind.version, *OLDER.get(kind.group, ())):
        try:
            return await _listed(client, Kind(kind.group, version, kind.kind, kind.plural, kind.namespaced, kind.type))
        except NotFound:
            continue
        except Forbidden:
            hidden.append(kind.plural)
            return []
    return []
