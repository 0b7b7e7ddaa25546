"""Messages about waiting jobs: a sentence, numbers, amounts, and what unblocks the job.

Plugins reject thousands of jobs in a cycle and most rejections are never shown. So a reason may be a
:class:`MessageSource`, a few numbers from which the message is made only for jobs that wait when the session ends.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

from volcanopy.api import quantity
from volcanopy.api.gates import Gate
from volcanopy.scheduler.model.resources import UNLIMITED, Ints

Amounts = tuple[int, ...]  # One amount of each resource, in base units, in the order of the session's axis.

_UID = re.compile(r"(?<=[a-z0-9])(?<!/podgroup)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


@dataclass(frozen=True)
class Message:
    """Why a job waits.

    ``text`` is the sentence. ``numbers`` are counts and names by key; ``amounts`` quantities by resource under the keys
    ``requested``, ``allocated``, ``reserved``, ``tentative``, ``limit``, ``available``, ``fairShare`` and
    ``borrowingLimit``. ``unblocked_by`` is the least change that lets the job continue, ``blocked_by`` what it waits for
    (``job namespace/name``, ``queue name``).
    """

    text: str
    numbers: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unblocked_by: str = ""
    blocked_by: tuple[str, ...] = ()
    of_gang: bool = False  # Whether the sentence has the number of pods of the gang that can be placed.

    def as_message(self) -> "Message":
        """Return itself."""
        return self


class MessageSource(Protocol):
    """Anything from which a message can be made."""

    def as_message(self) -> Message:
        """Return the message."""


Reason = str | MessageSource  # A sentence, a :class:`Message`, or the numbers of one.


def message_of(reason: Reason) -> Message:
    """Return the message of a reason."""
    return Message(reason) if isinstance(reason, str) else reason.as_message()


def closed(queue: str) -> Message:
    """Return the message about a closed queue."""
    return Message(f'queue "{queue}" is closed', {"queue": queue}, unblocked_by=f'opening queue "{queue}"')


def stopped(queue: str, stopped_by: str, drained: bool) -> Message:
    """Return the message about a queue that is held or drained, by its own stopPolicy or that of a queue above it."""
    state, policy = ("drained", "HoldAndDrain") if drained else ("held", "Hold")
    parent = "" if stopped_by == queue else f' by its ancestor "{stopped_by}"'
    return Message(
        f'queue "{queue}" is {state}{parent}: stopPolicy {policy}',
        {"queue": queue, "stoppedBy": stopped_by},
        unblocked_by=f'resuming queue "{stopped_by}"',
        blocked_by=(f"queue {stopped_by}",),
    )


def evicted_for_queue(queue: str) -> str:
    """The message of the condition ``Evicted``: for which queue pods were evicted."""
    return f'pods were evicted for a job in queue "{queue}"'


def reserved_for(job: str, are_created: bool = True) -> Message:
    """Return the message about resources for a job, given by ``namespace/name``, whose pods exist or are being created."""
    named = f'job "{short(job)}"'
    return Message(
        f"resources are reserved for {named if are_created else f'the pods of {named}, which are being created'}",
        unblocked_by=f'start or deletion of job "{short(job)}"',
        blocked_by=(f"job {job}",),
    )


def missing_queue(queue: str) -> Message:
    """Return the message about a queue that does not exist."""
    return Message(f'queue "{queue}" not found', {"queue": queue}, unblocked_by=f'creating queue "{queue}"')


def not_a_leaf(queue: str) -> Message:
    """Return the message about a queue with child queues, which takes no jobs."""
    unblocked_by = f'submitting the job to a child queue of "{queue}"'
    return Message("not a leaf queue: submit to a child queue", {"queue": queue}, unblocked_by=unblocked_by)


def not_below_root(queue: str) -> Message:
    """Return the message about a queue whose chain of parents does not end at the root queue."""
    text = f'queue "{queue}" is not below the root queue: spec.parent of it or of an ancestor is wrong'
    return Message(text, {"queue": queue}, unblocked_by=f'a spec.parent that puts queue "{queue}" below root')


def blocked_by_head(queue: str, job: str) -> Message:
    """Return the message about a FIFO queue whose first job, given by ``namespace/name``, cannot start."""
    return Message(
        f'queue "{queue}" is FIFO: blocked by head job "{short(job)}"',
        {"queue": queue},
        unblocked_by=f'start of job "{short(job)}"',
        blocked_by=(f"job {job}",),
    )


def short(key: str) -> str:
    """Return ``namespace/name`` without the namespace ``default``."""
    return key.removeprefix("default/")


@lru_cache(maxsize=8192)
def with_job_names(text: str) -> str:
    """Return the text with the names of BatchJobs in place of those of their PodGroups, which end with a uid."""
    return _UID.sub("", text) if "job " in text else text


def quantities(names: tuple[str, ...], amounts: Amounts, counted: Amounts = ()) -> dict[str, str]:
    """Return amounts as quantities by resource, where ``counted`` (else the amount) is not zero and there is a limit."""
    counted = counted or amounts
    return {
        name: quantity.text(name, units)
        for name, units, count in zip(names, amounts, counted, strict=True)
        if count and units < UNLIMITED // 2
    }


def sum_text(amounts: list[tuple[str, int]]) -> str:
    """Return amounts as a text such as ``2 cpu and 1Gi memory``."""
    return " and ".join(f"{quantity.shown(name, units)} {name}" for name, units in amounts)


_NAMED = 3  # The number of queues that a message names one by one.
_GATES = {"share": Gate.SHARE, "cluster": Gate.NODES, "overcommit": Gate.OVERCOMMIT, "limits": Gate.LIMITS}


class QuotaMessage(NamedTuple):
    """A request that exceeds what a limit has left, as numbers. Equal quotas share their message."""

    kind: str
    """``share``, ``capability``, ``overcommit``, ``limits`` (of users, groups and jobs), or ``cluster``: its capacity."""
    queue: str  # The queue that the limit belongs to; empty for ``overcommit``.
    names: tuple[str, ...] = ()  # The resources of the amounts.
    requested: Amounts = ()  # What is requested in addition; empty if the queue as a whole is rejected.
    allocated: Amounts = ()
    limit: Amounts = ()
    reserved: Amounts = ()  # What admitted jobs may still request; empty where a pod is rejected, not a job.
    parts: int = 1  # The number of equal pods that ``requested`` is for: the sentence is about one.
    own: Amounts = ()  # The part of ``allocated`` that the job itself would have if the rest of its gang was placed.
    tentative: Amounts = ()
    """The part of ``allocated`` in which pods of this job were placed before it was rejected; they are not allocated."""
    tentative_pods: int = 0
    gang: int = 0
    """The number of pods that had to be placed together, with the tentatively placed ones; 0 for a pod alone."""
    guaranteed: tuple[tuple[str, Amounts], ...] = ()
    """Other queues with the unused part of their guarantees, if these are the limit."""
    free: Amounts = ()
    """What is allocated to no queue; with ``guaranteed``, and where the request exceeds the total of the cluster."""
    capability: Amounts = ()  # Of a share: the most that may be allocated to the queue.
    cluster: Amounts = ()  # The total of the cluster: a limit that is at least this is the cluster's, not the queue's.
    fair_share: Amounts = ()  # The fair share of a queue with a borrowing limit.
    borrowing: Amounts = ()  # The borrowing limit; without end where something else is the limit.
    subject: str = "queue"  # Of ``limits``: whose limit it is: ``queue`` (all of its jobs), ``user`` or ``group``.
    name: str = ""  # The name of the user or group.
    pool: int = -1  # Of ``limits``: the pool of jobs that share the limit.
    jobs: tuple[int, int] | None = None
    """Of ``limits``: the limit on running jobs and the number of admitted ones; None if the limit is one of amounts."""

    @classmethod
    def overcommit(
        cls, names: tuple[str, ...], requested: Ints, allocated: Ints, reserved: Ints, limit: Ints
    ) -> "QuotaMessage":
        """Return the message about the cluster's overcommit limit, from (R,) columns."""
        more, now, most, admitted = (tuple(column.tolist()) for column in (requested, allocated, limit, reserved))
        return cls("overcommit", "", names, more, now, most, admitted)

    def as_message(self) -> Message:
        """Return the sentence, the amounts and the least that is missing."""
        return _of_jobs(self) if self.jobs is not None else _judged(self)[1]

    @property
    def gate(self) -> Gate:
        """The gate at which the request is rejected."""
        return _judged(self)[0]

    def exceeds_alone(self) -> bool:
        """Return whether the request exceeds the limit even if nothing else is allocated."""
        quota = self.binding()
        return any(quota.requested[dim] > quota.limit[dim] for dim in quota.short)

    def binding(self) -> "QuotaMessage":
        """The same of the limit that binds: a share ends at the capability, and a capability at the cluster's total."""
        quota = self
        if quota.kind == "share" and quota.capability:
            narrower = quota._replace(kind="capability", limit=quota.capability)
            quota = narrower if narrower.short else quota
        if quota.kind != "capability" or quota.reserved or not quota.is_cluster:
            return quota
        allocated = tuple(total - free for total, free in zip(quota.cluster, quota.free, strict=True))
        return quota._replace(kind="cluster", allocated=allocated)

    @property
    def is_cluster(self) -> bool:
        """Whether the exceeded limit is the total of the cluster, and not one of the queue."""
        short = self.short
        own = not self.cluster or any(self.limit[place] < self.cluster[place] for place in short)
        return self.kind == "cluster" or (self.kind == "capability" and bool(short) and not own)

    def of_borrower(self, borrowed: tuple[Ints, Ints] | None) -> "QuotaMessage":
        """The same of a queue with (R,) fair shares and borrowing limits; None if borrowing has no limit."""
        if borrowed is None:
            return self
        fair_share, borrowing = borrowed
        return self._replace(fair_share=tuple(fair_share.tolist()), borrowing=tuple(borrowing.tolist()))

    def placed_tentatively(self, pods: int, amounts: Amounts) -> "QuotaMessage":
        """The same after so many pods of the job were placed with these amounts, and are not any more."""
        return self._replace(tentative=amounts, tentative_pods=pods)

    def borrows(self, place: int) -> bool:
        """Whether the limit of this resource is the borrowing limit."""
        return bool(self.borrowing) and self.fair_share[place] + self.borrowing[place] == self.limit[place]

    @property
    def taken(self) -> Amounts:
        """What is allocated and reserved, by resource."""
        reserved = self.reserved or (0,) * len(self.names)
        return tuple(map(sum, zip(self.allocated, reserved, strict=True)))

    @property
    def short(self) -> list[int]:
        """The resources, without the count of pods, whose limit the request exceeds."""
        columns = enumerate(
            zip(self.names, self.requested, self.taken, self.limit, strict=True) if self.requested else ()
        )
        return [
            place
            for place, (name, more, taken, limit) in columns
            if more > 0 and taken + more > limit and (name != "pods" or self.kind in {"limits", "overcommit"})
        ]

    @property
    def owner(self) -> str:
        """Whose limit it is, as a phrase."""
        if self.subject == "queue":
            return f'queue "{self.queue}"'
        user = f'{self.subject} "{self.name}"' if self.name else "the unknown user"
        return f'{user} in queue "{self.queue}"'


@lru_cache(maxsize=8192)
def _judged(quota: QuotaMessage) -> tuple[Gate, Message]:
    """Return the gate and the message of the limit that binds: many jobs wait for the same, cycle by cycle."""
    binding = quota.binding()
    return _GATES.get(binding.kind, Gate.CAPABILITY), _of_amounts(binding)


@lru_cache(maxsize=8192)
def _of_amounts(quota: QuotaMessage) -> Message:
    short, names = quota.short, quota.names
    counted = quota.requested or quota.limit
    left = (
        max(limit - now, 0) if limit < UNLIMITED else UNLIMITED
        for limit, now in zip(quota.limit, quota.taken, strict=True)
    )
    limited = tuple(int(units < UNLIMITED) for units in quota.borrowing)
    amounts = {
        "requested": quantities(names, quota.requested) if quota.requested else {},
        "allocated": quantities(names, _allocated(quota), counted),
        "reserved": quantities(names, quota.reserved, counted) if quota.reserved else {},
        "tentative": quantities(names, quota.tentative, counted) if quota.tentative_pods else {},
        "limit": quantities(names, tuple(max(units, 0) for units in quota.limit), counted),
        "available": quantities(names, tuple(left), counted),
        "fairShare": quantities(names, quota.fair_share, limited) if quota.fair_share else {},
        "borrowingLimit": quantities(names, quota.borrowing, counted) if quota.borrowing else {},
    }
    return Message(
        _text(quota, short),
        _numbers(quota),
        {key: value for key, value in amounts.items() if value},
        _unblocked_by(quota, short),
        (f"queue {quota.queue}",) if quota.kind in {"share", "capability"} else (),
        bool(quota.gang) and bool(short),
    )


@lru_cache(maxsize=8192)
def _of_jobs(quota: QuotaMessage) -> Message:
    most, admitted = quota.jobs or (0, 0)
    text = f"maxRunningJobs of {quota.owner} reached ({admitted}/{most})"
    over = admitted - most + 1
    jobs = f"jobs of {quota.owner}" if quota.subject != "queue" else f"jobs in {quota.owner}"
    unblocked_by = f"end of {over} {jobs}" if over > 1 else f"end of 1 {jobs.replace('jobs', 'job', 1)}"
    if not most:
        unblocked_by = f"raising maxRunningJobs of {quota.owner}"
    return Message(text, _numbers(quota) | {"limit": str(most), "admitted": str(admitted)}, {}, unblocked_by)


def _numbers(quota: QuotaMessage) -> dict[str, str]:
    if not quota.queue:
        return {}
    return {"queue": quota.queue} | ({quota.subject: quota.name} if quota.subject != "queue" else {})


def _allocated(quota: QuotaMessage) -> Amounts:
    """What is allocated without the pods of this job that were placed tentatively."""
    tentative = quota.tentative or (0,) * len(quota.names)
    return tuple(max(units - part, 0) for units, part in zip(quota.allocated, tentative, strict=True))


def _text(quota: QuotaMessage, short: list[int]) -> str:
    if not short:
        fair_share = quantities(quota.names, quota.limit)
        limit = ", ".join(f"{name} {text}" for name, text in fair_share.items()) or "nothing"
        return f'queue "{quota.queue}" is at its fair share: {limit}'
    place = short[0]
    name = quota.names[place]
    borrows = quota.kind == "capability" and quota.borrows(place)
    guarantees = _guarantees(quota, place)
    limits = [f"{_limit_name(quota)} {quantity.shown(name, quota.limit[place])}"]
    if borrows:
        amounts = [("fair share", quota.fair_share), ("borrowingLimit", quota.borrowing)]
        limits = [f"{key} {quantity.shown(name, units[place])}" for key, units in amounts]
    if guarantees:
        free = quota.free[place] + (quota.tentative[place] if quota.tentative_pods else 0)
        limits = [f"free {quantity.shown(name, free)}", f"guaranteed to {guarantees}"]
    reserved = quota.reserved[place] if quota.reserved else 0
    requested = quota.requested[place] // quota.parts + (quota.own[place] if quota.gang else 0)
    if (quota.is_cluster or quota.kind == "overcommit") and not quota.limit[place]:
        return f"the cluster has no {name}: requested {quantity.shown(name, requested)}, capacity 0"
    if quota.is_cluster and not quota.gang and requested > quota.limit[place]:
        more = quantity.shown(name, requested)
        return f"request exceeds the capacity of the cluster: {name} requested {more}, {limits[0]}"
    numbers = [
        f"requested {quantity.shown(name, requested)}",
        f"allocated {quantity.shown(name, _allocated(quota)[place])}",
        *([f"reserved {quantity.shown(name, reserved)}"] if reserved else []),
        *limits,
    ]
    return f"{_subject(quota, bool(guarantees), borrows)}: {name} {', '.join(numbers)}"


def _subject(quota: QuotaMessage, guarantees: bool, borrows: bool) -> str:
    """Return what is exceeded; for a gang, how many of its pods it covers."""
    owner = quota.owner
    if guarantees:
        covers = "guarantees of other queues leave resources for"
        exceeded = "free resources are guaranteed to other queues"
    elif quota.kind == "share":
        covers, exceeded = f"fair share of {owner} covers", f"{owner} is over its fair share"
    elif quota.is_cluster:
        covers, exceeded = "capacity of the cluster covers", "too little is free in the cluster"
        exceeded = exceeded if quota.kind == "cluster" else f"{owner} has too little left of the cluster"
    elif quota.kind == "capability":
        limit = "borrowing limit" if borrows else "capability"
        covers, exceeded = f"{limit} of {owner} covers", f"{owner} {limit} exceeded"
    else:
        limit = "overcommit limit of the cluster" if quota.kind == "overcommit" else f"resource limit of {owner}"
        covers, exceeded = f"{limit} covers", f"{limit} exceeded"
    return f"{covers} {quota.tentative_pods} of {quota.gang} pods" if quota.gang else exceeded


def _limit_name(quota: QuotaMessage) -> str:
    """Return the name of the limit, as it stands before its amount."""
    if quota.kind in {"limits", "overcommit"}:
        return "limit"
    return "fair share" if quota.kind == "share" else "capacity" if quota.is_cluster else "capability"


def _guarantees(quota: QuotaMessage, place: int) -> str:
    """Return the queues to which resources are guaranteed that they do not use, with the amounts."""
    if quota.kind != "capability":
        return ""
    unused = [(queue, amounts[place]) for queue, amounts in quota.guaranteed if amounts[place] > 0]
    listed = [f'queue "{queue}" {quantity.shown(quota.names[place], units)}' for queue, units in unused[:_NAMED]]
    more = len(unused) - _NAMED
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")


def _unblocked_by(quota: QuotaMessage, short: list[int]) -> str:
    """The least that has to be released; or, where that is never enough, what the limit lacks."""
    if not short:
        return f"released resources of {quota.owner}, or a larger fair share"
    pod = tuple(units // quota.parts for units in quota.requested)
    whole = tuple(map(sum, zip(pod, quota.own, strict=True))) if quota.own else pod
    never = [
        (quota.names[place], whole[place] - quota.limit[place]) for place in short if whole[place] > quota.limit[place]
    ]
    if never:
        return f"{_raised(quota, sum_text(never))}, or a smaller request"
    gaps = [(quota.names[place], quota.taken[place] + pod[place] - quota.limit[place]) for place in short]
    gaps = [(name, gap) for name, gap in gaps if gap > 0]
    if not gaps:  # one more pod passes, the rest of the gang does not
        gaps = [
            (quota.names[place], quota.taken[place] + quota.requested[place] - quota.limit[place]) for place in short
        ]
    text = sum_text(gaps)
    if quota.kind == "overcommit":
        return f"release of {text} by pods or admitted jobs, or {text} more in the cluster"
    if quota.kind == "cluster":
        return f"release of {text} by pods, or {text} more in the cluster"
    by = f"by {quota.owner}" if quota.subject != "queue" else f"in {quota.owner}"
    of_cluster = quota.is_cluster or (quota.kind == "capability" and bool(quota.guaranteed))
    return f"release of {text} {by}" + (f", or {text} more in the cluster" if of_cluster else "")


def _raised(quota: QuotaMessage, missing: str) -> str:
    if quota.is_cluster or quota.kind == "overcommit" or (quota.kind == "capability" and quota.guaranteed):
        return f"{missing} more in the cluster"
    limit = {"share": "fair share", "limits": "resource limit"}.get(quota.kind, "capability")
    return f"raising the {limit} of {quota.owner} by {missing}"
