"""``python chaos/wrong_clock.py SECONDS AFTER MODULE ...`` runs a module with a wall clock that steps once.

All of volcanopy reads its clocks from :mod:`volcanopy.kube.machine`, so that no other program is needed to set one wrong.
"""

import runpy
import sys
import time
from contextvars import ContextVar

from volcanopy.kube import machine


class WrongClock(machine.Machine):
    """The machine with a wall clock that steps by some seconds, `after` seconds from now."""

    def __init__(self, seconds: float, after: float) -> None:
        self._seconds = seconds
        self._step = time.monotonic() + after

    def epoch(self) -> float:
        """Return the wrong wall-clock time in seconds since the epoch."""
        return super().epoch() + (self._seconds if time.monotonic() >= self._step else 0.0)


def main() -> None:
    """Run the module of the command line."""
    _, seconds, after, module, *arguments = sys.argv
    # As the default and not in this context, so that all threads have it.
    machine.current = ContextVar("machine", default=WrongClock(float(seconds), float(after)))  # noqa: B039 - it does not change
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
