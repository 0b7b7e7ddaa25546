"""How a kind of object is shown: its columns, and tables of them, plain in a pipe and in colour on a terminal."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from volcanopy.cli.framework.durations import age
from volcanopy.cli.framework.kinds import key_of
from volcanopy.cli.render import COLOURS, plain_table
from volcanopy.kube.client.kinds import Json, Kind

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_GAP = 3
_LEAST = 30
"""Characters that a last column of sentences has at least: a narrower terminal breaks the lines itself."""


@dataclass(frozen=True)
class Column:
    """One column: its heading, and its text for an object at a moment.

    ``wide`` columns are shown with ``-o wide`` only; ``style`` gives the colour of a text; ``sentence`` is for the last
    column, whose text is folded on a terminal.
    """

    heading: str
    cell: Callable[[Json, datetime], str]
    wide: bool = False
    style: Callable[[str], str] | None = None
    sentence: bool = False


@dataclass(frozen=True)
class View:
    """How the objects of a kind are shown."""

    kind: Kind[Json]
    columns: tuple[Column, ...]

    def table(self, *, wide: bool = False, namespaces: bool = False, headings: bool = True) -> "TableForm":
        """The columns that are wanted; ``namespaces`` for objects of several of them."""
        columns = tuple(one for one in self.columns if wide or not one.wide)
        return TableForm((NAMESPACE, *columns) if namespaces and self.kind.namespaced else columns, headings)


@dataclass(frozen=True)
class TableForm:
    """The columns of one table."""

    columns: tuple[Column, ...]
    headings: bool = True

    def cells(self, bodies: Iterable[Json], now: datetime) -> list[list[str]]:
        """The texts, a list for each object."""
        return [[one.cell(body, now) for one in self.columns] for body in bodies]

    def plain(self, bodies: Iterable[Json], now: datetime) -> str:
        """The table as a pipe wants it: no colour, nothing cut off or folded."""
        rows = self.cells(bodies, now)
        text = plain_table([one.heading for one in self.columns], rows)
        return text if self.headings else text.partition("\n")[2]

    def rich(self, bodies: Iterable[Json], now: datetime) -> "Table":
        """The table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold", show_header=self.headings)
        for one in self.columns:
            table.add_column(one.heading, no_wrap=not one.sentence, overflow="fold")
        for row in self.cells(bodies, now):
            table.add_row(
                *(
                    Text(cell, style=one.style(cell) if one.style else "")
                    for one, cell in zip(self.columns, row, strict=True)
                )
            )
        return table

    def width(self, rows: Sequence[Sequence[str]]) -> int:
        """Characters that a line needs, with the least for a sentence."""
        widths = [
            min(_LEAST, longest) if one.sentence else longest
            for number, one in enumerate(self.columns)
            if (longest := max([len(one.heading), *(len(row[number]) for row in rows)])) is not None
        ]
        return sum(widths) + _GAP * len(widths)


NAMESPACE = Column("NAMESPACE", lambda body, _: key_of(body).namespace)
NAME = Column("NAME", lambda body, _: key_of(body).name)
AGE = Column("AGE", age)


def phase_style(text: str) -> str:
    """The colour of a phase."""
    return COLOURS.get(text, "")


def wait_style(_: str) -> str:
    """The colour of a sentence about why something waits."""
    return "dim"


def coloured() -> bool:
    """Whether standard output is a terminal for which colour is wanted."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(least: int = 0) -> "Console":
    """A console on standard output, as wide as the terminal, and at least so many characters."""
    from rich.console import Console

    columns = shutil.get_terminal_size().columns
    return Console(width=max(columns, least), highlight=False)


def print_table(form: TableForm, bodies: Sequence[Json], now: datetime) -> None:
    """Print a table as standard output wants it."""
    if not coloured():
        print(form.plain(bodies, now), flush=True)
        return
    least = form.width(form.cells(bodies, now))
    console(least).print(form.rich(bodies, now), soft_wrap=False)


def table_of(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A small table within a description, indented by two."""
    text = plain_table(headings, [[str(cell) for cell in row] for row in rows])
    return "\n".join(f"  {line}" for line in text.splitlines())
