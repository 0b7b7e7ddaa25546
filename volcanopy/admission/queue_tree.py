"""The tree of queues, with the change that is judged in it, and with changes that may be on their way.

A queue that is being changed by somebody else at this moment may be as it was or as it will be. What it takes from the
queue above counts at its most, what it gives to those below at its least: then no order of events breaks a sum.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from volcanopy.admission.context import Edit
from volcanopy.api import names
from volcanopy.api.model import Problem
from volcanopy.api.quantity import QuantityError, amount, text
from volcanopy.api.scheduling_read import Queue

Amounts = dict[str, int]
SUMS = ("guarantee", "deserved")
PATHS = {"guarantee": "spec.guarantee.resource", "deserved": "spec.deserved", "capability": "spec.capability"}
_SHOWN = 6


def amounts_of(resources: Mapping[str, str | int | float]) -> Amounts:
    """Base units of a resource list; what is no amount is left out."""
    found: Amounts = {}
    for name, said in resources.items():
        try:
            found[name] = amount(name, said)
        except QuantityError:
            continue
    return found


@dataclass(frozen=True, eq=False)
class Claim:
    """What a queue claims in one of the forms that it may have."""

    queue: Queue

    @property
    def parent(self) -> str:
        """The queue above; the root for what names none; empty for the root."""
        if self.queue.metadata.name == names.ROOT_QUEUE:
            return ""
        return self.queue.spec.parent or names.ROOT_QUEUE

    @cached_property
    def capability(self) -> Amounts:
        """The most that it may hold."""
        return amounts_of(self.queue.spec.capability)

    @cached_property
    def deserved(self) -> Amounts:
        """What it is due."""
        return amounts_of(self.queue.spec.deserved)

    @cached_property
    def guarantee(self) -> Amounts:
        """What it keeps."""
        return amounts_of(self.queue.spec.guarantee.resource)

    def of(self, what: str) -> Amounts:
        """The amounts of this name."""
        found: Amounts = getattr(self, what)
        return found


class Tree:
    """Queues by name, each in the forms that it may have, the last one last."""

    def __init__(self, forms: Mapping[str, list[Claim]]) -> None:
        self._forms = forms
        self._below: defaultdict[str, set[str]] = defaultdict(set)
        for name, claims in forms.items():
            for claim in claims:
                if claim.parent:
                    self._below[claim.parent].add(name)

    @classmethod
    def of(cls, queues: Mapping[str, Queue], edits: Iterable[Edit] = (), change: Edit | None = None) -> "Tree":
        """The tree as it is known, as ``edits`` may have made it, and with ``change`` made."""
        forms = {name: [Claim(queue)] for name, queue in queues.items()}
        for edit in edits:
            if edit.after is not None:
                forms.setdefault(edit.name, []).append(Claim(edit.after))
        if change is not None:
            forms.pop(change.name, None)
            if change.after is not None:
                forms[change.name] = [Claim(change.after)]
        return cls(forms)

    def __contains__(self, name: str) -> bool:
        return name in self._forms

    def children(self, name: str) -> list[str]:
        """The queues right below, by name."""
        return sorted(self._below.get(name, ()))

    def parent(self, name: str) -> str:
        """The queue above; empty for the root and for what is not known."""
        claims = self._forms.get(name)
        return claims[-1].parent if claims else ""

    def above(self, name: str) -> Iterator[str]:
        """The queues above, the nearest first, without the root; ends where a circle closes."""
        seen = {name}
        at = self.parent(name)
        while at and at != names.ROOT_QUEUE and at not in seen:
            yield at
            seen.add(at)
            at = self.parent(at)

    def below(self, name: str) -> Iterator[tuple[int, str]]:
        """Every queue below, with how far below it is; each once."""
        seen, level, depth = {name}, self.children(name), 1
        while level:
            onward = []
            for one in level:
                if one not in seen:
                    seen.add(one)
                    yield depth, one
                    onward += self.children(one)
            level, depth = onward, depth + 1

    def circle(self, name: str) -> str:
        """The way from a queue over those above it back to itself; empty if there is none."""
        way, seen = [name], {name}
        at = self.parent(name)
        while at:
            way.append(at)
            if at == name:
                return " -> ".join(way)
            if at in seen:
                return ""
            seen.add(at)
            at = self.parent(at)
        return ""

    def most(self, name: str, what: str, resource: str) -> int:
        """The most that a queue may claim in any of its forms."""
        return max((claim.of(what).get(resource, 0) for claim in self._forms.get(name, ())), default=0)

    def least(self, name: str, what: str) -> Amounts:
        """What a queue claims in every one of its forms."""
        claims = self._forms.get(name) or ()
        shared: Amounts = {}
        for number, claim in enumerate(claims):
            found = claim.of(what)
            shared = (
                dict(found) if number == 0 else {key: min(shared[key], found[key]) for key in shared & found.keys()}
            )
        return shared

    def limit(self, name: str, resource: str) -> tuple[str, int] | None:
        """The nearest queue above that has a limit of this resource, and the limit."""
        for one in self.above(name):
            limits = [c.capability[resource] for c in self._forms[one] if c.capability.get(resource, 0) > 0]
            if limits:
                return one, min(limits)
        return None

    def _resources(self, found: Iterable[str], what: str) -> list[str]:
        return sorted({key for name in found for claim in self._forms.get(name, ()) for key in claim.of(what)})

    def excesses(self, name: str) -> dict[tuple[str, str, str], tuple[int, Problem]]:
        """Where this queue, its parent and those below it claim more than there is: (queue, what, resource) -> by how much."""
        found: dict[tuple[str, str, str], tuple[int, Problem]] = {}
        for holder in (self.parent(name), name):
            if holder and holder != names.ROOT_QUEUE and holder in self:
                found |= dict(self._sums(holder))
        for one in (name, *(below for _, below in self.below(name))):
            found |= dict(self._limits(one))
        return found

    def _sums(self, holder: str) -> Iterator[tuple[tuple[str, str, str], tuple[int, Problem]]]:
        children = self.children(holder)
        for what in SUMS:
            own = self.least(holder, what)
            for resource in self._resources(children, what):
                parts = {one: self.most(one, what, resource) for one in children}
                total = sum(parts.values())
                if (over := total - own.get(resource, 0)) > 0:
                    says = self._sum_says(holder, what, resource, parts, own.get(resource))
                    yield (holder, what, resource), (over, Problem(f"{PATHS[what]}[{resource}]", says))

    def _sum_says(self, holder: str, what: str, resource: str, parts: Mapping[str, int], own: int | None) -> str:
        shown = [f"{one} {text(resource, units)}" for one, units in parts.items() if units]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        listed = ", ".join(shown[:_SHOWN]) + more
        verb = "keep" if what == "guarantee" else "are due"
        itself = "has none" if own is None else f"has {text(resource, own)}"
        total = text(resource, sum(parts.values()))
        fix = f"lessen theirs, or raise {what} of {holder!r}"
        return (
            f"the queues below {holder!r} {verb} {total} {resource} together ({listed}), and it {itself} itself: {fix}"
        )

    def _limits(self, name: str) -> Iterator[tuple[tuple[str, str, str], tuple[int, Problem]]]:
        for resource in self._resources((name,), "capability"):
            found = self.limit(name, resource)
            own = self.most(name, "capability", resource)
            if found is not None and own > found[1]:
                limit = text(resource, found[1])
                says = f"queue {name!r} could hold {text(resource, own)} {resource}, and {found[0]!r} above it {limit} at most"
                path = f"{PATHS['capability']}[{resource}]"
                yield (name, "capability", resource), (own - found[1], Problem(path, says))
