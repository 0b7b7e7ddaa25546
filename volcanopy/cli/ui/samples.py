"""Amounts of the queues over time, in a bounded ring."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime

from volcanopy.api import quantity
from volcanopy.api.core import Queue
from volcanopy.api.model import Json
from volcanopy.api.quantity import QuantityError

PERIOD = 2.0
"""Seconds between two samples."""
_KEPT = 900
_Amounts = tuple[int, int, int | None, int]


class Samples:
    """For each sample: its time, and by queue and resource the allocated amount, fair share, capability and waiting."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._items: deque[tuple[datetime, dict[str, dict[str, _Amounts]]]] = deque(maxlen=kept)

    def add(self, queues: Iterable[Queue], now: datetime) -> None:
        """Add the amounts of all queues."""
        self._items.append((now, {queue.metadata.name: _amounts(queue) for queue in queues}))

    def document(self, resource: str) -> Json:
        """Return the amounts of a resource: times, and by queue one list each of its amounts."""
        names = sorted({name for _, queues in self._items for name in queues})
        nothing: _Amounts = (0, 0, None, 0)
        series = {name: [queues.get(name, {}).get(resource, nothing) for _, queues in self._items] for name in names}
        return {
            "resource": resource,
            "times": [round(time.timestamp()) for time, _ in self._items],
            "queues": {
                name: {
                    "allocated": [row[0] for row in rows],
                    "fairShare": [row[1] for row in rows],
                    "capability": [row[2] for row in rows],
                    "waiting": [row[3] for row in rows],
                }
                for name, rows in series.items()
            },
        }


def _amounts(queue: Queue) -> dict[str, _Amounts]:
    status = queue.status
    try:
        allocated, shares = quantity.amounts(status.allocated), quantity.amounts(status.fair_share)
        limits, waiting = quantity.amounts(queue.spec.capability), quantity.amounts(status.waiting)
    except QuantityError:
        return {}
    names = allocated.keys() | shares.keys() | limits.keys() | waiting.keys()
    return {
        name: (allocated.get(name, 0), shares.get(name, 0), limits.get(name), waiting.get(name, 0)) for name in names
    }
