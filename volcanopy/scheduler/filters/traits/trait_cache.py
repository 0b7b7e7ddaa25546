"""Answers that follow from the nodes' traits alone, kept across cycles for as long as the traits hold."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from volcanopy.scheduler.model.snapshot import NodeTraits, ShapeTable

V = TypeVar("V")
LIMIT = 1024
"""How many answers of one kind are kept; the oldest go first. A mask over 5,000 nodes is 5 kB."""


def kept(traits: NodeTraits, kind: str, key: Hashable, make: Callable[[], V]) -> V:
    """The answer of this kind to ``key``, made only if it is not known."""
    answers: dict[Hashable, V] = traits.memo.setdefault(kind, {})
    if key not in answers:
        if len(answers) >= LIMIT:
            del answers[next(iter(answers))]
        answers[key] = make()
    return answers[key]


def kept_of_shapes(traits: NodeTraits, kind: str, shapes: ShapeTable, make: Callable[[], V]) -> V:
    """What follows from the table of shapes, made anew only when there is another table."""
    known: tuple[ShapeTable, V] | None = traits.memo.get(kind)
    if known is None or known[0] is not shapes:
        known = traits.memo[kind] = (shapes, make())
    return known[1]
