"""The slow and obvious twin of how queues divide a cluster: vessels of one resource, filled level by level, in fractions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Vessel:
    """A queue: what it is guaranteed, the most it may hold, what its own jobs ask for, and the queues below it."""

    name: str
    weight: int = 1
    guarantee: int = 0
    ceiling: int | None = None
    asks: int = 0
    below: list["Vessel"] = field(default_factory=list)

    @property
    def wants(self) -> int:
        """What the jobs of the queue and of those below it ask for."""
        return self.asks + sum(one.wants for one in self.below)

    @property
    def is_busy(self) -> bool:
        """Whether there are jobs."""
        return self.wants > 0


def filled(total: Fraction, vessels: Sequence[Vessel], most: Fraction | None = None) -> Iterator[tuple[str, Fraction]]:
    """What each queue deserves of a total, and each below it.

    ``most`` is the most that all of them may have together, where that is another amount than the total.
    """
    room = total if most is None else most
    kept = sum((Fraction(one.guarantee) for one in vessels), Fraction(0))
    limits = []
    for one in vessels:
        left = max(room - kept, Fraction(0)) + one.guarantee
        limits.append(left if one.ceiling is None else min(left, Fraction(one.ceiling)))
    least = [min(Fraction(one.guarantee), limit) for one, limit in zip(vessels, limits, strict=True)]
    wants = [max(Fraction(one.wants), Fraction(one.guarantee)) if one.is_busy else Fraction(0) for one in vessels]
    highest = [max(min(request, limit), low) for request, limit, low in zip(wants, limits, least, strict=True)]
    for one, share, limit in zip(
        vessels, level([one.weight for one in vessels], least, highest, total), limits, strict=True
    ):
        yield one.name, share if one.is_busy else Fraction(0)
        if one.below:
            parts = [*one.below, Vessel(f"{one.name}'s own", asks=one.asks)]
            yield from filled(share, parts, limit)


def level(
    weights: Sequence[int], least: Sequence[Fraction], most: Sequence[Fraction], total: Fraction
) -> list[Fraction]:
    """The shares at the one height at which the vessels hold the total; all that fits if there is more, the least if not."""

    def at(height: Fraction) -> list[Fraction]:
        return [min(max(weight * height, low), high) for weight, low, high in zip(weights, least, most, strict=True)]

    if sum(most) <= total:
        return list(most)
    if sum(least) >= total:
        return list(least)
    corners = {Fraction(0)} | {
        Fraction(bound) / weight
        for weight, low, high in zip(weights, least, most, strict=True)
        for bound in (low, high)
    }
    below = max(height for height in corners if sum(at(height)) <= total)
    above = min(height for height in corners if height > below)
    # Between two corners the volume grows evenly with the height.
    low, high = sum(at(below)), sum(at(above))
    return at(below + (above - below) * (total - low) / (high - low))
