"""Cache of values computed from the nodes' traits alone, kept across cycles until the traits change."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from volcanopy.scheduler.model.snapshot import NodeTraits, ShapeTable

V = TypeVar("V")
LIMIT = 1024
"""The maximum number of values of one kind, evicted in order of insertion. A mask over 5,000 nodes has 5 kB."""


def cached(traits: NodeTraits, kind: str, key: Hashable, compute: Callable[[], V]) -> V:
    """Return the value of this kind for ``key``, computed if it is not cached."""
    values: dict[Hashable, V] = traits.memo.setdefault(kind, {})
    if key not in values:
        if len(values) >= LIMIT:
            del values[next(iter(values))]
        values[key] = compute()
    return values[key]


def cached_by_shapes(traits: NodeTraits, kind: str, shapes: ShapeTable, compute: Callable[[], V]) -> V:
    """Return the value computed from the table of shapes, computed again only for another table."""
    entry: tuple[ShapeTable, V] | None = traits.memo.get(kind)
    if entry is None or entry[0] is not shapes:
        entry = traits.memo[kind] = (shapes, compute())
    return entry[1]
