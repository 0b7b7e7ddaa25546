"""Cache of values computed from the nodes' traits alone, kept across cycles until the traits change."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from volcanopy.scheduler.model.node_traits import NodeTraits
from volcanopy.scheduler.model.snapshot import ShapeTable

V = TypeVar("V")
LIMIT = 1024
"""The usual maximum number of values of one kind, evicted in order of insertion. A mask over 5,000 nodes has 5 kB."""


def cached(traits: NodeTraits, kind: str, key: Hashable, compute: Callable[[], V], limit: int = LIMIT) -> V:
    """Return the value of this kind for ``key``, computed if it is not cached."""
    values: dict[Hashable, V] = traits.memo.setdefault(kind, {})
    if key not in values:
        if len(values) >= limit:
            del values[next(iter(values))]
        values[key] = compute()
    return values[key]


def cached_of_shape(
    traits: NodeTraits, kind: str, shapes: ShapeTable, owner: object, shape: int, compute: Callable[[], tuple[V, bool]]
) -> V:
    """Return what follows from a shape, the traits and an ``owner``, such as arguments, where no shape has terms about pods.

    ``compute`` returns the value, and whether it follows from nothing else: only then it is kept.
    """
    if shapes.with_terms:
        return compute()[0]
    known = cached_by_shapes(traits, kind, shapes, dict[tuple[int, int], tuple[object, V]])
    key = id(owner), shape
    entry = known.get(key)  # with the owner, so that no other object has its number
    if entry is None:
        value, lasts = compute()
        if not lasts:
            return value
        entry = known[key] = owner, value
    return entry[1]


def cached_by_shapes(traits: NodeTraits, kind: str, shapes: ShapeTable, compute: Callable[[], V]) -> V:
    """Return the value computed from the table of shapes, computed again only for another table."""
    entry: tuple[ShapeTable, V] | None = traits.memo.get(kind)
    if entry is None or entry[0] is not shapes:
        entry = traits.memo[kind] = (shapes, compute())
    return entry[1]


def outlasting(traits: NodeTraits, kind: str, key: object, compute: Callable[[], V]) -> V:
    """Return the value of this kind, computed again for another key: it is kept when the traits change."""
    entry: tuple[object, V] | None = traits.lasting.get(kind)
    if entry is None or entry[0] != key:
        entry = traits.lasting[kind] = (key, compute())
    return entry[1]
