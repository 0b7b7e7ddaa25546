"""Amounts of resources: exact int64 base units on one named axis.

Everything that is counted in a session shares one :class:`Axis`, so that adding, comparing and dividing amounts are
array operations. A table of amounts is column-major: one contiguous run of numbers per resource, which is what the
scheduler walks along. A float appears only as a share or a score.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from volcanopy.api import core, quantity
from volcanopy.scheduler.model.cached_property import cached_property

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
Index = NDArray[np.int32]

A = TypeVar("A", bound=NDArray[Any])

UNLIMITED = 2**62
"""Stands for an absent limit: larger than any amount, small enough that adding to it cannot overflow."""

MOST = 2**60
"""The largest sum of a column: sums of several columns fit an int64 as well."""
_EXACT = 2.0**53
_FEW = 8
"""Up to so many columns are added one by one, which is quicker."""

FIRST = ("cpu", "memory", "pods")
"""The resources that every axis begins with."""


@dataclass(frozen=True)
class Axis:
    """The names of the resources that a session counts, in order: cpu, memory, pods, then the others by name."""

    names: tuple[str, ...] = FIRST
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", {name: position for position, name in enumerate(self.names)})

    @classmethod
    def of(cls, names: Iterable[str]) -> "Axis":
        """The axis of these names beside the first three."""
        return cls(FIRST + tuple(sorted(set(names).difference(FIRST))))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.index

    def vector(self, units: Mapping[str, int]) -> Ints:
        """Base units by name as an (R,) vector; names outside the axis are left out."""
        values = np.zeros(len(self.names), dtype=np.int64)
        for name, value in units.items():
            position = self.index.get(name)
            if position is not None:
                values[position] = value
        return values


@dataclass(eq=False, slots=True)  # not frozen, which makes instances several times as slow to create: there are many
class Resources:
    """One amount of each resource: an (R,) vector with names. Never changed in place."""

    axis: Axis
    values: Ints

    def __getitem__(self, name: str) -> int:
        position = self.axis.index.get(name)
        return 0 if position is None else int(self.values[position])

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(self.axis, self.values + other.values)

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(self.axis, self.values - other.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resources) and self.axis == other.axis and bool((self.values == other.values).all())

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return ", ".join(f"{name} {quantity.text(name, units)}" for name, units in self.items()) or "nothing"

    def texts(self) -> core.Quantities:
        """The amounts that are not zero as a Kubernetes resource list."""
        return {name: quantity.text(name, units) for name, units in self.items()}

    def items(self) -> list[tuple[str, int]]:
        """The amounts that are not zero, by name."""
        return [(name, int(units)) for name, units in zip(self.axis.names, self.values, strict=True) if units]

    def fits_in(self, room: "Resources") -> bool:
        """Whether each amount is at most the other."""
        return bool((self.values <= room.values).all())

    def share_of(self, total: "Resources") -> float:
        """The dominant share: the largest ratio to the total; 1 where something is requested of nothing."""
        return dominant_share(self.values, total.values)


def dominant_share(part: Ints | Floats, total: Ints) -> float:
    """The largest ratio of (R,) part to (R,) total over the resources with a total; what has no total counts 1 when requested."""
    return largest_ratio(part.tolist(), total.tolist())  # R is small: lists are quicker than arrays


def largest_ratio(part: Iterable[float], total: Iterable[int]) -> float:
    """The same of lists."""
    share = 0.0
    for amount, whole in zip(part, total, strict=True):
        if whole > 0:
            share = max(share, float(amount) / whole)
        elif amount > 0:
            share = max(share, 1.0)
    return share


@dataclass(eq=False, slots=True)
class Columns:
    """Amounts of M things: an (R, M) table whose columns are read by resource name. Its fields are never changed."""

    axis: Axis
    values: Ints

    def __getitem__(self, name: str) -> Ints:
        """The (M,) column of one resource; zeros if nothing on the axis has that name."""
        position = self.axis.index.get(name)
        return np.zeros_like(self.at(0)) if position is None else self.at(position)

    def at(self, position: int) -> Ints:
        """The (M,) column of the resource at this position of the axis."""
        return self.values[position]

    def of(self, positions: Sequence[int]) -> Ints:
        """(P, M): the columns of the resources at these positions."""
        return self.values.take(positions, axis=0)

    @property
    def cpu_and_memory(self) -> Ints:
        """(2, M): the first two resources of every axis."""
        return self.values[:2]

    def row(self, position: int) -> Resources:
        """The amounts of one of the M columns."""
        return Resources(self.axis, self.values[:, position])


class Allocatable(Columns):
    """The allocatable amounts of nodes, with what follows from them; the same object as long as they do not change."""

    @cached_property
    def sums(self) -> Ints:
        """(R,): what all nodes together can hand out."""
        return frozen(self.values.sum(axis=1))

    @cached_property
    def largest(self) -> Ints:
        """(R,): the largest amount of a node; 0 without nodes."""
        return frozen(self.values.max(axis=1, initial=0))

    @cached_property
    def everywhere(self) -> tuple[bool, ...]:
        """(R,): of which resources every node has some."""
        return tuple(bool(has_some.all()) for has_some in self.values > 0)


def within_sum(values: Ints) -> Ints:
    """Return (R, N) amounts, with the largest reduced in the rows whose sum is greater than MOST; the same array without any.

    Single amounts are bounded where they are read (:data:`volcanopy.api.quantity.LIMIT`). Thousands of them may still sum up to
    more than an int64. No cluster of real machines comes near.
    """
    if int(values.max(initial=0)) * values.shape[1] <= MOST:  # quicker than sums, and enough for real machines
        return values
    large = values.sum(axis=1, dtype=np.float64) > MOST
    if large.any():
        values = values.copy()
        values[large] = np.clip(values[large], 0, MOST // values.shape[1])
    return values


def sums_by(owners: NDArray[np.integer[Any]], amounts: Ints, count: int) -> Ints:
    """(R, count): the sums of (R, M) amounts by the number, from 0, of the owner of each of the M columns."""
    sums = np.zeros((len(amounts), count), dtype=np.int64)
    if amounts.shape[1] <= _FEW:
        for column, owner in enumerate(owners.tolist()):
            sums[:, owner] += amounts[:, column]
        return sums
    if max(int(amounts.max(initial=0)), -int(amounts.min(initial=0))) * amounts.shape[1] < _EXACT:
        # Sums below 2**53 are exact as floats, and several times as fast.
        for total, row in zip(sums, amounts, strict=True):
            total[:] = np.bincount(owners, row, count)
        return sums
    for total, row in zip(sums, amounts, strict=True):
        np.add.at(total, owners, row)
    return sums


def table_of(axis: Axis, lists: Sequence[core.Quantities], absent: int) -> tuple[Ints, Mask]:
    """(R, M): the amounts of M resource lists, at most UNLIMITED, and where they are given."""
    values = np.full((len(axis), len(lists)), absent, dtype=np.int64)
    given = np.zeros(values.shape, dtype=np.bool_)
    for row, resources in enumerate(lists):
        for name, units in quantity.bounded(quantity.amounts(resources), UNLIMITED).items():
            values[axis.index[name], row] = units
            given[axis.index[name], row] = True
    return values, given


def frozen(array: A) -> A:
    """Make an array read-only, as tables of a snapshot are, and return it."""
    array.setflags(write=False)
    return array
