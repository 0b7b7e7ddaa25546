"""Growing tables with stable rows, from which the tables of snapshots are copied.

A key keeps its row until it is removed; the row is then reused. Columns are numpy arrays whose last dimension is the row;
those of resources have the resource axis first.

The columns of a snapshot are copies. Once nothing refers to the copy of a column any more, only the rows that changed
since are copied into it, and the next snapshot gets it: so a snapshot costs what changed, not what exists.
"""

from collections.abc import Callable, Hashable, Iterable
from sys import getrefcount
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volcanopy.scheduler.model.resources import Axis, Mask, Rows

K = TypeVar("K", bound=Hashable)
Column = NDArray[Any]
Conversion = Callable[[Column], Column]
_PART = 8
"""A copy of a column is made anew if more than one in so many rows changed."""


class Copies:
    """Read-only copies of columns, by name."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}

    def update(self, live: Iterable[tuple[str, Column]], changes: "Changes") -> None:
        """Make the copies of columns equal to them, where at most these rows differ."""
        columns, rows, places, length = self._columns, changes.rows, changes.places, changes.length
        for name, values in live:
            column = columns.get(name)
            flat = values.ndim == 1
            if (
                rows is None
                or column is None
                or (len(column) != length if flat else column.shape != (len(values), length))
                or (len(rows) and getrefcount(column) != _UNSHARED)
            ):
                columns[name] = changes.whole(name, values)
            elif len(rows):
                newer = values[rows] if flat else values[:, rows]
                convert = changes.conversions.get(name)
                column.flags.writeable = True
                column[..., places] = newer if convert is None else convert(newer)
                column.flags.writeable = False

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]


class Changes:
    """Which rows of a table changed, and how its columns become those of a snapshot."""

    def __init__(self, length: int, rows: Rows | None, order: Rows | None = None, places: Rows | None = None) -> None:
        """``length`` is that of a copy; ``rows`` are None for any. A copy has the rows ``order``, by default the first ones.

        ``places`` are those of the changed rows in it.
        """
        self.length, self.rows = length, rows
        self.places = rows if places is None else places
        self.conversions: dict[str, Conversion] = {}
        """By the name of a column."""
        self._order = order

    def whole(self, name: str, live: Column) -> Column:
        """Return a new copy of a column, which is read-only."""
        values = live[..., : self.length] if self._order is None else live.take(self._order, axis=-1)
        convert = self.conversions.get(name)
        column = values.copy() if convert is None else convert(values)
        column.setflags(write=False)
        return column


def _unshared() -> int:
    columns: dict[str, Column] = {"": np.empty(0)}
    column = columns.get("")
    return getrefcount(column)


_UNSHARED = _unshared()
"""The count of references to a column that only the copies and a local variable have."""


class RowTable(Generic[K]):
    """Rows by key, and named columns that grow with them."""

    def __init__(self, columns: dict[str, tuple[DTypeLike, Any]], per_axis: tuple[str, ...], axis: Axis) -> None:
        """``columns`` gives each plain column's dtype and blank value; ``per_axis`` names (R, rows) int64 columns."""
        self.rows: dict[K, int] = {}
        self.keys: NDArray[np.object_] = np.full(16, None, dtype=object)
        """The key of each row, None where it is free."""
        self.changed: set[int] = set()
        """The rows of which a column changed since the last copies were made."""
        self._copies = Copies()
        self.size = 0
        self._blank = {name: blank for name, (_, blank) in columns.items()}
        self._free: list[int] = []
        self._capacity = len(self.keys)
        self._axis = axis
        self.plain: dict[str, NDArray[Any]] = {
            name: _blank(self._capacity, dtype, blank) for name, (dtype, blank) in columns.items()
        }
        self.amounts: dict[str, NDArray[np.int64]] = {
            name: np.zeros((len(axis), self._capacity), dtype=np.int64) for name in per_axis
        }
        self.counts: dict[str, NDArray[np.int64]] = {}

    def add_counts(self, name: str, kinds: int) -> None:
        """Give the table a (kinds, rows) column of integer counts."""
        self.counts[name] = np.zeros((kinds, self._capacity), dtype=np.int64)

    def row(self, key: K) -> int:
        """Return the row of a key, a blank one for a new key."""
        row = self.rows.get(key)
        if row is None:
            if self._free:
                row = self._free.pop()
            else:
                row = self.size
                self.size += 1
                if row == self._capacity:
                    self._grow()
            self.rows[key] = row
            self.keys[row] = key
            self.changed.add(row)
        return row

    def remove(self, key: K) -> None:
        """Remove a key; its row is blank and can be reused."""
        row = self.rows.pop(key)
        self.keys[row] = None
        self.changed.add(row)
        for name, column in self.plain.items():
            column[row] = self._blank[name]
        for table in (*self.amounts.values(), *self.counts.values()):
            table[:, row] = 0
        self._free.append(row)

    def reset(self, row: int, names: Iterable[str]) -> None:
        """Make some plain columns of a row blank."""
        for name in names:
            self.plain[name][row] = self._blank[name]

    def extend_axis(self, axis: Axis) -> None:
        """Move the amounts to an axis with more names."""
        places = [axis.index[name] for name in self._axis.names]
        for name, table in self.amounts.items():
            wider = np.zeros((len(axis), self._capacity), dtype=np.int64)
            wider[places] = table
            self.amounts[name] = wider
        self._axis = axis

    def copy(self, name: str) -> NDArray[Any]:
        """Return a read-only copy of a column, of the length of the rows in use."""
        table = self.plain.get(name)
        if table is None:
            table = self.amounts[name] if name in self.amounts else self.counts[name]
        column: NDArray[Any] = table[..., : self.size].copy()
        column.setflags(write=False)
        return column

    def take_changes(self, everywhere: bool = False) -> "Changes":
        """Return which rows changed since the last call: any where these are many, or by request."""
        few = not everywhere and len(self.changed) * _PART <= self.size
        rows = np.fromiter(self.changed, dtype=np.intp) if few else None
        self.changed.clear()
        return Changes(self.size, rows)

    def copies(self, changes: Changes) -> Copies:
        """Return read-only copies of all columns and of the keys; ``changes`` are those since the last call."""
        live = (("keys", self.keys), *self.plain.items(), *self.amounts.items(), *self.counts.items())
        self._copies.update(live, changes)
        return self._copies

    def _grow(self) -> None:
        self._capacity *= 2
        longer_keys: NDArray[np.object_] = np.full(self._capacity, None, dtype=object)
        longer_keys[: len(self.keys)] = self.keys
        self.keys = longer_keys
        for name, column in self.plain.items():
            longer = _blank(self._capacity, column.dtype, self._blank[name])
            longer[: len(column)] = column
            self.plain[name] = longer
        for tables in (self.amounts, self.counts):
            for name, table in tables.items():
                wider = np.zeros((table.shape[0], self._capacity), dtype=np.int64)
                wider[:, : table.shape[1]] = table
                tables[name] = wider


def _blank(size: int, dtype: DTypeLike, value: Any) -> NDArray[Any]:
    """Return a column with this value in each row; unlike with ``np.full``, it may be a tuple."""
    column = np.empty(size, dtype=dtype)
    column.fill(value)
    return column


class RowSet:
    """A set of rows with a frozen mask, which is copied only after changes."""

    def __init__(self) -> None:
        self._mask: Mask = np.zeros(16, dtype=np.bool_)
        self._frozen: Mask | None = None

    def __contains__(self, row: int) -> bool:
        return row < len(self._mask) and bool(self._mask[row])

    def __len__(self) -> int:
        return int(np.count_nonzero(self._mask))

    def add(self, row: int) -> None:
        """Add a row."""
        if row >= len(self._mask):
            longer = np.zeros(2 * (row + 1), dtype=np.bool_)
            longer[: len(self._mask)] = self._mask
            self._mask = longer
        self._mask[row] = True
        self._frozen = None

    def discard(self, row: int) -> None:
        """Remove a row, if it is in the set."""
        if row in self:
            self._mask[row] = False
            self._frozen = None

    def mask(self, size: int) -> Mask:
        """Return the read-only (size,) mask; no row in the set is beyond it."""
        if self._frozen is None or len(self._frozen) != size:
            self._frozen = np.zeros(size, dtype=np.bool_)
            known = self._mask[:size]
            self._frozen[: len(known)] = known
            self._frozen.setflags(write=False)
        return self._frozen
