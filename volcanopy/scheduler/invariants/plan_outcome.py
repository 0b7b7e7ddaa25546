"""Outcome of a plan: its moves as rows of the snapshot, and the columns of tasks after all effects."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.model.resources import Index, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import Status


def mask(*statuses: Status) -> Mask:
    """(statuses,): which these are."""
    return np.isin(np.arange(len(Status)), statuses)


STARTED = mask(Status.BINDING, Status.BOUND, Status.RUNNING)
"""Runs, or is about to: has a node and does not terminate."""
PRESENT = mask(Status.BINDING, Status.BOUND, Status.RUNNING, Status.SUCCEEDED)  # Counts for the minimum of its gang.
ON_NODE = mask(Status.BINDING, Status.BOUND, Status.RUNNING, Status.RELEASING)  # Uses resources of its node now.
_EVICTABLE = mask(Status.BOUND, Status.RUNNING)
WITH_PREEMPTOR = ("preempt", "reclaim", "consolidate")  # The actions whose evictions have a preemptor.


def action_of(reason: str) -> str:
    """Return the action of an eviction reason; ``gangpreempt`` counts as ``preempt``."""
    return reason.removeprefix("gang")


_PER_POD = ("cpu", "memory")  # The resources that a pod may request as a whole, with ``hugepages-*``.


class ShapeRequests:
    """The requests of the shapes of a snapshot, each counted from the containers when it is first needed.

    A pod uses what its containers use together: the sum of containers and sidecars, or if that is larger the sum of an init
    container and of the sidecars that started before it; values at pod level replace this. A limit without a request
    counts as the request. Overhead and the pod itself are added.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._axis, self._specs = snapshot.axis, snapshot.shapes.specs
        self._counted = np.zeros(len(self._specs), dtype=np.bool_)
        self._table: Ints = np.zeros((len(self._axis), len(self._specs)), dtype=np.int64)

    def of(self, shapes: Index) -> Ints:
        """(R, S): the table of requests, in which the columns of these shapes are filled."""
        for shape in np.unique(shapes[~self._counted[shapes]]).tolist():
            for name, units in request_of(self._specs[shape]).items():
                self._table[self._axis.index[name], shape] = units
            self._counted[shape] = True
        return self._table


def request_of(spec: core.PodSpec) -> dict[str, int]:
    """Return the amounts that a pod uses of its node, in base units."""
    total, sidecars, peak = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in spec.containers:
        total = _sum(total, _of_container(container))
    for container in spec.init_containers:
        own = _of_container(container)
        started = _sum(sidecars, own)
        if container.restart_policy == "Always":
            sidecars = started
        peak = _larger(peak, started)
    total = _sum(total, sidecars)
    total = _larger(total, peak)
    total = _sum(total | _of_pod(spec.resources, total), quantity.amounts(spec.overhead))
    of_nodes = {name: units for name, units in total.items() if not names.part_of_device(name)}
    return of_nodes | {"pods": 1}


def _of_container(container: core.Container) -> dict[str, int]:
    resources = container.resources
    return quantity.amounts(resources.limits) | quantity.amounts(resources.requests)


def _of_pod(resources: core.ResourceRequirements | None, of_containers: dict[str, int]) -> dict[str, int]:
    """Return the amounts that are given at pod level: a request; without one a limit that no container requests."""
    if resources is None:
        return {}
    requests, limits = quantity.amounts(resources.requests), quantity.amounts(resources.limits)
    defaults = {
        name: units
        for name, units in limits.items()
        if name not in _PER_POD or name not in of_containers  # huge pages: the limit of the pod is the request
    }
    given = defaults | requests
    return {name: units for name, units in given.items() if name in _PER_POD or name.startswith("hugepages-")}


def _sum(first: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + other.get(name, 0) for name in {**first, **other}}


def _larger(first: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: max(first.get(name, 0), other.get(name, 0)) for name in {**first, **other}}


@dataclass(frozen=True, eq=False)
class Moves:
    """Binds, evictions and nominations as (k,) rows, and the (T,) columns as they are after all of them."""

    snapshot: Snapshot
    plan: Plan
    bound: Rows  # The tasks that are bound, each once.
    evicted: Rows  # The tasks that are evicted, each once.
    evictions: tuple[Evict, ...]  # The eviction of each of them.
    nominated: Rows  # The tasks that this plan nominates.
    status: NDArray[np.int8]  # (T,): what is bound is Binding, what is evicted Releasing.
    node: NDArray[np.int32]  # (T,): the node of a task, or the one that it is nominated to.
    waits: Mask  # (T,): the pending tasks that are nominated, by this plan or since an earlier one.
    moved: Rows  # The evicted tasks for which resources of another node are reserved.
    moved_to: Rows  # The node of each of them.
    shape_requests: ShapeRequests
    enforced: frozenset[str]  # The enforced invariants of plugins: a plugin for all of its own, or ``plugin:part``.

    def enforces(self, plugin: str, part: str) -> bool:
        """Return whether a part of a plugin, such as an action, is enforced."""
        return plugin in self.enforced or f"{plugin}:{part}" in self.enforced

    @property
    def placed(self) -> Rows:
        """The tasks that have a place by this plan, now or later."""
        return np.concatenate((self.bound, np.flatnonzero(self.waits)))

    @property
    def placed_jobs(self) -> dict[str, int]:
        """The jobs that get nodes, by key."""
        rows = np.unique(self.snapshot.tasks.job[self.placed]).tolist()
        return {str(self.snapshot.jobs.keys[job]): job for job in rows if job != NONE}

    @cached_property
    def groups(self) -> dict[int, SetPodGroup]:
        """The new statuses of pod groups, by the row of the job."""
        effects = {effect.pod_group: effect for effect in self.plan.of(SetPodGroup)}
        keys = self.snapshot.jobs.keys.tolist() if effects else []
        return {row: effects[key] for row, key in enumerate(keys) if key in effects}

    @property
    def victims(self) -> list[tuple[int, Evict]]:
        """The tasks that are evicted, each with its eviction."""
        return list(zip(self.evicted.tolist(), self.evictions, strict=True))

    def queue_of(self, rows: Rows) -> Index:
        """(k,): the queues of tasks, NONE without one."""
        of_job = np.append(self.snapshot.jobs.queue, np.int32(NONE))  # the last entry is for tasks without a job
        return of_job[self.snapshot.tasks.job[rows]]

    def key(self, row: int) -> str:
        """``namespace/name`` of a task."""
        return str(self.snapshot.tasks.keys[row])

    def requests(self, rows: Rows) -> Ints:
        """(R, k): the requests of tasks."""
        shapes = self.snapshot.tasks.shape[rows]
        return self.shape_requests.of(shapes)[:, shapes]

    def sums(self, rows: Rows, groups: Rows | Index, count: int) -> Ints:
        """(R, count): the summed requests of the tasks of each group; ``groups`` is the group of each row, or NONE."""
        known = groups != NONE
        rows, groups = rows[known], groups[known].astype(np.intp)
        shapes = self.snapshot.tasks.shape[rows]
        requests = self.shape_requests.of(shapes)
        if count * requests.shape[1] < len(rows):  # few equivalence classes: count tasks by class
            counts = np.bincount(groups * requests.shape[1] + shapes, minlength=count * requests.shape[1])
            return requests @ counts.reshape(count, -1).T.astype(np.int64)
        totals = np.zeros((len(requests), count), dtype=np.int64)
        for total, units in zip(totals, requests, strict=True):
            if units.any():
                np.add.at(total, groups, units[shapes])
        return totals


def read(snapshot: Snapshot, plan: Plan, enforced: frozenset[str] = frozenset()) -> tuple[Moves, list[str]]:
    """Return the moves of a plan and the violations of single effects; invalid effects move nothing."""
    tasks, result = snapshot.tasks, list[str]()
    status, node = tasks.status.copy(), tasks.node.copy()
    waits: Mask = (tasks.nominated != NONE) & (status == Status.PENDING)
    nominations: dict[int, int] = {}
    for effect in plan.of(Nominate):
        row = snapshot.task_row(effect.pod)
        if row is not None and status[row] == Status.PENDING:
            waits[row] = False
            position = snapshot.nodes.index.get(effect.node)
            if position is not None:
                nominations[row] = position
            elif effect.node:
                result.append(f"pod {effect.pod} is nominated to node {effect.node}, which does not exist")
    binds, wrong = _binds(snapshot, plan.of(Bind))
    result += wrong
    victims: dict[int, Evict] = {}
    for evict in plan.of(Evict):
        row = snapshot.task_row(evict.pod)
        if row is None or not _EVICTABLE[status[row]]:
            result.append(f"pod {evict.pod} is evicted but does not run")
            continue
        if not tasks.preemptable[row]:
            result.append(f"pod {evict.pod} is evicted although it is not preemptable")
        victims[row] = evict
    result += _repeated("evicted", (effect.pod for effect in plan.of(Evict)))
    bound, evicted, nominated = (np.array(list(rows), dtype=np.intp) for rows in (binds, victims, nominations))
    waits[bound] = False
    waits[nominated] = True
    node[waits] = tasks.nominated[waits]
    node[nominated] = list(nominations.values())
    node[bound] = list(binds.values())
    status[bound] = Status.BINDING
    status[evicted] = Status.RELEASING
    targets = {row: snapshot.nodes.index.get(evict.moved_to) for row, evict in victims.items() if evict.moved_to}
    result += [
        f"pod {victims[row].pod} is moved to a node that does not exist" for row in targets if targets[row] is None
    ]
    moved = {row: target for row, target in targets.items() if target is not None}
    return Moves(
        snapshot,
        plan,
        bound,
        evicted,
        tuple(victims.values()),
        nominated,
        status,
        node,
        waits,
        np.array(list(moved), dtype=np.intp),
        np.array(list(moved.values()), dtype=np.intp),
        ShapeRequests(snapshot),
        enforced,
    ), result


def _binds(snapshot: Snapshot, binds: Sequence[Bind]) -> tuple[dict[int, int], list[str]]:
    """Return the node of each bound task, and the violations of the binds."""
    at = [snapshot.task_row(bind.pod) for bind in binds]
    on = [snapshot.nodes.index.get(bind.node) for bind in binds]
    rows = np.array([NONE if row is None else row for row in at], dtype=np.intp)
    settled = (rows != NONE) & (snapshot.tasks.status[rows] != Status.PENDING)
    gated = (rows != NONE) & snapshot.tasks.gated[rows]
    result = []
    for place, (bind, row, node) in enumerate(zip(binds, at, on, strict=True)):
        if row is None:
            result.append(f"pod {bind.pod} is bound but does not exist")
        elif settled[place]:
            result.append(f"pod {bind.pod} is bound but is not waiting for a node")
        elif gated[place]:
            result.append(f"pod {bind.pod} is bound although it has a scheduling gate")
        if node is None:
            result.append(f"pod {bind.pod} is bound to node {bind.node}, which does not exist")
    sound = {row: node for row, node in zip(at, on, strict=True) if row is not None and node is not None}
    return sound, [*result, *_repeated("bound", (bind.pod for bind in binds))]


def _repeated(what: str, pods: Iterable[str]) -> list[str]:
    return [f"pod {pod} is {what} {times} times" for pod, times in Counter(pods).items() if times > 1]
