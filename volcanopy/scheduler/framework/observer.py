"""Who wants to know how a cycle goes: what it spends its time on, what it tries, and what comes of it for the queues.

The scheduler has no clock. It says when something begins and ends, and whoever calls it may look at a clock then.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from volcanopy.scheduler.report.queue_status import Books

Part = Literal["open", "plugin", "action", "close"]
"""What a cycle consists of: opening the session (with every plugin), the actions, and closing it."""


class Observer:
    """Hears how a cycle goes; this one takes no notice. Derive from it and override what is of interest.

    It is called from the thread that decides, and must neither take long nor raise.
    """

    def during(self, part: Part, name: str = "") -> AbstractContextManager[None]:
        """A part of the cycle begins with the block and ends with it; ``name`` is that of the plugin or action."""
        return _NOTHING

    def tried(self, attempts: Mapping[str, int]) -> None:
        """How often each action that evicts has tried to make room for a job, by its name; once a cycle."""

    def queues(self, books: "Books") -> None:
        """What the queues hold, are due, borrow and wait for at the end; once a cycle."""


_NOTHING = nullcontext()
NO_OBSERVER = Observer()
"""Nobody listens."""
