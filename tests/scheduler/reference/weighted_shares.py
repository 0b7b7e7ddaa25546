"""Reference implementation of weighted shares of queues: water-filling of one resource, level by level, in fractions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class QueueNode:
    """A queue: guarantee, capability, request of its own jobs, and children."""

    name: str
    weight: int = 1
    guarantee: int = 0
    ceiling: int | None = None
    asks: int = 0
    below: list["QueueNode"] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """The requests of the queue and its descendants, of each descendant at least its guarantee."""
        return self.asks + sum(max(child.requests, child.guarantee) for child in self.below)

    @property
    def is_busy(self) -> bool:
        """Whether there are jobs."""
        return self.asks > 0 or any(child.is_busy for child in self.below)


def shares_of(
    total: Fraction, queues: Sequence[QueueNode], most: Fraction | None = None
) -> Iterator[tuple[str, Fraction]]:
    """Yield the fair share of each queue and its descendants in a total.

    ``most`` is the limit of all queues together, if it differs from the total.
    """
    available = total if most is None else most
    guaranteed = sum((Fraction(item.guarantee) for item in queues), Fraction(0))
    limits = []
    for queue in queues:
        left = max(available - guaranteed, Fraction(0)) + queue.guarantee
        limits.append(left if queue.ceiling is None else min(left, Fraction(queue.ceiling)))
    least = [min(Fraction(item.guarantee), limit) for item, limit in zip(queues, limits, strict=True)]
    requests = [
        max(Fraction(item.requests), Fraction(item.guarantee)) if item.is_busy else Fraction(0) for item in queues
    ]
    highest = [max(min(request, limit), low) for request, limit, low in zip(requests, limits, least, strict=True)]
    for queue, share, limit in zip(
        queues, level([item.weight for item in queues], least, highest, total), limits, strict=True
    ):
        yield queue.name, share if queue.is_busy else Fraction(0)
        if queue.below:
            parts = [*queue.below, QueueNode(f"{queue.name}'s own", asks=queue.asks)]
            yield from shares_of(share, parts, limit)


def level(
    weights: Sequence[int], least: Sequence[Fraction], most: Sequence[Fraction], total: Fraction
) -> list[Fraction]:
    """Return the shares at the level that uses up the total; the limits if it exceeds them, the guarantees if it is below them."""

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
    # Between two corners the sum is linear in the height.
    low, high = sum(at(below)), sum(at(above))
    return at(below + (above - below) * (total - low) / (high - low))
