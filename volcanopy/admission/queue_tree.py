"""Tree of queues with the change under review and with concurrent changes that may not be observed yet.

A queue with a concurrent change has more than one version. Its claims on the parent count at their maximum, its amounts for
children at their minimum, so that the sums are valid in every order of events.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from volcanopy.admission.context import Edit
from volcanopy.api import graphs, names
from volcanopy.api.core import Queue
from volcanopy.api.model import Problem, invalid
from volcanopy.api.quantity import QuantityError, amount, text

Amounts = dict[str, int]
SUMS = ("guarantee", "deserved")
PATHS = {"guarantee": "spec.guarantee.resource", "deserved": "spec.deserved", "capability": "spec.capability"}
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


@dataclass(frozen=True, eq=False)
class Claim:
    """Resources and parent of one version of a queue."""

    queue: Queue

    @property
    def parent(self) -> str:
        """Name of the parent: the root queue by default, empty for the root queue."""
        if self.queue.metadata.name == names.ROOT_QUEUE:
            return ""
        return self.queue.spec.parent or names.ROOT_QUEUE

    @cached_property
    def capability(self) -> Amounts:
        """Capability in base units."""
        return amounts_of(self.queue.spec.capability)

    @cached_property
    def deserved(self) -> Amounts:
        """Deserved resources in base units."""
        return amounts_of(self.queue.spec.deserved)

    @cached_property
    def guarantee(self) -> Amounts:
        """Guarantee in base units."""
        return amounts_of(self.queue.spec.guarantee.resource)

    def of(self, field: str) -> Amounts:
        """Return the amounts of ``guarantee``, ``deserved`` or ``capability``."""
        amounts: Amounts = getattr(self, field)
        return amounts


class Tree:
    """Queues by name, each with its versions, the newest last."""

    def __init__(self, versions: Mapping[str, list[Claim]]) -> None:
        self._versions = versions

    @classmethod
    def of(cls, queues: Mapping[str, Queue], edits: Iterable[Edit] = (), change: Edit | None = None) -> "Tree":
        """Return the tree of the observed queues with the versions of ``edits``, after ``change``."""
        versions = {name: [Claim(queue)] for name, queue in queues.items()}
        for edit in edits:
            if edit.after is not None:
                versions.setdefault(edit.name, []).append(Claim(edit.after))
        if change is not None:
            versions.pop(change.name, None)
            if change.after is not None:
                versions[change.name] = [Claim(change.after)]
        return cls(versions)

    def __contains__(self, name: str) -> bool:
        return name in self._versions

    @cached_property
    def _below(self) -> graphs.Graph:
        """Edges from the parents in all versions to their children, by name."""
        parents = ((claim.parent, name) for name in sorted(self._versions) for claim in self._versions[name])
        return graphs.graph((parent, name) for parent, name in parents if parent)

    @cached_property
    def _above(self) -> graphs.Graph:
        """Edges from queues to their parents in the newest version."""
        parents = ((name, self.parent(name)) for name in self._versions)
        return graphs.graph((name, parent) for name, parent in parents if parent)

    def children(self, name: str) -> list[str]:
        """Return the names of the child queues."""
        return graphs.children(self._below, name)

    def parent(self, name: str) -> str:
        """Return the name of the parent; empty for the root queue and unknown queues."""
        claims = self._versions.get(name)
        return claims[-1].parent if claims else ""

    def above(self, name: str) -> Iterator[str]:
        """Yield the ancestors without the root queue, the parent first, each once."""
        return (queue for queue in graphs.distances(self._above, name) if queue != names.ROOT_QUEUE)

    def below(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield the descendants, each once, with their distance."""
        return ((distance, queue) for queue, distance in graphs.distances(self._below, name).items())

    def cycle(self, name: str) -> str:
        """Return the cycle of parents that contains the queue, as ``a -> b -> a``; empty if there is none."""
        return graphs.cycle(self._above, name) if name in self._above else ""

    def maximum(self, name: str, field: str, resource: str) -> int:
        """Return the largest amount in any version of a queue."""
        return max((claim.of(field).get(resource, 0) for claim in self._versions.get(name, ())), default=0)

    def minimum(self, name: str, field: str) -> Amounts:
        """Return the amounts that every version of a queue has."""
        claims = self._versions.get(name) or ()
        shared: Amounts = {}
        for number, amounts in enumerate(claim.of(field) for claim in claims):
            shared = (
                {key: min(shared[key], amounts[key]) for key in shared & amounts.keys()} if number else dict(amounts)
            )
        return shared

    def limit(self, name: str, resource: str) -> tuple[str, int] | None:
        """Return the nearest ancestor with a capability of this resource, and the amount."""
        for ancestor in self.above(name):
            claims = self._versions[ancestor]
            limits = [claim.capability[resource] for claim in claims if claim.capability.get(resource, 0) > 0]
            if limits:
                return ancestor, min(limits)
        return None

    def _resources(self, queues: Iterable[str], field: str) -> list[str]:
        return sorted({key for name in queues for claim in self._versions.get(name, ()) for key in claim.of(field)})

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
            minimum = self.minimum(parent, field)
            for resource in self._resources(children, field):
                parts = {child: self.maximum(child, field, resource) for child in children}
                if (excess := sum(parts.values()) - minimum.get(resource, 0)) > 0:
                    value = text(resource, self.maximum(target, field, resource))
                    detail = _sum_message(parent, field, resource, parts, minimum.get(resource, 0))
                    yield (parent, field, resource), (excess, invalid(f"{PATHS[field]}[{resource}]", value, detail))

    def _limits(self, name: str, target: str) -> Iterator[tuple[tuple[str, str, str], tuple[int, Problem]]]:
        for resource in self._resources((name,), "capability"):
            limit = self.limit(name, resource)
            maximum = self.maximum(name, "capability", resource)
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


def _sum_message(parent: str, field: str, resource: str, parts: Mapping[str, int], minimum: int) -> str:
    child_texts = [f"{child} {text(resource, units)}" for child, units in parts.items() if units]
    more = f" and {len(child_texts) - _MAX_SHOWN} more" if len(child_texts) > _MAX_SHOWN else ""
    children, total = ", ".join(child_texts[:_MAX_SHOWN]) + more, text(resource, sum(parts.values()))
    limit = f'must not be greater than {field} of parent "{parent}" ({text(resource, minimum)})'
    return f"sum of {field} of the child queues ({total}: {children}) {limit}"
