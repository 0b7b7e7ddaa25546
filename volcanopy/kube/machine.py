"""Clocks, random numbers and memory of the machine that a process runs on; the edges read them here and nowhere else.

A simulation runs several processes on one event loop, each with its own clocks: it sets another :class:`Machine` in the
context of a process's tasks.
"""

import gc
import os
import socket
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from random import Random


class Machine:
    """The machine as the operating system shows it."""

    def host(self) -> str:
        """Return the host name."""
        return socket.gethostname()

    def monotonic(self) -> float:
        """Return seconds that only increase."""
        return time.monotonic()

    def boottime(self) -> float:
        """Return seconds that continue while the machine sleeps, where the system has such a clock."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()

    def epoch(self) -> float:
        """Return the wall-clock time in seconds since the epoch."""
        return time.time()

    def thread_time(self) -> float:
        """Return the processor time of this thread in seconds."""
        return time.thread_time()

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        return os.urandom(count)


current: ContextVar[Machine] = ContextVar("machine", default=Machine())  # noqa: B039 - it has no state


def host() -> str:
    """Return the host name."""
    return current.get().host()


def monotonic() -> float:
    """Return seconds that only increase."""
    return current.get().monotonic()


def boottime() -> float:
    """Return seconds that continue while the machine sleeps, where the system has such a clock."""
    return current.get().boottime()


def epoch() -> float:
    """Return the wall-clock time in seconds since the epoch."""
    return current.get().epoch()


def thread_time() -> float:
    """Return the processor time of this thread in seconds."""
    return current.get().thread_time()


def utc_now() -> datetime:
    """Return the wall-clock time."""
    return datetime.fromtimestamp(current.get().epoch(), UTC)


def new_random() -> Random:
    """Return a new generator of random numbers."""
    return Random(current.get().random_bytes(16))


def token(count: int = 4) -> str:
    """Return random bytes as hexadecimal text, for names that must be unique."""
    return current.get().random_bytes(count).hex()


_SWITCH_INTERVAL = 0.0005
"""Seconds; 0.005 by default."""


def switch_threads_often() -> None:
    """Let threads that compute give way to others after half a millisecond.

    An event loop waits for that after each request, and the renewal of a Lease dozens of times. On a machine with forty
    processes that compute, each wait takes twenty times as long.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL))


def freeze_garbage_collector() -> None:
    """Exclude the caches, which live long, from garbage collection: it would delay cycles and reviews.

    A cycle of the scheduler creates tens of thousands of objects and drops them all.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
