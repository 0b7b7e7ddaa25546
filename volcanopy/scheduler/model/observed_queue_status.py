"""Observed statuses of queues as columns, to write only the fields that differ.

A status is parsed once, when it changes, not once per cycle.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.api.queue_fields import seconds
from volcanopy.scheduler.model.resources import Axis, Floats, Ints, frozen

AMOUNTS = ("allocated", "fair_share", "guaranteed", "borrowed", "waiting")
"""The fields of a queue's status that are amounts, in the order of the columns."""
NO_SHARE = -1
"""In a column of shares: no share is reported."""
MOST = 999_999
"""The largest share that is reported, in hundredths."""
_UNREADABLE = -2


class ObservedStatuses(NamedTuple):
    """The statuses of Q queues as columns."""

    reported: Ints
    """(5, R, Q): the amounts."""
    reported_share: Ints
    """(Q,): the shares, in hundredths."""
    credit: Floats
    """(R, Q): the credits."""
    usage: Floats
    """(R, Q): the usage."""
    credit_time: Floats
    """(Q,): the times of credits and usage, in seconds; 0 without one."""

    def updated(self, rows: Sequence[int], newer: "ObservedStatuses") -> "ObservedStatuses":
        """Return the columns with those of ``newer`` at these rows, which are in order."""
        if len(rows) == len(self.reported_share):
            return newer
        columns = [column.copy() for column in self]
        for column, values in zip(columns, newer, strict=True):
            column[..., rows] = values
        return ObservedStatuses._make(map(frozen, columns))


def columns(axis: Axis, queues: Sequence[core.Queue]) -> ObservedStatuses:
    """Return the statuses of these queues as columns."""
    amounts = np.zeros((len(AMOUNTS), len(axis), len(queues)), dtype=np.int64)
    shares = np.full(len(queues), NO_SHARE, dtype=np.int64)
    credit, usage = np.zeros((2, len(axis), len(queues)), dtype=np.float64)
    times = np.zeros(len(queues), dtype=np.float64)
    for row, queue in enumerate(queues):
        read(axis, queue.status, amounts[:, :, row])
        shares[row] = hundredths(queue.status.share)
        if queue.status.credit_time is not None:
            times[row] = queue.status.credit_time.timestamp()
            for column, texts in ((credit, queue.status.credit), (usage, queue.status.usage)):
                for resource, text in texts.items():
                    if resource in axis.index:
                        column[axis.index[resource], row] = seconds(text)
    return ObservedStatuses._make(map(frozen, (amounts, shares, credit, usage, times)))


def read(axis: Axis, status: core.QueueStatus, into: Ints) -> None:
    """Write one status into its (5, R) columns, which are zero."""
    for name, column in zip(AMOUNTS, into, strict=True):
        amounts: Mapping[str, str] = getattr(status, name)
        for resource, text in amounts.items():
            place = axis.index.get(resource)
            if place is not None:
                column[place] = _units(resource, text)


def _units(resource: str, text: str) -> int:
    try:
        return quantity.amount(resource, text)
    except quantity.QuantityError:
        return _UNREADABLE  # differs from every amount, so that it is overwritten


def hundredths(share: str) -> int:
    """Return a reported share in hundredths; NO_SHARE if there is none."""
    if not share:
        return NO_SHARE
    whole, _, rest = share.partition(".")
    readable = whole.isdecimal() and rest.isdecimal() and len(rest) == 2 and len(whole) < 8
    return int(whole) * 100 + int(rest) if readable else _UNREADABLE


def credit_text(credit: float) -> str:
    """Return the text of a credit, to the microsecond; empty for zero."""
    text = f"{credit:.6f}".rstrip("0").rstrip(".")
    return "" if text in {"0", "-0"} else text


def share_text(share: int) -> str:
    """Return the text of a share in hundredths: ``0.42``; empty for NO_SHARE."""
    return "" if share == NO_SHARE else f"{share // 100}.{share % 100:02}"
