"""Progress of a simulation on standard error: a bar on a terminal, nothing in a pipe."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress:
    """A bar while a simulation runs."""

    def __init__(self, runs: int) -> None:
        """``runs`` is the number of runs."""
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
        self._bar = RichProgress(
            *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
        )
        self._shown = sys.stderr.isatty()
        self._task = self._bar.add_task(f"{runs} run{'' if runs == 1 else 's'}", total=1.0)

    def __enter__(self) -> Self:
        if self._shown:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._bar.stop()

    def show(self, part: float) -> None:
        """Show that a part, from 0 to 1, is done."""
        self._bar.update(self._task, completed=part)
