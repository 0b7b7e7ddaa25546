"""The tables of the cluster state, without what changes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from volcanopy.api import core, topology_read
from volcanopy.api.builtin import policy
from volcanopy.scheduler.cache.claim_cache import ClaimCache
from volcanopy.scheduler.cache.row_table import RowTable
from volcanopy.scheduler.cache.shapes import Shapes
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.measures import Measured
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.scheduler.model.queue_limits import Submitters
from volcanopy.scheduler.model.resources import Axis, Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.subgroups import Marks
from volcanopy.scheduler.model.task_status import COUNT, Status

TASK_COLUMNS: dict[str, tuple[Any, Any]] = {
    "pods": (object, None),
    "status": (np.int8, Status.ABSENT),
    "job": (np.int32, NONE),
    "role": (np.int32, NONE),
    "shape": (np.int32, 0),
    "node": (np.int32, NONE),
    "nominated": (np.int32, NONE),
    "priority": (np.int64, 0),
    "created": (np.float64, 0.0),
    "started": (np.float64, 0.0),
    "runtime": (np.float64, 0.0),
    "ordinal": (np.int64, NONE),
    "preemptable": (np.bool_, False),
    "gated": (np.bool_, False),
    "mark": (np.int32, NONE),
}
NODE_COLUMNS: dict[str, tuple[Any, Any]] = {
    "objects": (object, None),
    "tasks": (np.int64, 0),
    "assigned_pods": (object, None),
}
JOB_COLUMNS: dict[str, tuple[Any, Any]] = {
    "groups": (object, None),
    "queue": (np.int32, NONE),
    "priority": (np.int64, 0),
    "min_available": (np.int64, 0),
    "created": (np.float64, 0.0),
    "admitted": (np.float64, 0.0),
    "phase": (object, "Pending"),
    "tasks": (np.int64, 0),
    "best_effort": (np.int64, 0),
    "has_min_resources": (np.bool_, False),
    "preemptable": (np.bool_, False),
    "unschedulable": (np.bool_, False),
    "pods_rejected": (np.bool_, False),
    "structured": (np.bool_, False),
    "walltime": (np.float64, 0.0),
    "estimate": (np.float64, 0.0),
    "learnt": (np.bool_, False),
    "past_run_time": (np.float64, 0.0),
    "submitter": (np.int32, 0),
    "grouped": (np.bool_, False),
    "has_minima": (np.bool_, False),
    "unsettled": (np.bool_, True),
    "lacking": (np.bool_, False),
    "roles": (object, ()),
}
GROUP_COLUMNS = tuple(
    name for name in JOB_COLUMNS if name not in {"tasks", "best_effort", "unsettled", "lacking", "roles"}
)
"""The columns of jobs that follow from their pod groups."""
ROLE_COLUMNS: dict[str, tuple[Any, Any]] = {
    "names": (object, ""),
    "job": (np.int32, NONE),
    "minimum": (np.int64, 0),
    "best_effort": (np.int64, 0),
}
Counted = tuple[int, int, int, int, int, bool]
"""What decides how a task counts: status, job, node, role, shape, and whether it has a scheduling gate."""


@dataclass
class PodWrites:
    """The assumed binds and evictions, and the pods whose bind or eviction was rejected; all by the key of the pod."""

    binds: dict[str, tuple[str, str, Mapping[str, str]]] = field(default_factory=dict)
    """The uid, the node and the annotations of assumed binds."""
    evictions: dict[str, str] = field(default_factory=dict)
    """The uid of assumed evictions."""
    backoffs: dict[str, str] = field(default_factory=dict)
    """The uid of pods whose next attempt is not due."""

    def assume(self, effect: Bind | Evict, uid: str) -> None:
        """Assume an effect on the pod of this uid."""
        if isinstance(effect, Evict):
            self.evictions[effect.pod] = uid
        else:
            self.binds[effect.pod] = uid, effect.node, effect.annotations

    def concern(self, key: str, uid: str) -> bool:
        """Whether there is anything about the pod of this uid."""
        return uid in {self.binds.get(key, ("",))[0], self.evictions.get(key), self.backoffs.get(key)}

    def drop(self, key: str) -> None:
        """Drop what concerns a pod."""
        for entries in (self.binds, self.evictions, self.backoffs):
            if key in entries:
                del entries[key]

    def confirm(self, key: str, pod: core.Pod) -> None:
        """Drop what this state of a pod shows, and what concerned another pod of its name."""
        uid = pod.metadata.uid
        if key in self.binds and (pod.spec.node_name or uid != self.binds[key][0] or pod_fields.is_over(pod)):
            del self.binds[key]
        if key in self.evictions and (pod.is_terminating or uid != self.evictions[key]):
            del self.evictions[key]
        if key in self.backoffs and uid != self.backoffs[key]:
            del self.backoffs[key]


class StateTables:
    """The data of the cluster state: tables, objects by name, and the numbers of shapes, marks and submitters."""

    def __init__(self, scheduler_names: Iterable[str] = ("volcanopy", ""), default_queue: str = "default") -> None:
        self.scheduler_names = frozenset(scheduler_names)
        self.default_queue = default_queue
        self.axis = Axis()
        self.version = 0
        self.shapes = Shapes()
        of_nodes, of_jobs = ("allocatable", "used", "releasing"), ("allocated", "pending", "min_resources")
        self.tasks: RowTable[str] = RowTable(TASK_COLUMNS, self.axis)
        self.nodes: RowTable[str] = RowTable(NODE_COLUMNS, self.axis, of_nodes, {"nonzero": 2})
        self.jobs: RowTable[str] = RowTable(JOB_COLUMNS, self.axis, of_jobs, {"counts": COUNT, "reported": 3})
        self.roles: RowTable[tuple[int, str]] = RowTable(ROLE_COLUMNS, self.axis, counts={"counts": COUNT})
        self.queues: dict[str, core.Queue] = {}
        self.queue_rows: dict[str, int] = {}
        self.priority_classes: dict[str, core.PriorityClass] = {}
        self.namespaces: dict[str, core.Namespace] = {}
        self.quotas: dict[str, policy.ResourceQuota] = {}
        self.budgets: dict[str, policy.PodDisruptionBudget] = {}
        self.numa: dict[str, topology_read.NumaTopology] = {}
        self.hypernodes: dict[str, topology_read.HyperNode] = {}
        self.claims = ClaimCache()
        self.marks = Marks()
        self.submitters = Submitters()
        self.job_roles: dict[int, dict[str, int]] = {}
        self.due: dict[Counted, int] = {}  # how often to count what, see totals
        self.assignments = 0  # how often the assigned pods of a node changed
        self.moving: set[int] = set()  # the jobs whose status names moved pods
        self.writes = PodWrites()
        self.measured: Measured | None = None
        self.previous: datetime | None = None  # the time of the previous cycle's snapshot

    def role_row(self, job: int, name: str) -> int:
        """Return the row of a role of a job."""
        known = self.job_roles.setdefault(job, {})
        row = known.get(name)
        if row is None:
            row = known[name] = self.roles.row((job, name))
            self.roles.plain["job"][row] = job
            self.roles.plain["names"][row] = name
            self.jobs.plain["roles"][job] = tuple(known.values())
            self.jobs.changed.add(job)
        return row

    def node_rows(self) -> Rows:
        """Return the rows of the existing nodes, in the order of their names."""
        objects = self.nodes.plain["objects"]
        rows = (row for _, row in sorted(self.nodes.rows.items()) if objects[row] is not None)
        return np.fromiter(rows, dtype=np.intp)
