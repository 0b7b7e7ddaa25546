"""``python -m volcanopy.chaos.wrong_clock SECONDS MODULE ...`` runs a module with a wall clock that is wrong.

All of volcanopy reads its clocks from :mod:`volcanopy.kube.machine`, so that no other program is needed to set one wrong.
"""

import runpy
import sys
from contextvars import ContextVar

from volcanopy.kube import machine


class WrongClock(machine.Machine):
    """The machine with some seconds added to its wall clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def epoch(self) -> float:
        """Return the wrong wall-clock time in seconds since the epoch."""
        return super().epoch() + self._seconds


def main() -> None:
    """Run the module of the command line."""
    _, seconds, module, *arguments = sys.argv
    # As the default and not in this context, so that all threads have it.
    machine.current = ContextVar("machine", default=WrongClock(float(seconds)))  # noqa: B039 - it does not change
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
