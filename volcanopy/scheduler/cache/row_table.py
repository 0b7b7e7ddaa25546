"""Growing tables with stable rows, from which the tables of snapshots are copied.

A key keeps its row until it is removed; the row is then reused. Columns are numpy arrays whose last dimension is the row;
those of resources have the resource axis first.
"""

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volcanopy.scheduler.model.resources import Axis, Mask

K = TypeVar("K", bound=Hashable)


class RowTable(Generic[K]):
    """Rows by key, and named columns that grow with them."""

    def __init__(self, columns: dict[str, tuple[DTypeLike, Any]], per_axis: tuple[str, ...], axis: Axis) -> None:
        """``columns`` gives each plain column's dtype and blank value; ``per_axis`` names (R, rows) int64 columns."""
        self.rows: dict[K, int] = {}
        self.keys: NDArray[np.object_] = np.full(16, None, dtype=object)
        """The key of each row, None where it is free."""
        self._frozen_keys: NDArray[np.object_] | None = None
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
            self._frozen_keys = None
        return row

    def remove(self, key: K) -> None:
        """Remove a key; its row is blank and can be reused."""
        row = self.rows.pop(key)
        self.keys[row] = None
        self._frozen_keys = None
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

    def copies(self, names: Iterable[str]) -> dict[str, NDArray[Any]]:
        """Return read-only copies of plain columns by name, of the length of the rows in use."""
        plain, size = self.plain, self.size
        columns = {name: plain[name][:size].copy() for name in names}
        for column in columns.values():
            column.setflags(write=False)
        return columns

    def copy_of_keys(self) -> NDArray[np.object_]:
        """Return the keys as a read-only column: the same one until a row is added or removed."""
        if self._frozen_keys is None:
            self._frozen_keys = self.keys[: self.size].copy()
            self._frozen_keys.setflags(write=False)
        return self._frozen_keys

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
