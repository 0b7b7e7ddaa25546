"""Gangs that pods keep from starting, their own ones or others, although enough is free."""

from collections.abc import Iterable

import numpy as np

from volcanopy.api.builtin import pod_claims, storage
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Ints
from volcanopy.scheduler.nodes.traits.node_affinity import domains


def is_kept_out(cluster: Cluster, shapes: Iterable[tuple[TaskView, int]], free: Ints) -> bool:
    """Whether host ports, anti-affinity or ReadWriteOncePod claims keep out a gang where (R, N) are free.

    ``shapes`` are a task of each shape and how many such tasks there are.
    Affinity, spread constraints and different shapes that exclude each other are not judged: they depend on the order.
    """
    return any(_slots(cluster, task, free) < count for task, count in shapes)


def _slots(cluster: Cluster, task: TaskView, free: Ints) -> float:
    """Return an upper bound on the number of equal tasks that can be placed now; infinity where pods do not matter."""
    terms = task.terms
    has_ports = bool(task.spec.host_ports)
    anti_affinity = () if terms is None else terms.anti_affinity
    claims = [cluster.snapshot.claim_tables.claims.get(claim.key) for claim in pod_claims.volumes(task.pod)]
    exclusive = any(claim is not None and storage.EXCLUSIVE in claim.spec.access_modes for claim in claims)
    if not (anti_affinity or has_ports or exclusive) or (terms is not None and (terms.affinity or terms.spread)):
        return float("inf")
    allowed = (np.maximum(free, 0) >= task.request.values[:, None]).all(axis=0)
    allowed &= ~cluster.queries.infeasible_nodes(task)
    for rejection in cluster.queries.rejections(task, cluster.nodes()):
        allowed &= ~rejection.nodes
    own = [domains(term.topology_key, cluster.traits) for term in anti_affinity if term.selector in task.matched]
    numbers = [topology.numbers[allowed] for topology in own]
    counts = [len(np.unique(each[each > 0])) + int((each == 0).sum()) for each in numbers]  # 0: nodes without the label
    slots = [*counts, *([int(allowed.sum())] if has_ports else []), *([1] if exclusive else [])]
    return min(slots, default=float("inf")) if allowed.any() else 0
