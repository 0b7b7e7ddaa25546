"""Sub-groups of a job, as views, and how close together a job and each of its sub-groups must run.

A job whose group has no sub-group policies is one sub-group: all of it. Otherwise each mark is a sub-group, and the pods
that no policy matches form one more.
"""

import numpy as np

from volcanopy.api import core
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import JobView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.subgroups import Mark
from volcanopy.scheduler.model.task_status import PLACED, READY, VALID, Status


class SubJobView:
    """A sub-group of a job: some of its tasks, which start together or not at all."""

    __slots__ = ("_ledger", "job", "mark", "rows")

    def __init__(self, ledger: Ledger, job: JobView, mark: int, rows: Rows) -> None:
        """``mark`` is the number of the mark of its tasks, NONE for those that no policy matches."""
        self._ledger = ledger
        self.job = job
        self.mark: Mark | None = None if mark == NONE else ledger.snapshot.tasks.marks[mark]
        self.rows = rows

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its job, which has no sub-groups."""
        return not self.job.group.spec.sub_group_policy

    @property
    def policy(self) -> core.SubGroupPolicy | None:
        """Its policy; None for the tasks that no policy matches."""
        return None if self.mark is None else self.job.group.spec.sub_group_policy[self.mark.policy]

    @property
    def number(self) -> int:
        """The number of its policy, NONE without one."""
        return NONE if self.mark is None else self.mark.policy

    @property
    def key(self) -> str:
        """The job's key, the policy's name and the values that its pods share."""
        policy = self.policy
        if policy is None or self.mark is None:
            return self.job.key
        return f"{self.job.key}/{'-'.join((policy.name, *self.mark.values))}"

    @property
    def order(self) -> int:
        """Its index among the sub-groups of its policy if its pods have one, else 0."""
        return 0 if self.mark is None else self.mark.order

    @property
    def topology(self) -> core.NetworkTopology | None:
        """Its network topology; that of its job where no policy matches."""
        policy = self.policy
        return self.job.group.spec.network_topology if policy is None else policy.network_topology

    @property
    def tier(self) -> int | None:
        """The highest tier that its tasks may span, None if that is not limited."""
        return topology.bound(self.topology, self._ledger.snapshot.hypernodes)

    @property
    def min_available(self) -> int:
        """How many of its tasks must run together."""
        policy = self.policy
        if policy is not None:
            return policy.sub_group_size
        return self.job.min_available if self.is_whole else 1

    @property
    def priority(self) -> int:
        """The highest priority of its tasks, 0 at least."""
        return int(self._ledger.snapshot.tasks.priority[self.rows].max(initial=0))

    def tasks(self, *statuses: Status) -> Rows:
        """The rows of its tasks that have one of these statuses (of all of them if none is named)."""
        return self.rows[np.isin(self._ledger.status[self.rows], statuses)] if statuses else self.rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def valid_count(self) -> int:
        """Tasks that are there for the sub-group, or can still be."""
        return int(VALID[self._ledger.status[self.rows]].sum())

    @property
    def ready_count(self) -> int:
        """Tasks that have a node or have succeeded."""
        return int(READY[self._ledger.status[self.rows]].sum())

    @property
    def waiting_count(self) -> int:
        """Tasks that wait for evicted pods to terminate."""
        return int((self._ledger.status[self.rows] == Status.PIPELINED).sum())

    @property
    def shortfall(self) -> int:
        """How many more of its tasks need a node for its minimum; not positive if none does."""
        return self.min_available - self.ready_count

    @property
    def lacking(self) -> int:
        """As :attr:`shortfall`, with those that wait for evicted pods to terminate as if they had a node."""
        return self.shortfall - self.waiting_count

    @property
    def is_ready(self) -> bool:
        """Whether enough of its tasks have a node."""
        return self.shortfall <= 0

    @property
    def is_pipelined(self) -> bool:
        """Whether enough of its tasks have a node, counting those that wait for evicted pods."""
        return self.lacking <= 0

    @property
    def spanned(self) -> int:
        """The lowest hypernode that contains all of its tasks with a node; NONE if none has."""
        return spanned(self._ledger, self.rows)


def spanned(ledger: Ledger, tasks: Rows) -> int:
    """Return the lowest hypernode that contains all of these tasks with a node, also pipelined ones; NONE if none has."""
    placed = tasks[PLACED[ledger.status[tasks]]]
    return ledger.snapshot.hypernodes.spanned(ledger.node[placed].astype(np.intp))
