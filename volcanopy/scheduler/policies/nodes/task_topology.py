"""task-topology: place tasks of a job with affinity on one node, and those with anti-affinity on different nodes."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api import core, names
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import HOLDING, PLACED, Status
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import Nodes, Order

AFFINITY_KEY = names.TASK_AFFINITY
ANTI_AFFINITY_KEY = names.TASK_ANTI_AFFINITY
ORDER_KEY = names.TASK_ORDER

_MIB = 2**20


class TaskTopologyArguments(Arguments):
    """How much it counts."""

    weight: int = Field(1, ge=0, alias="task-topology.weight")
    """How much the plugin counts."""


@dataclass
class Topology:
    """Which task templates of a job like or avoid each other (and themselves), by name."""

    together: frozenset[frozenset[str]]
    """Pairs of names, a single name for one that likes its own kind."""
    apart: frozenset[frozenset[str]]
    rank: dict[str, tuple[int, int]]
    """The place of each name that stands in a group: smaller goes first."""

    def affinity(self, name: str, there: Counter[str]) -> int:
        """How many of those there the template likes, less those that it avoids."""
        return sum(
            count * ((frozenset({name, other}) in self.together) - (frozenset({name, other}) in self.apart))
            for other, count in there.items()
        )


def topology(group: core.PodGroup, names: Iterable[str]) -> Topology | None:
    """Return the topology in a pod group's annotations for its task templates ``names``.

    None if there is none, or if it names a template that does not exist, or one twice in a group: then all of it is void.
    """
    notes = group.metadata.annotations
    known = set(names)
    near, away = _groups(notes.get(AFFINITY_KEY, "")), _groups(notes.get(ANTI_AFFINITY_KEY, ""))
    groups = near + away
    if not groups or any(len(set(group)) < len(group) or not known.issuperset(group) for group in groups):
        return None
    order = [name.strip() for name in notes.get(ORDER_KEY, "").split(",")]
    weight: dict[str, int] = {}
    for listed, alone, among in ((near, 2, 3), (away, 4, 1)):
        for names_of_group in listed:
            for name in names_of_group:
                weight[name] = max(weight.get(name, 0), alone if len(names_of_group) == 1 else among)
    place = {name: len(order) - order.index(name) if name in order else 0 for name in weight}
    rank = {name: (-place[name], -weight[name]) for name in weight}
    return Topology(_pairs(near), _pairs(away), rank)


def _groups(text: str) -> list[list[str]]:
    groups = [[name.strip() for name in group.split(",") if name.strip()] for group in text.split(";")]
    return [group for group in groups if group]


def _pairs(groups: list[list[str]]) -> frozenset[frozenset[str]]:
    pairs = (combinations(group, 2) if len(group) > 1 else [group] for group in groups)
    return frozenset(map(frozenset, chain.from_iterable(pairs)))


@dataclass
class Bucket:
    """Tasks of one job that belong on one node."""

    tasks: list[int] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)
    nodes: set[int] = field(default_factory=set)
    waiting: float = 0.0
    """The size of what its pending tasks request: milli-cores, MiB and devices in one sum."""


@dataclass(eq=False)
class _Team:
    """A job with a topology, its tasks sorted into buckets as the session began."""

    topology: Topology
    buckets: list[Bucket]
    bucket_of: dict[int, int]
    names: dict[int, str]
    """The template's name of each task row of the job."""
    largest: int


class TaskTopology(Nodes, Plugin[TaskTopologyArguments], Order):
    """Prefer, for each task, the node where most of those that it belongs to are, or will fit.

    The annotations ``volcanopy.io/task-topology-affinity`` and ``...-anti-affinity`` of the pod group contain groups of task
    templates, the groups separated by ``;`` and the names by ``,``; a group of one is about tasks of the same template.
    ``volcanopy.io/task-topology-task-order`` lists templates, the first to be placed first.
    """

    name: ClassVar[str] = "task-topology"
    arguments: ClassVar[type[Arguments]] = TaskTopologyArguments

    def open(self) -> None:
        """Read the bucket of a task."""
        self.task_value(self._place)

    def couples_nodes(self, task: TaskView) -> bool:
        """What one task of a topology gets moves the others'."""
        return self._team(task) is not None

    def tasks(self, tasks: Rows) -> Ints:
        """Tasks with a bucket before others, the bucket with most pending tasks first, and in it templates in their order."""
        keys = np.zeros(len(tasks), dtype=np.int64)
        for job, team in self._teams.items():
            places = np.flatnonzero(self._job[tasks] == job)
            if not len(places):
                continue
            sizes = [len(self._pending(bucket)) for bucket in team.buckets]
            rows = tasks[places].tolist()
            full = [
                (0, -sizes[number], number, team.topology.rank[team.names[row]])
                if (number := team.bucket_of.get(row, NONE)) != NONE
                else (1, 0, 0, (0, 0))
                for row in rows
            ]
            ranks = {key: rank for rank, key in enumerate(sorted(set(full)))}
            keys[places] = [ranks[key] for key in full]
        return keys

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """How much of the task's bucket is on the node or fits there, less those that it avoids, in percent of the largest."""
        return tasks.each(lambda task: self._score(task, nodes))

    def _score(self, task: TaskView, nodes: NodesView) -> Floats:
        scores: Floats = np.zeros(len(nodes), dtype=np.float64)
        team = self._team(task)
        number = NONE if team is None else team.bucket_of.get(task.representative.row, NONE)
        if team is None or number == NONE or not self.args.weight:
            return scores
        bucket = team.buckets[number]
        fitting = self._fitting(task, bucket, nodes)
        raw = fitting + self._placed(np.array(bucket.tasks), nodes.rows) - self._avoided(task, team, nodes.rows)
        scores += raw * (self.args.weight * 100.0 / max(team.largest, 1))
        scores[fitting == 0] = 0.0
        return scores

    @cached_property
    def _job(self) -> Ints:
        return self.cluster.snapshot.tasks.job.astype(np.int64)

    @cached_property
    def _teams(self) -> dict[int, _Team]:
        """The jobs with a topology that have something to place, by row."""
        teams = {}
        jobs = self.cluster.snapshot.jobs
        rows = self.cluster.job_rows()
        for row in rows[jobs.counts[Status.PENDING, rows] > 0].tolist():
            notes = jobs.groups[row].metadata.annotations
            if AFFINITY_KEY in notes or ANTI_AFFINITY_KEY in notes:
                team = self._gather(self.cluster.job(row))
                if team is not None:
                    teams[row] = team
        return teams

    def _place(self, task: TaskView) -> Hashable:
        """The job, the bucket and the template."""
        team = self._team(task)
        return None if team is None else (int(self._job[task.row]), team.bucket_of.get(task.row, NONE), task.role)

    def _team(self, task: TaskView) -> _Team | None:
        return self._teams.get(int(self._job[task.representative.row])) if self._teams else None

    def _gather(self, job: JobView) -> _Team | None:
        """Sort the job's tasks into buckets: those on one node into one, the others to those that they like best."""
        snapshot = self.cluster.snapshot
        pairs = topology(job.group, (role.name for role in job.roles if role.name))
        if pairs is None:
            return None
        table = snapshot.tasks
        members = snapshot.members(job.row)
        names = {
            row: "" if table.role[row] == NONE else snapshot.roles.names[table.role[row]] for row in members.tolist()
        }
        on_node = HOLDING[table.status]
        takes_part = [
            row for row in names if names[row] in pairs.rank and (on_node[row] or table.status[row] == Status.PENDING)
        ]
        takes_part.sort(
            key=lambda row: (not on_node[row], int(table.node[row]), pairs.rank[names[row]], str(table.keys[row]))
        )
        buckets: list[Bucket] = []
        bucket_of: dict[int, int] = {}
        for row in takes_part:
            number = _choose(pairs, names[row], buckets, int(table.node[row]) if on_node[row] else NONE)
            if number == len(buckets):
                buckets.append(Bucket())
            bucket = buckets[number]
            bucket.tasks.append(row)
            bucket.names[names[row]] += 1
            if on_node[row]:
                bucket.nodes.add(int(table.node[row]))
            else:
                bucket.waiting += self._size(row)
            bucket_of[row] = number
        return _Team(pairs, buckets, bucket_of, names, max((len(bucket.tasks) for bucket in buckets), default=0))

    def _size(self, row: int) -> float:
        request = self.cluster.task(row).request
        others = sum(units for name, units in request.items() if name not in {"cpu", "memory", "pods"})
        return request["cpu"] + request["memory"] / _MIB + others

    def _pending(self, bucket: Bucket) -> list[int]:
        status = self.cluster.ledger.status
        return [row for row in bucket.tasks if status[row] == Status.PENDING]

    def _fitting(self, task: TaskView, bucket: Bucket, nodes: NodesView) -> Ints:
        """(M,): how many of the bucket's pending tasks fit on the node, the task itself first; 0 if not even for it."""
        others = [row for row in self._pending(bucket) if row != task.representative.row]
        requests = np.stack([self.cluster.task(row).request.values for row in [task.representative.row, *others]])
        needs = np.cumsum(requests, axis=0)
        room = nodes.future_idle.values
        count: Ints = np.full(len(nodes), len(needs), dtype=np.int64)
        for position in np.flatnonzero(needs[-1]).tolist():
            count = np.minimum(count, np.searchsorted(needs[:, position], room[position], side="right"))
        return count

    def _placed(self, rows: Rows, nodes: Rows) -> Ints:
        """(M,): how many of these tasks have a place on each node now."""
        ledger = self.cluster.ledger
        here: Mask = PLACED[ledger.status[rows]] & (ledger.node[rows] != NONE)
        counts = np.bincount(ledger.node[rows[here]], minlength=len(self.cluster.snapshot.nodes))
        return counts[nodes]

    def _avoided(self, task: TaskView, team: _Team, nodes: Rows) -> Ints:
        """(M,): how many tasks of the job that the task avoids have a place on each node now."""
        own = team.names[task.representative.row]
        avoided = [row for row, name in team.names.items() if frozenset({own, name}) in team.topology.apart]
        return self._placed(np.array(avoided, dtype=np.intp), nodes)


def _choose(pairs: Topology, name: str, buckets: list[Bucket], node: int) -> int:
    """The number of the bucket that a task goes to; one more than there are for a new one."""
    if node != NONE:
        return next((number for number, bucket in enumerate(buckets) if node in bucket.nodes), len(buckets))
    keys = [(-pairs.affinity(name, bucket.names), bucket.waiting, number) for number, bucket in enumerate(buckets)]
    dislikes, _, best = min(keys, default=(1, 0.0, NONE))
    return best if dislikes <= 0 else len(buckets)
