"""Growing tables with stable rows: the incremental store behind a snapshot's frozen ones.

A thing keeps its row for as long as it is known; the row of what is gone is used again. Columns are numpy arrays whose
last dimension is the row; those measured in resources have the axis first.
"""

from collections.abc import Hashable
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
        self.size = 0
        self._blank = {name: blank for name, (_, blank) in columns.items()}
        self._free: list[int] = []
        self._capacity = 16
        self._axis = axis
        self.plain: dict[str, NDArray[Any]] = {
            name: np.full(self._capacity, blank, dtype=dtype) for name, (dtype, blank) in columns.items()
        }
        self.amounts: dict[str, NDArray[np.int64]] = {
            name: np.zeros((len(axis), self._capacity), dtype=np.int64) for name in per_axis
        }
        self.counts: dict[str, NDArray[np.int64]] = {}

    def add_counts(self, name: str, kinds: int) -> None:
        """Give the table a (kinds, rows) column of integer counts."""
        self.counts[name] = np.zeros((kinds, self._capacity), dtype=np.int64)

    def row(self, key: K) -> int:
        """The row of a key, a blank one if it is new."""
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
        return row

    def remove(self, key: K) -> None:
        """Forget a key: its row is blank again and free for another."""
        row = self.rows.pop(key)
        for name, column in self.plain.items():
            column[row] = self._blank[name]
        for table in (*self.amounts.values(), *self.counts.values()):
            table[:, row] = 0
        self._free.append(row)

    def extend_axis(self, axis: Axis) -> None:
        """Move the amounts to an axis with more names."""
        places = [axis.index[name] for name in self._axis.names]
        for name, table in self.amounts.items():
            wider = np.zeros((len(axis), self._capacity), dtype=np.int64)
            wider[places] = table
            self.amounts[name] = wider
        self._axis = axis

    def copy(self, name: str) -> NDArray[Any]:
        """A frozen copy of a column, as long as the rows in use."""
        table = self.plain.get(name)
        if table is None:
            table = self.amounts.get(name, self.counts.get(name))
            assert table is not None, name
            table = table[:, : self.size].copy()
        else:
            table = table[: self.size].copy()
        table.setflags(write=False)
        return table

    def _grow(self) -> None:
        self._capacity *= 2
        for name, column in self.plain.items():
            longer = np.full(self._capacity, self._blank[name], dtype=column.dtype)
            longer[: len(column)] = column
            self.plain[name] = longer
        for tables in (self.amounts, self.counts):
            for name, table in tables.items():
                wider = np.zeros((table.shape[0], self._capacity), dtype=np.int64)
                wider[:, : table.shape[1]] = table
                tables[name] = wider


class RowSet:
    """A set of rows, which a snapshot sees as a mask; freezing it costs a copy if it changed, else nothing."""

    def __init__(self) -> None:
        self._mask: Mask = np.zeros(16, dtype=np.bool_)
        self._frozen: Mask | None = None

    def __contains__(self, row: int) -> bool:
        return row < len(self._mask) and bool(self._mask[row])

    def __len__(self) -> int:
        return int(np.count_nonzero(self._mask))

    def add(self, row: int) -> None:
        """Put a row in."""
        if row >= len(self._mask):
            longer = np.zeros(2 * (row + 1), dtype=np.bool_)
            longer[: len(self._mask)] = self._mask
            self._mask = longer
        self._mask[row] = True
        self._frozen = None

    def discard(self, row: int) -> None:
        """Take a row out, if it is in."""
        if row in self:
            self._mask[row] = False
            self._frozen = None

    def mask(self, size: int) -> Mask:
        """The (size,) mask, which is read-only; no row in the set is beyond it."""
        if self._frozen is None or len(self._frozen) != size:
            self._frozen = np.zeros(size, dtype=np.bool_)
            known = self._mask[:size]
            self._frozen[: len(known)] = known
            self._frozen.setflags(write=False)
        return self._frozen
