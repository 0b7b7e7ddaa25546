"""How long to wait before trying again."""

from __future__ import annotations

from random import Random


class Backoff:
    """Growing, jittered pauses: the n-th is drawn from the upper half of ``base * 2**n`` seconds, ``cap`` at most.

    When the server said how long to wait, the pause is that long at least, and a little more by chance, so that many
    clients that were told the same do not come back in the same moment.
    """

    def __init__(self, rng: Random, base: float, cap: float) -> None:
        self._rng, self._base, self._cap = rng, base, cap
        self.failures = 0

    def next(self, retry_after: float | None = None) -> float:
        """The pause after one more failure, in seconds."""
        ceiling = min(self._cap, self._base * 2.0 ** min(self.failures, 30))
        self.failures += 1
        pause = self._rng.uniform(ceiling / 2, ceiling)
        if retry_after:
            pause = max(pause, retry_after * self._rng.uniform(1.0, 1.1))
        return pause

    def reset(self) -> None:
        """It works again: the next pause is short."""
        self.failures = 0
