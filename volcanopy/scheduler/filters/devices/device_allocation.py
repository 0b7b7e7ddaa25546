"""Devices for claims on one node: the first assignment in order that satisfies every request and every constraint.

Requests choose in turn, and when one finds nothing the ones before it choose otherwise: if there is an assignment, it is
found, unless that takes more than :data:`EFFORT` steps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from volcanopy.api import devices
from volcanopy.scheduler.filters.devices.device_inventory import Item, Suitable
from volcanopy.scheduler.model.claim_tables import DeviceId

EFFORT = 20_000
"""Devices that are tried at most for the claims of one pod on one node."""
Find = Callable[[devices.ExactRequest], Suitable]
"""The devices of the node that suit a request."""


@dataclass(frozen=True)
class DeviceRequest:
    """One request of one claim: what may satisfy it, the best first, each under the name that results carry."""

    claim: int
    options: tuple[tuple[str, devices.ExactRequest], ...]


@dataclass(frozen=True)
class AllocatedDevice:
    """A device that a request was given."""

    claim: int
    name: str
    request: devices.ExactRequest
    item: Item


class _BudgetExceededError(Exception):
    """The steps are used up."""


def asks(claims: Sequence[devices.ResourceClaim]) -> list[DeviceRequest]:
    """The requests of all claims, in order."""
    result = []
    for number, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            if request.first_available:
                options = tuple((f"{request.name}/{one.name}", one) for one in request.first_available)
            else:
                options = ((request.name, request.exactly or request),)
            result.append(DeviceRequest(number, options))
    return result


def allocate(
    claims: Sequence[devices.ResourceClaim], find: Find, is_free: Callable[[DeviceId], bool]
) -> tuple[list[AllocatedDevice] | None, str]:
    """A device for everything that unallocated claims ask for, or None with the fault that kept from looking, if any."""
    search = _Search(claims, find, is_free)
    try:
        return (search.given, "") if search.place(0) else (None, search.fault)
    except _BudgetExceededError:
        return None, "there are too many ways to share out the devices: fewer requests in one pod would help"


class _Search:
    def __init__(
        self, claims: Sequence[devices.ResourceClaim], find: Find, is_free: Callable[[DeviceId], bool]
    ) -> None:
        self._asks = asks(claims)
        self._constraints = [claim.spec.devices.constraints for claim in claims]
        self._find, self._is_free = find, is_free
        self._used: set[DeviceId] = set()
        self._had: set[tuple[int, DeviceId]] = set()
        self._steps = 0
        self.given: list[AllocatedDevice] = []
        self.fault = ""

    def place(self, number: int) -> bool:
        """Satisfy the requests from this one on."""
        if number == len(self._asks):
            return True
        ask = self._asks[number]
        for name, request in ask.options:
            suitable = self._find(request)
            if suitable.fault:
                self.fault = suitable.fault
                return False
            if request.allocation_mode == "All":
                if self._take_all(number, name, request, suitable.items):
                    return True
            else:
                items = [item for item in suitable.items if item.whole]
                requested = max(request.count, 1)
                if len(items) >= requested and self._take(number, name, request, items, 0, requested):
                    return True
        return False

    def _take_all(self, number: int, name: str, request: devices.ExactRequest, items: Sequence[Item]) -> bool:
        before = len(self.given)
        for item in items:
            if not item.whole or not self._try(number, name, request, item):
                break
        else:
            if items and self.place(number + 1):
                return True
        while len(self.given) > before:
            self._give_back()
        return False

    def _take(
        self, number: int, name: str, request: devices.ExactRequest, items: Sequence[Item], start: int, left: int
    ) -> bool:
        """Devices of one request are interchangeable: they are taken in order, so that none is tried twice."""
        if not left:
            return self.place(number + 1)
        for place in range(start, len(items) - left + 1):
            if self._try(number, name, request, items[place]):
                if self._take(number, name, request, items, place + 1, left - 1):
                    return True
                self._give_back()
        return False

    def _try(self, number: int, name: str, request: devices.ExactRequest, item: Item) -> bool:
        self._steps += 1
        if self._steps > EFFORT:
            raise _BudgetExceededError
        claim = self._asks[number].claim
        if not request.admin_access and (item.id in self._used or not self._is_free(item.id)):
            return False
        if (claim, item.id) in self._had:
            return False
        one = AllocatedDevice(claim, name, request, item)
        if not self._agrees(one):
            return False
        self.given.append(one)
        self._had.add((claim, item.id))
        if not request.admin_access:
            self._used.add(item.id)
        return True

    def _give_back(self) -> None:
        one = self.given.pop()
        self._had.discard((one.claim, one.item.id))
        if not one.request.admin_access:
            self._used.discard(one.item.id)

    def _agrees(self, one: AllocatedDevice) -> bool:
        """Whether a device goes with those that were given already, as the claim's constraints say."""
        for constraint in self._constraints[one.claim]:
            if not _concerns(constraint, one.name):
                continue
            name = constraint.match_attribute or constraint.distinct_attribute
            if name is None:
                continue
            own = one.item.attribute(name)
            if own is None:
                return False
            others = self._others(constraint, one.claim, name)
            if constraint.match_attribute is not None:
                if any(other != own for other in others):
                    return False
            elif any(other == own for other in others):
                return False
        return True

    def _others(self, constraint: devices.DeviceConstraint, claim: int, name: str) -> Iterator[object]:
        for other in self.given:
            if other.claim == claim and _concerns(constraint, other.name):
                yield other.item.attribute(name)


def _concerns(constraint: devices.DeviceConstraint, request: str) -> bool:
    """Whether a constraint is about a request: it names it, or one of its alternatives, or none at all."""
    named = constraint.requests
    return not named or request in named or request.partition("/")[0] in named
