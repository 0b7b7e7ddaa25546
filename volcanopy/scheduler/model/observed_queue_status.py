"""Observed statuses of queues as columns, to write only the fields that differ.

A status is parsed once, when it changes, not once per cycle.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
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
_AMOUNTS = attrgetter(*AMOUNTS)


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

    def with_statuses(self, axis: Axis, queues: Mapping[int, core.Queue]) -> "ObservedStatuses":
        """Return the columns with the statuses of these queues, by their rows."""
        columns = ObservedStatuses._make([column.copy() for column in self])
        for row, queue in queues.items():
            columns._read(axis, row, queue.status)
        return ObservedStatuses._make(map(frozen, columns))

    def _read(self, axis: Axis, row: int, status: core.QueueStatus) -> None:
        for texts, column in zip(_AMOUNTS(status), self.reported[:, :, row], strict=True):
            column[:] = 0
            for resource, text in texts.items():
                if resource in axis.index:
                    column[axis.index[resource]] = _units(resource, text)
        self.reported_share[row] = hundredths(status.share)
        self.credit[:, row] = self.usage[:, row] = self.credit_time[row] = 0
        if status.credit_time is not None:
            self.credit_time[row] = status.credit_time.timestamp()
            for values, texts in ((self.credit[:, row], status.credit), (self.usage[:, row], status.usage)):
                for resource, text in texts.items():
                    if resource in axis.index:
                        values[axis.index[resource]] = seconds(text)


def columns(axis: Axis, queues: Sequence[core.Queue]) -> ObservedStatuses:
    """Return the statuses of these queues as columns."""
    count = len(queues)
    shares, times = np.zeros(count, dtype=np.int64), np.zeros(count)
    amounts, (credit, usage) = np.zeros((len(AMOUNTS), len(axis), count), np.int64), np.zeros((2, len(axis), count))
    return ObservedStatuses(amounts, shares, credit, usage, times).with_statuses(axis, dict(enumerate(queues)))


@lru_cache(maxsize=16384)
def _units(resource: str, text: str) -> int:
    try:
        return quantity.amount(resource, text)
    except quantity.QuantityError:
        return _UNREADABLE  # differs from every amount, so that it is overwritten


@lru_cache(maxsize=1024)
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
