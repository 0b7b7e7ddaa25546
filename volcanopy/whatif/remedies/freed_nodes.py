"""The order in which jobs end so that nodes become free for another one: first those of the nodes that few jobs occupy.

1. The tasks of each node are summed by job. What counts is the resource of which a node lacks the greatest part.
2. On each node the jobs that free most end first, until the largest pod of the waiting job fits.
3. Nodes on which the fewest jobs have to end come first; nodes on which the pod does not fit even then are left out.

The order is only a proposal: the engine confirms how many of the jobs have to end.
"""

import numpy as np

from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.model.resources import Ints, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import ON_NODE
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.target import Target, requests_of

_NEVER = np.iinfo(np.int64).max // 4
"""The missing amount of a node that takes no pods."""


def freeing_order(cluster: Cluster, target: Target) -> dict[str, int]:
    """Return ranks of jobs by the keys of their pod groups, and of pods without a job by their own keys."""
    state, tasks = cluster.state, cluster.state.tasks.plain
    requests = [state.axis.vector(request) for request in requests_of(cluster, target)]
    rows = np.flatnonzero(ON_NODE[tasks["status"]] & (tasks["node"] != NONE))
    if not requests or not np.max(requests) or not len(rows):
        return {}
    keys = np.where(tasks["job"][rows] == NONE, state.tasks.keys[rows], state.jobs.keys[tasks["job"][rows]]).astype(str)
    names, owners = np.unique(keys, return_inverse=True)
    nodes = tasks["node"][rows]
    scarcest, missing = _missing(cluster, np.max(requests, axis=0))
    amounts = np.array([state.axis.vector(shape.request) for shape in state.shapes.all])
    order = _order(nodes, owners, amounts[tasks["shape"][rows], scarcest[nodes]], missing)
    return {str(names[owner]): rank for rank, owner in enumerate(order)}


def _missing(cluster: Cluster, request: Ints) -> tuple[Ints, Ints]:
    """Return for each node the resource of which the greatest part of a request is missing, and how much of it is."""
    count_due(cluster.state)
    nodes, resources = cluster.state.nodes, np.flatnonzero(request)
    missing = request[:, None] - nodes.amounts["allocatable"] + nodes.amounts["used"]
    scarcest = resources[(missing[resources] / request[resources, None]).argmax(axis=0)]
    amounts = missing[scarcest, np.arange(missing.shape[1])]
    amounts[[node is None or node.spec.unschedulable for node in nodes.plain["objects"]]] = _NEVER
    return scarcest, amounts


def _order(node: Rows, owner: Rows, frees: Ints, missing: Ints) -> list[int]:
    """Return the owners in order. ``node``, ``owner`` and ``frees`` are per task, ``missing`` is per node."""
    pairs, place = np.unique(np.stack((node, owner)), axis=1, return_inverse=True)
    freed = np.zeros(pairs.shape[1], dtype=np.int64)
    np.add.at(freed, place.ravel(), frees)
    inside = np.lexsort((pairs[1], -freed, pairs[0]))
    nodes, owners, freed = pairs[0][inside], pairs[1][inside], freed[inside]
    first = np.flatnonzero(np.diff(nodes, prepend=NONE - 1))
    sizes = np.diff(np.append(first, len(nodes)))
    total = np.cumsum(freed)
    before = total - freed - np.repeat((total - freed)[first], sizes)
    contributes = before < missing[nodes]
    count = np.repeat(np.add.reduceat(contributes.astype(np.int64), first), sizes)
    enough = np.repeat(np.logical_or.reduceat(before + freed >= missing[nodes], first), sizes)
    ranked = np.lexsort((owners, nodes, count))
    return list(dict.fromkeys(owners[ranked[(contributes & enough)[ranked]]].tolist()))
