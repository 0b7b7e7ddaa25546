"""Observed statuses of queues as columns, to write only the fields that differ.

A status is parsed once, when it changes, not once per cycle.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from volcanopy.api import core, quantity
from volcanopy.scheduler.model.resources import Axis, Ints

AMOUNTS = ("allocated", "deserved", "guaranteed", "borrowed", "waiting")
"""The fields of a queue's status that are amounts, in the order of the columns."""
NO_SHARE = -1
"""In a column of shares: no share is reported."""
MOST = 999_999
"""The largest share that is reported, in hundredths."""
_UNREADABLE = -2


def columns(axis: Axis, queues: Sequence[core.Queue]) -> tuple[Ints, Ints]:
    """(5, R, Q) amounts and (Q,) shares of these queues' statuses."""
    amounts = np.zeros((len(AMOUNTS), len(axis), len(queues)), dtype=np.int64)
    shares = np.full(len(queues), NO_SHARE, dtype=np.int64)
    for row, queue in enumerate(queues):
        read(axis, queue.status, amounts[:, :, row])
        shares[row] = hundredths(queue.status.share)
    return amounts, shares


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


def share_text(share: int) -> str:
    """Return the text of a share in hundredths: ``0.42``; empty for NO_SHARE."""
    return "" if share == NO_SHARE else f"{share // 100}.{share % 100:02}"
