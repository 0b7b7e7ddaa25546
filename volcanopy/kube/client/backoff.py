"""Exponential back-off with jitter."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from volcanopy.kube import machine
from volcanopy.kube.client.errors import KubeError, is_outage

T = TypeVar("T")
AFTER_OUTAGE = 5.0
"""Longest pause in seconds between attempts that fail because the server cannot be reached: then work goes on at once."""


class Backoff:
    """Growing, jittered pauses: the n-th is drawn from the upper half of ``base * 2**n`` seconds, ``cap`` at most.

    With a Retry-After of the server the pause is at least that long, plus jitter, so that many clients with the same
    Retry-After do not return at the same moment.
    """

    def __init__(self, rng: Random, base: float, cap: float) -> None:
        self._rng, self._base, self.cap = rng, base, cap
        self.failures = 0

    def next(self, retry_after: float | None = None) -> float:
        """Count a failure and return the pause in seconds."""
        ceiling = min(self.cap, self._base * 2.0 ** min(self.failures, 30))
        self.failures += 1
        pause = self._rng.uniform(ceiling / 2, ceiling)
        if retry_after:
            pause = max(pause, retry_after * self._rng.uniform(1.0, 1.1))
        return pause

    def reset(self) -> None:
        """Start again with a short pause, after a success."""
        self.failures = 0


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request, for ever, until the server answers it; for requests that would otherwise be lost.

    Raises the errors of the server's answer.
    """
    backoff = Backoff(machine.new_random(), 0.1, AFTER_OUTAGE)
    while True:
        try:
            return await call()
        except KubeError as fault:
            if not is_outage(fault):
                raise
        await asyncio.sleep(backoff.next())
