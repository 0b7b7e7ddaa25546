"""Shares of users in queues with ``jobOrder: fair`` or ``usage``: what each is allocated, and would be if users were equal.

The dominant share of a user is the largest part of the cluster, over all resources, that is allocated to the user's jobs in the
queue. The fair share divides the sum of these parts equally among the users, at most what each is allocated and waits for. So
what one user lacks others have in excess, and their credits add up to zero.
"""

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.engine.shares.credit import user_credits
from volcanopy.scheduler.engine.shares.usage import dominant_seconds, usage_texts, user_usages
from volcanopy.scheduler.model.observed_queue_status import credit_text
from volcanopy.scheduler.model.queue_shares import divided
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.snapshot import NONE, Snapshot

_UNITS = 10**9


class Accounts:
    """The users with jobs in some queues: A pairs of a queue and a user."""

    def __init__(self, snapshot: Snapshot, fair: Mask) -> None:
        """``fair`` (Q,) are the queues."""
        jobs = snapshot.jobs
        names = sorted({submitter.user for submitter in jobs.submitters})
        numbers = {name: number for number, name in enumerate(names)}
        user_of = np.array([numbers[submitter.user] for submitter in jobs.submitters], dtype=np.int64)
        rows = np.flatnonzero((jobs.queue != NONE) & fair[jobs.queue])
        pairs, accounts = np.unique(
            jobs.queue[rows].astype(np.int64) * len(names) + user_of[jobs.submitter[rows]], return_inverse=True
        )
        self.of: Rows = np.full(len(jobs), NONE, dtype=np.intp)  # (J,): the account of each job; NONE in other queues.
        self.of[rows] = accounts
        self.users: list[tuple[int, str]] = [(pair // len(names), names[pair % len(names)]) for pair in pairs.tolist()]
        """The queue's row and the user's name of each account."""
        self.allocated = self.sums(jobs.allocated.values)

    def sums(self, amounts: Ints) -> Ints:
        """(R, A): (R, J) amounts of jobs, added up by account."""
        sums = np.zeros((len(amounts), len(self.users)), dtype=np.int64)
        rows = np.flatnonzero(self.of != NONE)
        np.add.at(sums.T, self.of[rows], amounts.T[rows])
        return sums


def dominant_shares(amounts: Ints, total: Ints) -> Floats:
    """(...): the dominant shares of (R, ...) amounts in an (R,) total."""
    counts = total > 0
    parts = (amounts[counts].T / total[counts]).max(axis=-1, initial=0.0)
    return np.asarray(parts, dtype=np.float64)


def fair_shares(allocated: Floats, requested: Floats) -> Floats:
    """(A,): the sum of what (A,) users are allocated, divided equally, each at most what is allocated and requested."""
    whole = np.rint(allocated * _UNITS).astype(np.int64)
    most = whole + np.rint(requested * _UNITS).astype(np.int64)
    equal = np.ones(len(whole), dtype=np.int64)
    return divided(int(whole.sum()), equal, np.zeros_like(whole), most) / _UNITS


def user_statuses(
    snapshot: Snapshot, queue: int, accounts: Accounts, allocated: Ints, waiting: Ints
) -> tuple[core.QueueUser, ...]:
    """Return the shares of the users of a queue, by name; (R, A) amounts are allocated to accounts and requested by them.

    With them go the users' credit and usage. Users without jobs are kept while one of them is a second of the whole cluster or
    more; of more than 256 users those with the most.
    """
    credit, usage = user_credits(snapshot, queue), user_usages(snapshot, queue)
    past = {name: max(abs(credit[name]), dominant_seconds(usage[name], snapshot)) for name in usage}
    rows = [number for number, (row, _) in enumerate(accounts.users) if row == queue]
    total = snapshot.total
    parts = dominant_shares(allocated[:, rows], total)
    fair = fair_shares(parts, dominant_shares(waiting[:, rows], total))
    names = [accounts.users[number][1] for number in rows]
    shares = {name: (part, share) for name, part, share in zip(names, parts.tolist(), fair.tolist(), strict=True)}
    amounts = dict(zip(names, allocated.T[rows].tolist(), strict=True))
    kept = shares.keys() | {name for name, amount in past.items() if amount >= 1.0}
    most = sorted(kept, key=lambda name: (-past.get(name, 0.0), name))[: defaults.USERS_OF_STATUS]
    axis = snapshot.axis

    def user(name: str) -> core.QueueUser:
        share, fair_share = (_text(amount) for amount in shares.get(name, (0.0, 0.0)))
        of_user = {resource: units for resource, units in zip(axis.names, amounts.get(name, ()), strict=False) if units}
        return core.QueueUser(
            name=name,
            allocated=dict(quantity.texts(of_user)),
            share=share,
            fair_share=fair_share,
            credit=_text(credit.get(name, 0.0)),
            usage=usage_texts(axis, usage[name]) if name in usage else {},
        )

    return tuple(user(name) for name in sorted(most))


def _text(amount: float) -> str:
    return credit_text(amount) or "0"


def users_differ(queue: core.Queue | None, users: tuple[core.QueueUser, ...]) -> bool:
    """Return whether the shares of users, whatever their credits or usage, differ from those in the status of a queue."""
    observed = () if queue is None else queue.status.users
    return [(user.name, user.allocated, user.share, user.fair_share) for user in observed] != [
        (user.name, user.allocated, user.share, user.fair_share) for user in users
    ]
