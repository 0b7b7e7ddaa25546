"""tdm: nodes for batch work during some hours of the day."""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from volcanopy.api import core, names
from volcanopy.api.gates import Gate
from volcanopy.api.model import Duration
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.resources import Floats, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policy import roles
from volcanopy.scheduler.policy.durations import above_zero
from volcanopy.scheduler.policy.hours_of_day import Hours, TimeZone, hours, time_zone
from volcanopy.scheduler.policy.plugin import PERMIT, Arguments, NodeRejection, Plugin, Vote, reject
from volcanopy.scheduler.policy.roles import Nodes, Purpose, Victims

CLOSED = "node(s) were in a revocable zone outside its hours"
NOT_REVOCABLE = "node(s) were in a revocable zone and the pod is not revocable"

_PREFIX = "tdm.revocable-zone."
_BUDGET = re.compile(r"(\d+)(%?)")


class TdmArguments(Arguments):
    """When each revocable zone is open, in which time zone, and how often tasks are moved out of closed ones."""

    zones: dict[str, Annotated[Hours, BeforeValidator(hours)]] = Field(default_factory=dict, alias="tdm.revocable-zone")
    """By zone, when it is open: `tdm.revocable-zone.<zone>: "22:00-06:00"`."""
    period: Annotated[Duration, above_zero("1m")] = Field(timedelta(minutes=1), alias="tdm.evict.period")
    """How often tasks are moved out of zones that have closed."""
    time_zone: TimeZone = Field("UTC", alias="tdm.time-zone")
    """Where the hours are meant."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, value: Any) -> Any:
        """``tdm.revocable-zone.<zone>`` is one zone's window each."""
        if not isinstance(value, dict) or isinstance(value.get("tdm.revocable-zone"), dict):
            return value
        zones = {key.removeprefix(_PREFIX): value for key, value in value.items() if key.startswith(_PREFIX)}
        rest = {key: value for key, value in value.items() if not key.startswith(_PREFIX)}
        return {**rest, "tdm.revocable-zone": zones}


class Tdm(Plugin[TdmArguments], Nodes, Victims, roles.Gate, roles.Order):
    """Nodes of a revocable zone take revocable tasks, and only while the zone is open.

    A node is in a zone by its label ``volcanopy.io/revocable-zone``. A pod is revocable with ``*`` in the annotation of
    that name, or ``true`` in the annotation ``volcanopy.io/preemptable``. ``shuffle`` moves tasks out of closed zones, once a
    period, as many of a job as its disruption budget allows.
    """

    name: ClassVar[str] = "tdm"
    moments: ClassVar[frozenset[roles.Moment]] = frozenset({roles.Moment.PIPELINED})
    arguments: ClassVar[type[Arguments]] = TdmArguments

    def open(self) -> None:
        """Find which zones are open now."""
        args, traits = self.args, self.cluster.traits
        zone_of, numbers = traits.label(names.REVOCABLE_ZONE)
        at = self.cluster.now.astimezone(time_zone(args.time_zone)).time()
        hours_of = [*map(args.zones.get, numbers), None]  # the last entry serves nodes in no zone
        is_known = np.array([each is not None for each in hours_of])
        is_open = np.array([each is not None and each.contain(at) for each in hours_of])
        self._in_zone: Mask = zone_of != NONE
        self._open: Mask = is_open[zone_of]
        self._closing: Mask = is_known[zone_of] & ~self._open
        """The nodes that must be left: those of zones that the configuration names and that are closed."""
        self._revocable = self.task_value(lambda task: _is_revocable(task.pod))

    def reject(self, task: TaskView, nodes: NodesView) -> Iterable[NodeRejection]:
        """Zones are for revocable tasks, during their hours."""
        if not self._in_zone.any():
            return ()
        in_zone = self._in_zone[nodes.rows]
        closed = in_zone & ~self._open[nodes.rows]
        rejections = [NodeRejection(CLOSED, closed, final=True)]
        if not self._revocable(task):
            rejections.append(NodeRejection(NOT_REVOCABLE, in_zone & ~closed, final=True))
        return rejections

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """100 for the nodes of open zones, for a revocable task."""
        revocable = np.array([[self._revocable(task)] for task in tasks])
        return np.where(revocable & self._open[nodes.rows], 100.0, 0.0)

    def jobs(self, jobs: Rows) -> Mask:
        """Jobs that cannot be revoked first."""
        return self.cluster.snapshot.jobs.preemptable[jobs]

    def verdict(self, job: JobView, moment: roles.Moment) -> Vote:
        """A job waits for evicted pods to terminate if that is enough for it."""
        return PERMIT if job.is_pipelined else reject(Gate.GANG, "gang is not ready: fewer pods placed than required")

    def allows(
        self, preemptor: TaskView, candidates: Sequence[TaskView], purpose: Purpose
    ) -> Sequence[TaskView] | None:
        """For preempt by a task that is not itself on offer: tasks outside the zones, within the budget of their job."""
        if purpose is not Purpose.PREEMPT:
            return None
        if _is_on_offer(preemptor):
            return []
        outside = [
            task
            for task in candidates
            if task.status == Status.RUNNING and task.preemptable and task.node != NONE and not self._in_zone[task.node]
        ]
        return self._within_budgets(outside)

    def evicts(self, running: Rows) -> Rows:
        """Once a period: the tasks on nodes of zones that are closed, within the budget of their job."""
        nodes = self.cluster.ledger.node[running]
        there = running[(nodes != NONE) & self._closing[nodes]] if len(self._closing) else running[:0]
        if not len(there) or not self._is_time():
            return running[:0]
        table = self.cluster.snapshot.tasks
        there = there[table.preemptable[there]]
        names_of = table.keys[there].astype(np.str_)
        order = np.lexsort((names_of, -table.ordinal[there], -table.created[there], table.priority[there]))
        tasks = [self.cluster.task(row) for row in there[order].tolist()]
        return np.array([task.row for task in self._within_budgets(tasks)], dtype=np.intp)

    def _is_time(self) -> bool:
        """Whether a period has begun since the last cycle; the first cycle of all does not wait for one."""
        snapshot = self.cluster.snapshot
        return snapshot.previous is None or snapshot.begins(self.args.period)

    def _within_budgets(self, tasks: Sequence[TaskView]) -> list[TaskView]:
        """The first tasks of each job, as many as it can spare."""
        left: dict[int, int] = {}
        victims = []
        for task in tasks:
            job = task.job
            if job is None:
                continue
            spare = left.setdefault(job.row, spared(job))
            if spare > 0:
                left[job.row] = spare - 1
                victims.append(task)
        return victims


def spared(job: JobView) -> int:
    """How many running tasks a job can spare at once: its disruption budget, else one.

    A budget that cannot be read spares none.
    """
    notes = job.group.metadata.annotations
    running, tasks = job.count(Status.RUNNING), job.count()
    at_most = notes.get(names.JDB_MAX_UNAVAILABLE)
    if at_most is not None:
        missing = tasks - job.count(Status.SUCCEEDED, Status.FAILED) - running
        return max(0, _budget(at_most, tasks, unreadable=0) - missing)
    at_least = notes.get(names.JDB_MIN_AVAILABLE)
    if at_least is not None:
        return max(0, running - _budget(at_least, tasks, unreadable=running))
    return 1


def _budget(text: str, tasks: int, unreadable: int) -> int:
    form = _BUDGET.fullmatch(text.strip())
    if form is None:
        return unreadable
    number = int(form[1])
    return math.ceil(tasks * number / 100) if form[2] else number


def _is_revocable(pod: core.Pod) -> bool:
    """Whether an annotation declares a pod revocable, or preemptable."""
    notes = pod.metadata.annotations
    is_declared = names.PREEMPTABLE in notes and pod_fields.flag(pod.metadata, names.PREEMPTABLE, absent=False)
    return is_declared or notes.get(names.REVOCABLE_ZONE) == "*"


def _is_on_offer(task: TaskView) -> bool:
    """Whether a task or its job is declared preemptable."""
    if _is_revocable(task.pod) or pod_fields.flag(task.pod.metadata, names.PREEMPTABLE, absent=False):
        return True
    return task.job is not None and task.job.preemptable
