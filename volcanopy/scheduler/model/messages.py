"""Messages about waiting jobs: a sentence, numbers, amounts, and what unblocks the job.

Plugins reject thousands of jobs in a cycle and most rejections are never shown. So a reason may be a
:class:`MessageSource`, a few numbers from which the message is made only for jobs that wait when the session ends.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from volcanopy.api import quantity
from volcanopy.scheduler.model.resources import UNLIMITED

Amounts = tuple[int, ...]
"""One amount of each resource, in base units, in the order of the session's axis."""

_UID = re.compile(r"(?<=[a-z0-9])(?<!/podgroup)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


@dataclass(frozen=True)
class Message:
    """Why a job waits.

    ``text`` is the sentence. ``numbers`` are counts and names by key; ``amounts`` quantities by resource under the keys
    ``requested``, ``allocated``, ``reserved``, ``tentative``, ``limit``, ``available``, ``deserved`` and
    ``borrowingLimit``. ``unblocked_by`` is the least change that lets the job continue, ``blocked_by`` what it waits for
    (``job namespace/name``, ``queue name``).
    """

    text: str
    numbers: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unblocked_by: str = ""
    blocked_by: tuple[str, ...] = ()

    def as_message(self) -> "Message":
        """Return itself."""
        return self


class MessageSource(Protocol):
    """Anything from which a message can be made."""

    def as_message(self) -> Message:
        """Return the message."""
        ...


Reason = str | MessageSource
"""A sentence, a :class:`Message`, or the numbers of one."""


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
    return " and ".join(f"{quantity.text(name, units)} {name}" for name, units in amounts)


def pods_text(count: int) -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return "1 pod" if count == 1 else f"{count} pods"
