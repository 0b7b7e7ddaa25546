"""Gangs that pods keep from starting, their own ones or others, although enough is free."""

from collections.abc import Iterable, Sequence

import numpy as np

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.nodes.traits.node_affinity import domains


def is_kept_out(cluster: Cluster, shapes: Iterable[Sequence[TaskView]], free: Ints) -> bool:
    """Whether host ports or anti-affinity keep out a gang, given by its tasks of equal shape, where (R, N) amounts are free.

    Affinity to pods, spread constraints and tasks of different shapes that exclude each other are not judged: what is allowed
    then depends on the order.
    """
    return any(_slots(cluster, equal[0], free) < len(equal) for equal in shapes)


def _slots(cluster: Cluster, task: TaskView, free: Ints) -> float:
    """Return an upper bound on the number of equal tasks that can be placed now; infinity where pods do not matter."""
    terms = task.terms
    has_ports = any(port.host_port for container in task.spec.containers for port in container.ports)
    anti_affinity = () if terms is None else terms.anti_affinity
    if not (anti_affinity or has_ports) or (terms is not None and (terms.affinity or terms.spread)):
        return float("inf")
    nodes = cluster.nodes()
    allowed = (np.maximum(free, 0) >= task.request.values[:, None]).all(axis=0)
    allowed &= ~cluster.queries.infeasible_nodes(task)
    for rejection in cluster.queries.rejections(task, nodes):
        allowed &= ~rejection.nodes
    if not allowed.any():
        return 0
    own = [domains(term.topology_key, cluster.traits) for term in anti_affinity if term.selector in task.matched]
    numbers = [topology.numbers[allowed] for topology in own]
    counts = [len(np.unique(each[each > 0])) + int((each == 0).sum()) for each in numbers]  # 0: nodes without the label
    return min([*counts, *([int(allowed.sum())] if has_ports else [])], default=float("inf"))
