"""A job with a reservation: what is reserved, until when others may use it, and what is left of it as its tasks are placed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from volcanopy.api.times import format_time
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.reservation_planner import Hold
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import JobView, TaskView
from volcanopy.scheduler.model.messages import QuotaMessage, message_of
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import HOLDING, Status
from volcanopy.scheduler.policy.plugin import Rejection


@dataclass(eq=False)
class ReservedJob:
    """A job with a reservation: on nodes, or of the rest of a queue's limit."""

    job: JobView
    task: TaskView
    until: float = 0.0  # Pods that end by this moment, in seconds, may use the reservation.
    likely: float = 0.0  # As ``until``, by the likely ends of pods and of those that run before the job.
    plan: Hold | None = None  # The reserved nodes.
    tasks: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """The pending tasks of the job that the reservation is for."""
    rejection: Rejection | None = None  # The rejection by the limit of its queue, where it waits for that.
    members: Mask = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    """(J,): the jobs to which that limit applies."""
    room: Ints | None = None
    """(R,): what the limit leaves to others beside the job, UNLIMITED of what the job does not request; None for nothing."""
    fits: bool = False  # Whether the job fits now: then no other pod may use the reservation.
    preceding: frozenset[int] = frozenset()
    """The rows of the jobs of its queue that precede it and start now, or have a reservation of their own."""
    _amounts: dict[bool, tuple[int, Ints]] = field(default_factory=dict)
    """The result of :meth:`amounts` after so many changes of tasks."""
    _allocated: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """(R,): what was allocated to the jobs of the limit when it was reserved."""
    _counted: tuple[int, Ints] = (0, np.empty(0, dtype=np.int64))
    """What was allocated to them since, after so many changes of tasks."""

    def amounts(self, cluster: Cluster, least: bool) -> Ints:
        """(R, N): the reserved amounts of a reservation on nodes, less those allocated to tasks of the job in this session.

        ``least``: what the start at the planned time takes.
        """
        assert self.plan is not None
        ledger = cluster.ledger
        known = self._amounts.get(least)
        if known is not None and known[0] == ledger.moves:
            return known[1]
        status, amounts = ledger.status[self.tasks], self.plan.least if least else self.plan.kept
        placed = self.tasks[HOLDING[status] | (status == Status.PIPELINED)]
        if len(placed):
            amounts = amounts.copy()
            np.subtract.at(amounts.T, ledger.node[placed], cluster.snapshot.requests(placed).T)
            amounts = np.maximum(amounts, 0)
        self._amounts[least] = ledger.moves, amounts
        return amounts

    def reserve_limit(self, cluster: Cluster, rejection: Rejection, members: Mask) -> None:
        """Reserve the rest of a limit on these (J,) jobs, but what it leaves beside all tasks that the job lacks."""
        self.plan, self.rejection, self.members = None, rejection, members
        self._counted = cluster.ledger.moves, np.zeros(len(cluster.axis), dtype=np.int64)
        self._allocated = cluster.ledger.job_allocated[:, members].sum(axis=1)
        if isinstance(rejection.reason, QuotaMessage) and rejection.reason.jobs is None:
            quota = rejection.reason.binding()
            total = cluster.snapshot.requests(self.tasks).sum(axis=1)
            self.room = np.full(len(cluster.axis), UNLIMITED, dtype=np.int64)
            for name, allocated, limit in zip(quota.names, quota.allocated, quota.limit, strict=True):
                dim = cluster.axis.index[name]
                if total[dim] and (name != "pods" or quota.kind == "limits"):
                    self.room[dim] = limit - allocated - total[dim]

    def uses_limit(self, cluster: Cluster, request: Ints) -> bool:
        """Whether a (R,) request of another job to which the limit applies needs what is reserved of it."""
        if self.room is None or bool(exceeds_room(request, self.room)):
            return True
        moves, ledger = self._counted[0], cluster.ledger
        if moves != ledger.moves:
            allocated = ledger.job_allocated[:, self.members].sum(axis=1) - self._allocated
            self._counted = ledger.moves, np.maximum(allocated, 0)
        return bool(exceeds_room(request, self.room - self._counted[1]))

    @property
    def limit_name(self) -> str:
        """The reserved rest of a limit, as a phrase."""
        assert self.rejection is not None
        quota = self.rejection.reason
        if isinstance(quota, QuotaMessage) and quota.subject != "queue":
            return f"the rest of the limit of {quota.owner}"
        return f'the rest of queue "{message_of(quota).numbers.get("queue", self.job.queue.name)}"'

    def fits_in(self, free: Ints) -> bool:
        """Whether the job starts now on (R, N) free resources, without the end of another. Without a plan there is enough."""
        return self.fits and (self.plan is None or bool((self.plan.needed <= np.maximum(free, 0)).all()))

    def numbers(self, cluster: Cluster) -> Mapping[str, str]:
        """Return the reserved nodes or queue, and the expected start if it is certain."""
        if self.plan is None:
            return {} if self.rejection is None else {"reserved": self.limit_name}
        names, rows = cluster.snapshot.nodes.names, self.plan.nodes.tolist()
        more = f" and {len(rows) - defaults.NAMED_NODES} more" if len(rows) > defaults.NAMED_NODES else ""
        numbers = {"reserved": ", ".join(names[row] for row in rows[: defaults.NAMED_NODES]) + more}
        if self.plan.certain and not self.fits:
            numbers["expected"] = format_time(datetime.fromtimestamp(self.plan.start, UTC))
        return numbers


def exceeds_room(request: Ints, room: Ints) -> np.bool_ | Mask:
    """Whether a (R,) request, or which of (R, J) requests, exceed what is left of a resource that they contain."""
    return ((request > 0) & (request > room)).any(axis=0)
