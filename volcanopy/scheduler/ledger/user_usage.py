"""Usage of users, groups and queues that limits in queues apply to, as the session changes it: a part of the ledger.

A *pool* is the subject of one limit: the jobs of a queue, or of one user or group in a queue and the queues below it. Jobs of
one queue and one submitter are in the same pools: they are of one *kind*. A session without limits has no pools.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Self

import numpy as np

from volcanopy.scheduler.model.queue_limits import Cap, Limits, Subject
from volcanopy.scheduler.model.resources import Ints, Mask, Rows, sums_by
from volcanopy.scheduler.model.snapshot import NONE, Snapshot
from volcanopy.scheduler.model.task_status import HOLDING


class Pools:
    """The allocated amounts and the admitted jobs of each pool. A job with allocated resources counts as admitted."""

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        jobs, submitters = snapshot.jobs, snapshot.jobs.submitters
        self._snapshot = snapshot
        self.subjects: list[Subject] = []
        self.caps: list[Cap] = []
        known = np.flatnonzero(jobs.queue != NONE)
        pairs = jobs.queue[known].astype(np.int64) * len(submitters) + jobs.submitter[known]
        pairs, kinds = np.unique(pairs, return_inverse=True)
        column = np.full(len(jobs), len(pairs), dtype=np.intp)  # the last kind, of jobs in no queue, is in no pool
        column[known] = kinds
        self.kind: Rows = column
        """(J,): which kind each job is of."""
        numbers: dict[Subject, int] = {}
        self.counting: list[tuple[int, ...]] = []
        """By kind: the pools that limit the number of jobs, in the order of the limits."""
        self.bounding: list[tuple[int, ...]] = []
        """By kind: the pools that limit amounts."""
        for pair in pairs.tolist():
            row, submitter = divmod(pair, len(submitters))
            mine = [self._number(numbers, *limited) for limited in limits.of(row, submitters[submitter])]
            self.counting.append(tuple(pool for pool in mine if self.caps[pool].jobs is not None))
            self.bounding.append(tuple(pool for pool in mine if self.caps[pool].amounts))
        self.counting.append(())
        self.bounding.append(())
        self._requests: list[list[int]] = snapshot.shapes.request.values.T.tolist()
        self.held = self._sums(jobs.allocated.values)
        """By pool: how much is held, of each amount that is limited."""
        self.admitted: list[int] = [0] * len(self.subjects)
        """By pool: how many jobs are admitted."""
        self._counts = _admitted(snapshot)
        numbers_by_kind = np.bincount(column[self._counts], minlength=len(self.counting)).tolist()
        for count, counting in zip(numbers_by_kind, self.counting, strict=True):
            for pool in counting:
                self.admitted[pool] += count

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self | None:
        """Return the pools of a snapshot; None if no queue has limits."""
        limits = snapshot.queues.terms.limits
        return None if limits is None else cls(snapshot, limits)

    def hold(self, job: int, amount: Ints) -> None:
        """Count an (R,) amount as held by a job; a negative one no longer."""
        for pool in self.bounding[int(self.kind[job])]:
            held = self.held[pool]
            for place, (dim, _) in enumerate(self.caps[pool].amounts):
                held[place] += int(amount[dim])

    def exceeded(self, job: int, shape: int, count: int) -> int | None:
        """The first pool that cannot take ``count`` more tasks of a shape; only requested resources count."""
        request = self._requests[shape]
        for pool in self.bounding[int(self.kind[job])]:
            for (dim, most), held in zip(self.caps[pool].amounts, self.held[pool], strict=True):
                if request[dim] and held + request[dim] * count > most:
                    return pool
        return None

    def full(self, job: int) -> int | None:
        """The first pool that has as many jobs as it may have already; None if this is one of them, or may be."""
        if self._counts[job]:
            return None
        for pool in self.counting[int(self.kind[job])]:
            most = self.caps[pool].jobs
            if most is not None and self.admitted[pool] >= most:
                return pool
        return None

    def admit(self, job: int, is_admitted: bool) -> None:
        """Count a job as admitted, and its minimal resources as reserved, unless it is blocked; or no longer."""
        if self._snapshot.blocked[job]:
            return
        kind, sign = int(self.kind[job]), 1 if is_admitted else -1
        if self._counts[job] != is_admitted:
            self._counts[job] = is_admitted
            for pool in self.counting[kind]:
                self.admitted[pool] += sign
        for pool in self.bounding[kind]:
            reserved = self.reserved[pool]
            for place, (dim, _) in enumerate(self.caps[pool].amounts):
                reserved[place] += sign * int(self.requested[dim, job])

    def exceeding_reservations(self, job: int, spared: Callable[[int], Ints] | None = None) -> int | None:
        """Return the first pool whose limit the job's request exceeds, beside what is allocated and reserved.

        ``spared`` returns what (R,) of a pool could be evicted for the job.
        """
        for pool in self.bounding[int(self.kind[job])]:
            gone: Ints | None = None
            table = zip(self.caps[pool].amounts, self.held[pool], self.reserved[pool], strict=True)
            for (dim, most), held, reserved in table:
                asked = int(self.requested[dim, job])
                if asked and held + reserved + asked > most:
                    gone = spared(pool) if spared is not None and gone is None else gone
                    if gone is None or held + reserved + asked - int(gone[dim]) > most:
                        return pool
        return None

    @cached_property
    def requested(self) -> Ints:
        """(R, J): what each job needs to start beyond its allocation, without what scheduling gates hold back."""
        jobs = self._snapshot.jobs
        return np.maximum(jobs.min_resources.values - jobs.allocated.values - self._snapshot.gated, 0)

    @cached_property
    def reserved(self) -> list[list[int]]:
        """By pool: what admitted jobs will request beyond their allocation, of each limited resource."""
        return self._sums(
            np.where(self._snapshot.jobs.in_phase("Inqueue") & ~self._snapshot.blocked, self.requested, 0)
        )

    def members(self, pool: int) -> Mask:
        """(J,): the jobs of a pool."""
        mine = [pool in counts or pool in bounds for counts, bounds in zip(self.counting, self.bounding, strict=True)]
        return np.array(mine, dtype=np.bool_)[self.kind]

    def admitted_in(self, pool: int) -> Rows:
        """The jobs of a pool that are admitted."""
        return np.flatnonzero(self.members(pool) & self._counts)

    def holding_in(self, pool: int, allocated: Ints) -> Rows:
        """The jobs of a pool that hold something of what is limited, of the (R, J) amounts that jobs hold."""
        dims = [dim for dim, _ in self.caps[pool].amounts]
        return np.flatnonzero(self.members(pool) & (allocated[dims] > 0).any(axis=0))

    def _number(self, numbers: dict[Subject, int], subject: Subject, cap: Cap) -> int:
        number = numbers.setdefault(subject, len(numbers))
        if number == len(self.caps):
            self.subjects.append(subject)
            self.caps.append(cap)
        return number

    def _sums(self, amounts: Ints) -> list[list[int]]:
        """By pool: the sums of (R, J) amounts over its jobs, of what is limited."""
        dims = list({dim for cap in self.caps for dim, _ in cap.amounts})
        sums = dict(zip(dims, sums_by(self.kind, amounts[dims], len(self.counting)).tolist(), strict=True))
        sums_of_pools = [[0] * len(cap.amounts) for cap in self.caps]
        for kind, pools in enumerate(self.bounding):
            for pool in pools:
                for place, (dim, _) in enumerate(self.caps[pool].amounts):
                    sums_of_pools[pool][place] += sums[dim][kind]
        return sums_of_pools


def _admitted(snapshot: Snapshot) -> Mask:
    """(J,): the jobs that count as admitted: those that are and are not blocked, and those with allocated resources."""
    jobs, phase = snapshot.jobs, snapshot.jobs.phase
    admitted: Mask = (phase == "Inqueue") | (phase == "Running") | (phase == "Unknown")
    return jobs.grouped & ((admitted & ~snapshot.blocked) | jobs.counts[HOLDING].any(axis=0))
