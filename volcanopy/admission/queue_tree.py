"""Tree of queues after the change under review, and the sums and limits that it exceeds."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from volcanopy.api import graphs, names
from volcanopy.api.core import Queue
from volcanopy.api.model import Problem, invalid
from volcanopy.api.quantity import QuantityError, amount, text

Amounts = dict[str, int]
SUMS = ("guarantee", "deserved")
PATHS = {"capability": "spec.capability", "deserved": "spec.deserved", "guarantee": "spec.guarantee.resource"}
_MAX_SHOWN = 6


def amounts_of(resources: Mapping[str, str | int | float]) -> Amounts:
    """Return a resource list in base units, without entries that are not quantities."""
    amounts: Amounts = {}
    for name, value in resources.items():
        try:
            amounts[name] = amount(name, value)
        except QuantityError:
            continue
    return amounts


def parent_of(queue: Queue) -> str:
    """Return the name of the parent of a queue: the root queue by default, empty for the root queue."""
    return "" if queue.metadata.name == names.ROOT_QUEUE else queue.spec.parent or names.ROOT_QUEUE


def amounts_of_queue(queue: Queue, field: str) -> Amounts:
    """Return ``guarantee``, ``deserved`` or ``capability`` of a queue in base units."""
    spec = queue.spec
    return amounts_of(spec.guarantee.resource if field == "guarantee" else getattr(spec, field))


class Tree:
    """Queues by name."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        self._amounts: dict[tuple[str, str], Amounts] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    @cached_property
    def _below(self) -> Mapping[str, list[str]]:
        """The children in the order of their names, by parent."""
        below = defaultdict[str, list[str]](list)
        for name in sorted(self._queues):
            if parent := self.parent(name):
                below[parent].append(name)
        return below

    def children(self, name: str) -> list[str]:
        """Return the names of the child queues."""
        return self._below.get(name, [])

    def parent(self, name: str) -> str:
        """Return the name of the parent; empty for the root queue and unknown queues."""
        return parent_of(self._queues[name]) if name in self._queues else ""

    def above(self, name: str) -> Iterator[str]:
        """Yield the ancestors without the root queue, the parent first, each once."""
        return (queue for queue in graphs.ancestors(self.parent, name) if queue != names.ROOT_QUEUE)

    def below(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield the descendants, each once, with their distance."""
        return ((distance, queue) for queue, distance in graphs.distances(self._below, name).items())

    def cycle(self, name: str) -> str:
        """Return the cycle of parents that contains the queue, as ``a -> b -> a``; empty if there is none."""
        path = [name, *graphs.ancestors(self.parent, name)]
        return " -> ".join([*path, name]) if self.parent(path[-1]) == name else ""

    def amounts(self, name: str, field: str) -> Amounts:
        """Return the amounts of a field of a queue; none if it is unknown."""
        if name not in self._queues:
            return {}
        if (name, field) not in self._amounts:
            self._amounts[name, field] = amounts_of_queue(self._queues[name], field)
        return self._amounts[name, field]

    def limit(self, name: str, resource: str) -> tuple[str, int] | None:
        """Return the nearest ancestor with a capability of this resource, and the amount."""
        for ancestor in self.above(name):
            if (amount := self.amounts(ancestor, "capability").get(resource, 0)) > 0:
                return ancestor, amount
        return None

    def excesses(self, name: str) -> dict[tuple[str, str, str], tuple[int, Problem]]:
        """Return where a changed queue, its parent and its descendants exceed a limit.

        The keys are (queue, field, resource), the values the excess and the problem in the terms of the changed queue.
        """
        excesses: dict[tuple[str, str, str], tuple[int, Problem]] = {}
        for parent in (self.parent(name), name):
            if parent and parent != names.ROOT_QUEUE and parent in self:
                excesses |= dict(self._sums(parent, name))
        for queue in (name, *(below for _, below in self.below(name))):
            excesses |= dict(self._limits(queue, name))
        return excesses

    def _sums(self, parent: str, target: str) -> Iterator[tuple[tuple[str, str, str], tuple[int, Problem]]]:
        children = self.children(parent)
        for field in SUMS:
            for resource in sorted({key for child in children for key in self.amounts(child, field)}):
                parts = {child: self.amounts(child, field).get(resource, 0) for child in children}
                most = self.amounts(parent, field).get(resource, 0)
                if (excess := sum(parts.values()) - most) > 0:
                    value = text(resource, self.amounts(target, field).get(resource, 0))
                    detail = _sum_message(parent, field, resource, parts, most)
                    yield (parent, field, resource), (excess, invalid(f"{PATHS[field]}[{resource}]", value, detail))

    def _limits(self, name: str, target: str) -> Iterator[tuple[tuple[str, str, str], tuple[int, Problem]]]:
        for resource, maximum in sorted(self.amounts(name, "capability").items()):
            limit = self.limit(name, resource)
            if limit is not None and maximum > limit[1]:
                problem = self._limit_problem(resource, (name, maximum), limit, target)
                yield (name, "capability", resource), (maximum - limit[1], problem)

    def _limit_problem(self, resource: str, queue: tuple[str, int], limit: tuple[str, int], target: str) -> Problem:
        path = f"{PATHS['capability']}[{resource}]"
        (name, amount), (ancestor, most) = ((queue_name, text(resource, units)) for queue_name, units in (queue, limit))
        if name == target:
            return invalid(path, amount, f'must not be greater than the capability of ancestor "{ancestor}" ({most})')
        if ancestor == target:
            return invalid(path, most, f'must not be less than the capability of descendant "{name}" ({amount})')
        limit_text = f'must not be greater than that of "{ancestor}" ({most})'
        detail = f'{resource} capability of descendant "{name}" ({amount}) {limit_text}'
        return invalid("spec.parent", self.parent(target), detail)


def _sum_message(parent: str, field: str, resource: str, parts: Mapping[str, int], most: int) -> str:
    child_texts = [f"{child} {text(resource, units)}" for child, units in parts.items() if units]
    more = f" and {len(child_texts) - _MAX_SHOWN} more" if len(child_texts) > _MAX_SHOWN else ""
    children, total = ", ".join(child_texts[:_MAX_SHOWN]) + more, text(resource, sum(parts.values()))
    limit = f'must not be greater than {field} of parent "{parent}" ({text(resource, most)})'
    return f"sum of {field} of the child queues ({total}: {children}) {limit}"
