"""The order of jobs in queues with ``jobOrder``, before the order of the configured plugins.

- ``fifo``: the oldest job first. ``priority``: the highest priority first.
- ``fair``: users share the queue equally. The waiting jobs of a user are numbered with the amounts that the user would have
  allocated before each: what is allocated to the user's jobs, and what the earlier waiting jobs of the user lack to start
  (fair queueing). The smallest amount is first, as a dominant share of the cluster, less the credit of the user
  (:mod:`volcanopy.scheduler.engine.shares.credit`). So jobs of users alternate, and the position of a job does not change when an
  earlier one starts.
- ``usage``: as ``fair``, but the past usage of the user is added instead: the smallest usage that the user will have
  ``USER_PAYBACK`` seconds after a start of the job is first.

A job that was given pods in this session and is put back for more comes later by their share.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.credit import user_credits
from volcanopy.scheduler.engine.shares.usage import dominant_seconds, user_usages
from volcanopy.scheduler.engine.shares.user_shares import Accounts, dominant_shares
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.queue_policy import JobOrder, orders_by_user
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot

Keys = Callable[[Rows], list[tuple[Any, ...]]]  # Returns the keys of job rows by the configured plugins, age and name.


class JobOrders:
    """The first sort key of jobs in a session: the order that their queue sets."""

    def __init__(self, ledger: Ledger, orders: Rows, waiting: Callable[[], Rows], keys: Keys) -> None:
        """``orders`` (Q,) has the :class:`JobOrder` of each queue; ``waiting`` returns the waiting jobs."""
        self._ledger, self._orders, self._waiting, self._keys = ledger, orders, waiting, keys

    def of(self, jobs: Rows) -> list[float]:
        """Return the key of each of these jobs; 0 in queues that set no order."""
        snapshot = self._ledger.snapshot
        table = snapshot.jobs
        order = self._orders[table.queue[jobs]]
        keys = np.where(order == JobOrder.FIFO, table.created[jobs], 0.0)
        keys = np.where(order == JobOrder.PRIORITY, -table.priority[jobs].astype(np.float64), keys)
        fair: Mask = orders_by_user(order)
        if fair.any():
            given = self._ledger.job_allocated[:, jobs] - table.allocated.values[:, jobs]
            keys = np.where(fair, self._user_tags[jobs] + dominant_shares(np.maximum(given, 0), snapshot.total), keys)
        return keys.tolist()

    @cached_property
    def _user_tags(self) -> Floats:
        """(J,): of each job, what its user is allocated with the user's earlier waiting jobs, and the user's past."""
        snapshot = self._ledger.snapshot
        table = snapshot.jobs
        accounts = Accounts(snapshot, orders_by_user(self._orders))
        rows = self._waiting()
        rows = rows[accounts.of[rows] != NONE]
        phase = table.in_phase("Pending")[rows]
        by_user = zip(accounts.of[rows].tolist(), phase.tolist(), self._keys(rows), rows.tolist(), strict=True)
        rows = np.array([row for *_, row in sorted(by_user)], dtype=np.intp)
        account, lacking = accounts.of[rows], np.minimum(_lacking(snapshot)[:, rows], snapshot.total[:, None])
        before = np.cumsum(lacking, axis=1) - lacking
        first = np.searchsorted(account, account)  # where the jobs of the same user begin
        amounts = accounts.allocated[:, account] + before - before[:, first]
        past = {queue: self._past(queue) for queue, _ in accounts.users}
        before = np.array([past[queue].get(user, 0.0) / defaults.USER_PAYBACK for queue, user in accounts.users])
        tags = np.zeros(len(table), dtype=np.float64)
        tags[rows] = dominant_shares(amounts, snapshot.total) + before[account]
        return tags

    def _past(self, queue: int) -> Mapping[str, float]:
        """Return what each user of a queue used, in seconds of the whole cluster; by credit, negative what was lacked."""
        if self._orders[queue] == JobOrder.USAGE:
            usages = user_usages(self._ledger.snapshot, queue)
            return {user: dominant_seconds(usage, self._ledger.snapshot) for user, usage in usages.items()}
        return {user: -credit for user, credit in user_credits(self._ledger.snapshot, queue).items()}


def _lacking(snapshot: Snapshot) -> Ints:
    """(R, J): what each job lacks to start: of its minimal resources, or else what its pending pods request."""
    jobs = snapshot.jobs
    lacking: Ints = np.maximum(jobs.min_resources.values - jobs.allocated.values, 0)
    return np.where(jobs.has_min_resources, lacking, jobs.pending.values)
