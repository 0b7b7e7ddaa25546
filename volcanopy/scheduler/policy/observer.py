"""The interface through which a caller measures a cycle: its duration, its eviction attempts, the amounts of the queues.

The scheduler has no clock. It reports when a part begins and ends; the caller may read a clock then.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

from volcanopy.scheduler.model.resources import Axis, Floats, Ints
from volcanopy.scheduler.model.snapshot import QueueTable

Part = Literal["open", "plugin", "action", "close"]
"""The parts of a cycle: opening the session (with every plugin), the actions, and closing it."""


class QueueAmounts(Protocol):
    """(R, Q) amounts of the queues at the end of a cycle; None where no plugin defines fair shares."""

    @property
    def axis(self) -> Axis:
        """The resources that are counted."""
        ...

    @property
    def queues(self) -> QueueTable:
        """The queues."""
        ...

    @property
    def allocated(self) -> Ints:
        """Allocated to pods."""
        ...

    @property
    def fair_share(self) -> Ints | None:
        """Fair shares."""
        ...

    @property
    def limit(self) -> Ints | None:
        """Effective capabilities."""
        ...

    @property
    def guaranteed(self) -> Ints:
        """Guarantees."""
        ...

    @property
    def borrowed(self) -> Ints | None:
        """Allocated above the fair share."""
        ...

    @property
    def waiting(self) -> Ints:
        """Requested by pods without a node, and by jobs whose pods do not exist yet."""
        ...

    @property
    def share(self) -> Floats | None:
        """(Q,): the largest ratio of allocated to fair share."""
        ...


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
