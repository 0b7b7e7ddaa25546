"""Growing tables with stable rows, from which the tables of snapshots are copied.

A key keeps its row until it is removed; the row is then reused. Columns are numpy arrays whose last dimension is the row;
those of resources have the resource axis first.

The columns of a snapshot are copies. Once nothing refers to the copy of a column any more, only the rows that changed
since are copied into it, and the next snapshot gets it: so a snapshot costs what changed, not what exists. Plain columns of
one dtype are the rows of one array, so that a changed row is copied once for each dtype.
"""

from collections.abc import Hashable, Iterable, Mapping
from sys import getrefcount
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volcanopy.scheduler.model.resources import Axis, Rows, frozen

K = TypeVar("K", bound=Hashable)
Column = NDArray[Any]
_KEYS = "keys"
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PART = 8
"""A copy of a column is made anew if more than one in so many rows changed."""


class Changes:
    """Which rows of a table changed, and how its columns become those of a snapshot."""

    def __init__(self, length: int, rows: Rows | None, order: Rows | None = None, places: Rows | None = None) -> None:
        """``length`` is that of a copy; ``rows`` are None for any. A copy has the rows ``order``, by default the first ones.

        ``places`` are those of the changed rows in it.
        """
        self.length, self.rows = length, rows
        self.places = rows if places is None else places
        self.conversions: dict[str, tuple[list[int], Column]] = {}
        """By the name of an array of columns: those of its rows that are indices, each into the second array instead."""
        self._order = order

    def copy(self, live: Iterable[tuple[str, Column]], columns: dict[str, Column]) -> None:
        """Make read-only copies of columns, by name, equal to them, where at most these rows differ."""
        rows, any_changed = self.rows, self.rows is None or len(self.rows) > 0
        for name, values in live:
            column = columns.get(name)
            if (
                rows is None
                or column is None
                or column.shape != (*values.shape[:-1], self.length)
                or (any_changed and getrefcount(column) != _UNSHARED)
            ):
                columns[name] = self.whole(name, values)
            elif any_changed:
                column.flags.writeable = True
                newer = values.take(rows, axis=-1)  # several times as fast as an index
                column[..., self.places] = self.converted(name, newer) if self.conversions else newer
                column.flags.writeable = False

    def whole(self, name: str, live: Column) -> Column:
        """Return a new copy of a column, which is read-only."""
        values = live[..., : self.length] if self._order is None else live.take(self._order, axis=-1)
        return frozen(self.converted(name, values.copy()))

    def converted(self, name: str, copy: Column) -> Column:
        """Convert a copy of values of this column, and return it."""
        conversion = self.conversions.get(name)
        if conversion is not None:
            rows, entries = conversion
            copy[rows] = entries[copy[rows]]
        return copy


def _unshared() -> int:
    columns: dict[str, Column] = {"": np.empty(0)}
    column = columns.get("")
    return getrefcount(column)


_UNSHARED = _unshared()
"""The count of references to a column that only the copies and a local variable have."""


class RowTable(Generic[K]):
    """Rows by key, and named columns that grow with them."""

    def __init__(
        self,
        columns: dict[str, tuple[DTypeLike, Any]],
        axis: Axis,
        per_axis: tuple[str, ...] = (),
        counts: Mapping[str, int] = _NOTHING,
    ) -> None:
        """``columns`` gives each plain column's dtype and blank value; ``per_axis`` names (R, rows) int64 columns.

        ``counts`` are such columns with a number of kinds in place of resources.
        """
        self.rows: dict[K, int] = {}
        self.changed: set[int] = set()
        """The rows of which a column changed since the last copies were made."""
        self._copies: dict[str, Column] = {}
        self.size = 0
        self._blank = {name: blank for name, (_, blank) in columns.items()}
        self._free: list[int] = []
        self._capacity = 16
        self._axis, self._per_axis = axis, per_axis
        self._places: dict[str, tuple[str, int]] = {}
        """The array of each column, and the row of that."""
        blanks: dict[str, list[Any]] = {}
        for name, (dtype, blank) in {_KEYS: (object, None), **columns}.items():
            of_dtype = blanks.setdefault(np.dtype(dtype).name, [])
            self._places[name] = np.dtype(dtype).name, len(of_dtype)
            of_dtype.append(blank)
        self._blanks = {dtype: _column(np.dtype(dtype), values) for dtype, values in blanks.items()}
        self._arrays: dict[str, Column] = {}
        self.plain: dict[str, NDArray[Any]] = {}
        self.keys: NDArray[np.object_]
        """The key of each row, None where it is free."""
        self._lengthen()
        self.amounts: dict[str, NDArray[np.int64]] = {
            name: np.zeros((size, self._capacity), dtype=np.int64)
            for name, size in {**dict.fromkeys(per_axis, len(axis)), **counts}.items()
        }

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
        self.changed.add(row)
        for dtype, array in self._arrays.items():
            array[:, row] = self._blanks[dtype]
        for table in self.amounts.values():
            table[:, row] = 0
        self._free.append(row)

    def reset(self, row: int, names: Iterable[str]) -> None:
        """Make some plain columns of a row blank."""
        for name in names:
            self.plain[name][row] = self._blank[name]

    def extend_axis(self, axis: Axis) -> None:
        """Move the amounts to an axis with more names."""
        places = [axis.index[name] for name in self._axis.names]
        for name in self._per_axis:
            wider = np.zeros((len(axis), self._capacity), dtype=np.int64)
            wider[places] = self.amounts[name]
            self.amounts[name] = wider
        self._axis = axis

    def take_changes(self, everywhere: bool = False) -> "Changes":
        """Return which rows changed since the last call: any where these are many, or by request."""
        few = not everywhere and len(self.changed) * _PART <= self.size
        rows = np.fromiter(self.changed, dtype=np.intp) if few else None
        self.changed.clear()
        return Changes(self.size, rows)

    def copies(self, changes: Changes, entries: Mapping[str, Column] = _NOTHING) -> dict[str, Column]:
        """Return read-only copies of all columns and of the keys; ``changes`` are those since the last call.

        Columns in ``entries`` are indices, in the copies each replaced by that entry of the array.
        """
        for name, array in entries.items():
            dtype, place = self._places[name]
            rows, _ = changes.conversions.get(dtype, ([], array))
            changes.conversions[dtype] = [*rows, place], array
        arrays = self._copies
        changes.copy((*self._arrays.items(), *self.amounts.items()), arrays)
        columns = {name: arrays[dtype][place] for name, (dtype, place) in self._places.items()}
        return columns | {name: arrays[name] for name in self.amounts}

    def _lengthen(self) -> None:
        """Give all plain columns the length of the capacity."""
        for dtype, blanks in self._blanks.items():
            longer = np.empty((len(blanks), self._capacity), dtype=blanks.dtype)
            longer[:] = blanks[:, None]
            shorter = self._arrays.get(dtype)
            if shorter is not None:
                longer[:, : shorter.shape[1]] = shorter
            self._arrays[dtype] = longer
        self.plain.update((name, self._arrays[dtype][place]) for name, (dtype, place) in self._places.items())
        self.keys = self.plain.pop(_KEYS)

    def _grow(self) -> None:
        self._capacity *= 2
        self._lengthen()
        for name, table in self.amounts.items():
            self.amounts[name] = np.concatenate((table, np.zeros_like(table)), axis=1)


def _column(dtype: np.dtype[Any], values: list[Any]) -> Column:
    """Return a column with these values; unlike with ``np.array``, they may be tuples."""
    column = np.empty(len(values), dtype=dtype)
    for row, value in enumerate(values):
        column[row] = value
    return column
