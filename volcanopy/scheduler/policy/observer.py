"""The interface through which a caller measures a cycle: its duration, its eviction attempts, the amounts of the queues.

The scheduler has no clock. It reports when a part begins and ends; the caller may read a clock then.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

from volcanopy.scheduler.model.resources import Axis, Floats, Ints
from volcanopy.scheduler.model.snapshot import QueueTable

Part = Literal["open", "plugin", "action", "close"]
"""The parts of a cycle: opening the session (with every plugin), the actions, and closing it."""


@dataclass(frozen=True, eq=False)
class QueueAmounts:
    """(R, Q) amounts of the queues at the end of a cycle, each of a queue with its descendants.

    ``fair_share``, ``limit``, ``borrowed`` and ``share`` are None without a plugin that defines fair shares.
    """

    axis: Axis
    queues: QueueTable
    allocated: Ints
    """Allocated to pods."""
    fair_share: Ints | None
    limit: Ints | None
    """The effective capability; UNLIMITED where there is none."""
    guaranteed: Ints
    """The guarantee, and what the queue does not lend."""
    borrowed: Ints | None
    """Allocated above the fair share."""
    waiting: Ints
    """Requested by pods without a node, and by waiting jobs whose pods do not exist yet."""
    share: Floats | None
    """(Q,): the largest ratio of allocated to fair share; 1 where something is allocated without a fair share."""


class Observer:
    """Receives measurements of a cycle; this base class ignores them. Derive from it and override what is of interest.

    It is called from the thread that decides, and must neither take long nor raise.
    """

    def during(self, part: Part, name: str = "") -> AbstractContextManager[None]:
        """Return a context that spans a part of the cycle; ``name`` is that of the plugin or action."""
        return _NOTHING

    def tried(self, attempts: Mapping[str, int]) -> None:
        """Receive, once a cycle, how many jobs each evicting action made an attempt for, by the action's name."""

    def queues(self, books: QueueAmounts) -> None:
        """Receive, once a cycle, the amounts of the queues at its end."""


_NOTHING = nullcontext()
NO_OBSERVER = Observer()
"""Ignores everything."""
