"""nodegroup: queues have groups of nodes that their pods run on."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from volcanopy.api import names, quantity
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.once import once_by, once_while
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, sums_by
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import PLACED
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

LABEL = names.NODE_GROUP
LIMITS = names.NODE_GROUP_LIMITS
WRONG_GROUP = "node(s) were not in a node group of the pod's queue"
UNREADABLE = f"node(s) could not be judged: the queue's annotation {LIMITS} is not a JSON object of resource lists"
USED_UP = "node(s) were in a node group of which the pod's queue uses all that it may"


class NodeGroupArguments(Arguments):
    """Whether unlabelled nodes are closed to queues without rules, and whether the order of preferred groups counts."""

    strict: bool = True
    """Whether nodes without a group are closed to queues without rules."""
    ordered: bool = Field(False, alias="enablePreferredOrder")
    """Whether preferred groups count the more, the earlier they are named."""


@dataclass(frozen=True)
class _Rules:
    """The rules of a queue about groups of nodes."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    rather_not: tuple[str, ...] = ()
    limits: dict[str, dict[str, int]] | None = None
    """By group, the most of each named resource; None where the annotation cannot be read."""
    given: bool = False

    def allows(self, group: str) -> bool:
        """Whether pods of the queue may run in the group: it must be named, and not as one to stay away from."""
        if group in self.rather_not:
            return True
        return group not in self.never and group in {*self.required, *self.preferred}

    def score(self, group: str, ordered: bool) -> float:
        """How much the queue likes the group."""
        if not self.given or group in self.rather_not:
            return -1.0 if self.given else 0.0
        liked = 100.0 if group in self.required else 0.0
        if group in self.preferred:
            place, count = self.preferred.index(group), len(self.preferred)
            liked += 50.0 * (count - place) / count if ordered else 50.0
        return liked


class NodeGroup(Nodes, Plugin[NodeGroupArguments]):
    """Pods run in the node groups that their queue names; with ``enableHierarchy`` a queue without rules has its parent's."""

    name: ClassVar[str] = "nodegroup"
    arguments: ClassVar[type[Arguments]] = NodeGroupArguments

    def open(self) -> None:
        """Number the groups."""
        self._codes, numbers = self.cluster.traits.label(LABEL)
        self._groups = tuple(numbers)
        self._queue = self.task_value(lambda task: NONE if task.job is None else task.job.queue.row)

    def couples_nodes(self, task: TaskView) -> bool:
        """Limits count what is on all nodes of a group."""
        queue = self._queue(task)
        return queue != NONE and bool(self._of(self.cluster.queue(queue)).limits)

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Nodes of other groups, and of groups of which the queue has had its part."""
        if self._queue(task) == NONE:
            return
        queue = self.cluster.queue(self._queue(task))
        rules = self._of(queue)
        codes = self._codes[nodes.rows]
        if rules.limits is None:
            yield NodeRejection(UNREADABLE, np.ones(len(codes), dtype=np.bool_), final=True)
            return
        allowed = np.array([rules.allows(group) for group in self._groups] + [not (self.args.strict or rules.given)])
        outside: Mask = ~allowed[codes]
        if outside.any():
            yield NodeRejection(WRONG_GROUP, outside, final=True)
        if rules.limits:
            over = np.array([self._is_over(task, queue, rules, code) for code in range(len(self._groups))] + [False])
            used_up: Mask = over[codes] & ~outside
            if used_up.any():
                yield NodeRejection(USED_UP, used_up)

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """Required and preferred groups score more, those to be avoided less."""
        return tasks.each(lambda task: self._scores(task)[self._codes[nodes.rows]])

    def _scores(self, task: TaskView) -> Floats:
        """The score of each group, and last of nodes in none, for the task's queue."""
        if self._queue(task) == NONE:
            return np.zeros(len(self._groups) + 1, dtype=np.float64)
        rules = self._of(self.cluster.queue(self._queue(task)))
        return np.array([*(rules.score(group, self.args.ordered) for group in self._groups), 0.0])

    @once_by("row")
    def _of(self, queue: QueueView) -> _Rules:
        objects = self.cluster.snapshot.queues.objects
        line = queue.line.tolist() if self.hierarchy else [queue.row]
        affinities = (item.spec.affinity for item in (objects[row] for row in line) if item is not None)
        affinity = next((each for each in affinities if each), None)
        notes = {} if queue.object is None else queue.object.metadata.annotations
        limits = _limits(notes.get(LIMITS, ""))
        if affinity is None:
            return _Rules(limits=limits)
        near, away = affinity.get("nodeGroupAffinity") or {}, affinity.get("nodeGroupAntiAffinity") or {}
        return _Rules(
            required=tuple(near.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            preferred=tuple(near.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
            never=tuple(away.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            rather_not=tuple(away.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
            limits=limits,
            given=True,
        )

    def _is_over(self, task: TaskView, queue: QueueView, rules: _Rules, code: int) -> bool:
        limits = (rules.limits or {}).get(self._groups[code])
        if not limits:
            return False
        used, request = self._usage(queue.row)[:, code], task.request.values
        places = ((self.cluster.axis.index.get(name), limit) for name, limit in limits.items())
        return any(
            place is not None and request[place] > 0 and int(used[place] + request[place]) > limit
            for place, limit in places
        )

    @once_while("cluster.ledger.changes")
    def _usage(self, queue: int) -> Ints:
        """(R, groups): what the queue's tasks hold in each group."""
        ledger, snapshot = self.cluster.ledger, self.cluster.snapshot
        status, node, table = ledger.status, ledger.node, snapshot.tasks
        rows = np.flatnonzero(PLACED[status] & (node != NONE) & (table.job != NONE))
        rows = rows[snapshot.jobs.queue[table.job[rows]] == queue]
        codes = self._codes[node[rows]]
        rows, codes = rows[codes != NONE], codes[codes != NONE]
        return sums_by(codes, snapshot.requests(rows), len(self._groups))


def _limits(text: str) -> dict[str, dict[str, int]] | None:
    """The annotation's limits by group and resource; None if it cannot be read."""
    if not text:
        return {}
    try:
        value: Any = json.loads(text)
        return {str(group): quantity.amounts(resources) for group, resources in value.items()}
    except (ValueError, AttributeError, TypeError):
        return None
