"""Progress of long work on standard error: a line for each on a terminal, nothing in a pipe."""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

Text = str | Callable[[], str]
_lock = threading.Lock()
_display: "Progress | None" = None


@contextmanager
def progress(text: Text, part: Callable[[], float] | None = None) -> Iterator[None]:
    """Show a text while the block runs, with the time that it has taken.

    With ``part``, which returns what is done as a number from 0 to 1, also a bar and the remaining time. Blocks of
    several threads and tasks have a line each.
    """
    global _display  # noqa: PLW0603 - a terminal has one display
    if not sys.stderr.isatty():
        yield
        return
    with _lock:
        if _display is None:
            _display = _new_display()
            _display.start()
        display = _display
        task = display.add_task("", total=None if part is None else 1.0, text=text, part=part)
    try:
        yield
    finally:
        with _lock:
            display.remove_task(task)
            if not display.task_ids:
                display.stop()
                _display = None


def _new_display() -> "Progress":
    from rich.console import Console  # noqa: PLC0415 - the imports take 0.1 s, on terminals only
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column  # noqa: PLC0415

    class Display(Progress):
        """Lines that call their functions at each refresh."""

        def get_renderables(self) -> "Iterable[RenderableType]":
            for task in self.tasks:
                text, part = task.fields["text"], task.fields["part"]
                description = text if isinstance(text, str) else text()
                self.update(task.id, description=description, completed=part() if part is not None else None)
            return super().get_renderables()

    class OfPart(ProgressColumn):
        """A column of lines with a part; the text of the others has its space."""

        def __init__(self, column: ProgressColumn) -> None:
            super().__init__()
            self._column = column

        def render(self, task: Task) -> "RenderableType":
            return "" if task.total is None else self._column.render(task)

    return Display(
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        OfPart(BarColumn(20)),
        TimeElapsedColumn(table_column=Column(min_width=7)),
        OfPart(TimeRemainingColumn()),
        console=Console(stderr=True),
        expand=True,
        refresh_per_second=4,
        redirect_stdout=sys.stdout.isatty(),
        transient=True,
    )
