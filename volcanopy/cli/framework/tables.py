"""Tables of objects: columns of a kind, printed plain into a pipe and in colour on a terminal."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import indent
from typing import TYPE_CHECKING, Any

from volcanopy.client.durations import since
from volcanopy.client.kinds import readable
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.printable import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_GAP = 3
_MIN_SENTENCE = 30
"""Minimum width of a last column of sentences; on narrower terminals the terminal wraps the lines."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the text of its cell for an object (as its read model) at a time.

    ``wide`` columns are shown with ``-o wide`` only; ``style`` gives the colour of a text; ``sentence`` is for the last
    column, whose text is wrapped on a terminal.
    """

    heading: str
    cell: Callable[[Any, datetime], str]
    wide: bool = False
    style: Callable[[str], str] | None = None
    sentence: bool = False


@dataclass(frozen=True)
class Joined:
    """A column of wide tables that is read from another object: its kind and model, and the object's key for an item."""

    kind: Kind[Json]
    model: type[Any]
    key: Callable[[Any], str]
    heading: str
    cell: Callable[[Any], str]
    before: str
    """The heading of the column that follows."""

    def column(self, objects: Mapping[str, Any]) -> Column:
        """Return the column; items without an object have ``-``."""

        def cell(item: Any, _: datetime) -> str:
            other = objects.get(self.key(item))
            return "-" if other is None else self.cell(other)

        return Column(self.heading, cell, wide=True)


@dataclass(frozen=True)
class View:
    """Columns of a kind, and the read model that their cells are computed from."""

    kind: Kind[Json]
    model: type[Any]
    columns: tuple[Column, ...]
    joined: Joined | None = None

    def items(self, bodies: Iterable[Json]) -> list[Any]:
        """Return the read models of objects, without those that cannot be read."""
        return readable(self.model, bodies)

    def table(
        self,
        *,
        wide: bool = False,
        namespaces: bool = False,
        others: Mapping[str, Any] | None = None,
    ) -> "TableForm":
        """Return the columns to show; ``namespaces`` adds a column for objects of several namespaces.

        ``others`` are the objects of the joined column by ``namespace/name``.
        """
        columns = tuple(column for column in self.columns if wide or not column.wide)
        if wide and self.joined is not None:
            place = [column.heading for column in columns].index(self.joined.before)
            columns = (*columns[:place], self.joined.column(others or {}), *columns[place:])
        columns = (NAMESPACE, *columns) if namespaces and self.kind.namespaced else columns
        return TableForm(columns)


@dataclass(frozen=True)
class TableForm:
    """Columns of one table, whose rows are read models."""

    columns: tuple[Column, ...]

    def cells(self, items: Iterable[Any], now: datetime) -> list[list[str]]:
        """Return the texts, a list for each object."""
        return [[printable(column.cell(item, now)) for column in self.columns] for item in items]

    def plain(self, items: Iterable[Any], now: datetime) -> str:
        """Return the table for a pipe: without colour, nothing truncated or wrapped."""
        return plain_table([column.heading for column in self.columns], self.cells(items, now))

    def rich(self, items: Iterable[Any], now: datetime) -> "Table":
        """Return the table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for column in self.columns:
            table.add_column(column.heading, no_wrap=not column.sentence, overflow="fold")
        for row in self.cells(items, now):
            pairs = zip(self.columns, row, strict=True)
            table.add_row(*(Text(cell, style=column.style(cell) if column.style else "") for column, cell in pairs))
        return table

    def width(self, rows: Sequence[Sequence[str]]) -> int:
        """Return the characters of a line, with the minimum for a sentence."""
        longest = [
            max([len(column.heading), *(len(row[number]) for row in rows)])
            for number, column in enumerate(self.columns)
        ]
        widths = [
            min(_MIN_SENTENCE, width) if column.sentence else width
            for column, width in zip(self.columns, longest, strict=True)
        ]
        return sum(widths) + _GAP * len(widths)


COLOURS = {
    "Pending": "yellow",
    "Running": "cyan",
    "Completed": "green",
    "Failed": "red",
    "Terminated": "red",
    "Aborted": "red",
    "Suspended": "yellow",
}
NAMESPACE = Column("NAMESPACE", lambda item, _: str(item.metadata.namespace))
NAME = Column("NAME", lambda item, _: str(item.metadata.name))
AGE = Column("AGE", lambda item, now: since(item.metadata.creation_timestamp, now))


def phase_style(text: str) -> str:
    """Return the colour of a phase."""
    return COLOURS.get(text, "")


def reason_column(cell: Callable[[Any], str], *, wide: bool = False) -> Column:
    """Return the last column: the sentence why an object waits or failed."""
    return Column("REASON", lambda item, _: " ".join(cell(item).split()), wide, lambda _: "dim", sentence=True)


def coloured() -> bool:
    """Return whether standard output is a terminal on which colour is enabled."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return the columns of the terminal."""
    return shutil.get_terminal_size().columns


def console(min_width: int = 0) -> "Console":
    """Return a console on standard output, as wide as the terminal and at least ``min_width`` characters."""
    from rich.console import Console

    return Console(width=max(terminal_width(), min_width), highlight=False)


def print_table(form: TableForm, items: Sequence[Any], now: datetime) -> None:
    """Print a table to standard output."""
    if not coloured():
        print(form.plain(items, now), flush=True)
        return
    console(form.width(form.cells(items, now))).print(form.rich(items, now), soft_wrap=False)


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for pipes: aligned columns without colour and frame, nothing cut off."""
    lines = [[printable(cell) for cell in line] for line in (headings, *rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(headings))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def table_of(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a small table within a description, indented by two."""
    return indent(plain_table(headings, [[str(cell) for cell in row] for row in rows]), "  ")
