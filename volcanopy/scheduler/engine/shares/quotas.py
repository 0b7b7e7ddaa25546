"""The quotas of a session: what the limits and shares of all policies together allow queues to be allocated."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from volcanopy.scheduler.engine.shares.queue_quota import Limiter
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.ledger.views import QueueView, TaskView
from volcanopy.scheduler.model.queue_shares import QueueShares
from volcanopy.scheduler.model.resources import Ints, Resources
from volcanopy.scheduler.policy.dispatch import Hooks
from volcanopy.scheduler.policy.plugin import Rejection
from volcanopy.scheduler.policy.roles import Gate

Limit = Callable[[QueueView, TaskView, int], Rejection | None]
"""Why so many more tasks equal to this one cannot be allocated to the queue; None if they can."""


class Quotas:
    """The rules of all policies with shares, and the other limits on allocations, in the order of the configuration."""

    def __init__(self, hooks: Hooks, jobs_with_reserved_nodes: Callable[[], frozenset[int]]) -> None:
        """Jobs with reserved nodes may use these whatever the share of their queue."""
        self.jobs_with_reserved_nodes = jobs_with_reserved_nodes
        self._limits: list[Limit] = []
        self._within_share: list[Limit] = []
        self._beyond_share: list[Limit] = []
        self._reclaiming: list[ShareRules] = []
        self._all: list[ShareRules] = []
        self._closed: dict[tuple[int, int], Rejection | None] = {}
        for plugin, off in hooks.policies(Limiter, Gate):
            allocates = "enabledAllocatable" not in off
            if isinstance(plugin, Limiter):
                self._limits += [plugin.limit_rejection] if allocates else []
            elif allocates and isinstance(plugin, Gate) and type(plugin).queue_verdict is not Gate.queue_verdict:
                self._limits.append(partial(self._rejection_of_job, plugin.queue_verdict))
            if isinstance(plugin, ShareRules):
                self._all.append(plugin)
                self._within_share += [plugin.within_share] if allocates else []
                self._beyond_share += [plugin.beyond_share] if allocates else []
                self._reclaiming += [plugin] if "enablePreemptive" not in off else []
        self.is_beyond_shares = True
        """Whether :meth:`allocatable` allows what exceeds fair shares at present."""
        self.rejected_by_share = set[int]()
        """The jobs of which tasks were rejected by ``within_share`` since :meth:`within_shares` began."""
        self._first_tasks = frozenset[int]()

    def _rejection_of_job(
        self, verdict: Callable[[QueueView], Rejection | None], queue: QueueView, task: TaskView, _: int
    ) -> Rejection | None:
        """Nothing for a queue that a gate rejects, also what no other queue can use; asked once for each job."""
        key = (queue.row, -1 if task.job is None else task.job.row)
        if key not in self._closed:
            self._closed[key] = verdict(queue)
        return self._closed[key]

    def within_limits(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """As :meth:`allocatable`, without regard to fair shares."""
        return _first(self._limits, queue, task, count)

    def within_share(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Return why the tasks exceed the fair share of the queue; such tasks are only allocated what others cannot use."""
        return _first(self._within_share, queue, task, count)

    def allocatable(self, queue: QueueView, task: TaskView, count: int) -> Rejection | None:
        """Return why a queue cannot allocate ``count`` tasks, within its limits and its fair share."""
        rejection = _first(self._limits, queue, task, count)
        if rejection is not None or task.row in self._first_tasks:
            return rejection
        rejection = _first(self._within_share, queue, task, count)
        if rejection is None:
            return None
        job = task.job
        if not self.is_beyond_shares:
            if job is not None:
                self.rejected_by_share.add(job.row)
            return rejection
        if job is not None and job.row in self.jobs_with_reserved_nodes():
            return None
        return _first(self._beyond_share, queue, task, count)

    @contextmanager
    def within_shares(self) -> Iterator[None]:
        """Do not allow in :meth:`allocatable` what exceeds fair shares, for a while; else what others claim is not allowed."""
        self.is_beyond_shares = False
        self.rejected_by_share.clear()
        try:
            yield
        finally:
            self.is_beyond_shares = True

    def comes_first(self, task: int) -> bool:
        """Whether the task is being placed for a running gang that lacks it."""
        return task in self._first_tasks

    @contextmanager
    def first(self, tasks: Iterable[int]) -> Iterator[None]:
        """Place these tasks before others for a while: only limits count, and no reservation of others."""
        self._first_tasks = frozenset(tasks)
        try:
            yield
        finally:
            self._first_tasks = frozenset()

    def reserved_as_first(self, queue: QueueView, request: Ints) -> bool:
        """Whether nodes are reserved for a (R,) request only while its queue is the first, since nothing limits its share."""
        return any(rules.reserved_as_first(queue, request) for rules in self._all)

    def may_reclaim(self, queue: QueueView, tasks: Sequence[TaskView]) -> bool:
        """Whether pods of other queues may be evicted for these tasks of the queue."""
        return all(rules.may_reclaim(queue, tasks) for rules in self._reclaiming)

    def within_fair_share(self, queue: QueueView, claim: Resources) -> bool:
        """Whether this total amount is within the fair share of the queue; False without any policy with shares."""
        return bool(self._reclaiming) and all(rules.within_fair_share(queue, claim) for rules in self._reclaiming)

    def victim_queue_order(self, queue: QueueView, reclaimer: QueueView) -> tuple[int, ...]:
        """Sort key of the queues from which the queue ``reclaimer`` reclaims: the first one loses pods first."""
        return tuple(rules.victim_queue_order(queue, reclaimer) for rules in self._all)

    def reported(self) -> QueueShares | None:
        """The shares of all queues, which are written into their statuses when the session ends; None without any."""
        return self._all[0].queue_shares() if self._all else None


def _first(limits: Iterable[Limit], queue: QueueView, task: TaskView, count: int) -> Rejection | None:
    for limit in limits:  # a generator takes a tenth of what a single pod costs
        rejection = limit(queue, task, count)
        if rejection is not None:
            return rejection
    return None
