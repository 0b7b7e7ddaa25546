"""Allocation of devices to the claims of one pod on one node.

A depth-first search with backtracking over the requests in order: it returns the first allocation that satisfies every
request and constraint, unless that takes more than :data:`MAX_STEPS` steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from volcanopy.api.builtin import devices
from volcanopy.scheduler.model.claim_tables import DeviceId
from volcanopy.scheduler.nodes.devices.device_inventory import Item, Suitable, matching_key

MAX_ALTERNATIVES = 8  # The maximum number of alternatives of a request, by Kubernetes' API.
MAX_DEVICES = 32  # The maximum number of devices of one claim, by Kubernetes' API.
MAX_STEPS = 20_000  # The maximum number of devices tried for the claims of one pod on one node.
COUNTED = frozenset({"", "ExactCount"})  # The allocation modes of requests for a number of devices.
Find = Callable[[devices.ExactRequest], Suitable]  # Returns the devices of the node that match a request.


@dataclass(frozen=True)
class DeviceRequest:
    """One request of one claim: its alternatives, the best first, each with the request name used in results."""

    claim: int
    options: tuple[tuple[str, devices.ExactRequest], ...]


@dataclass(frozen=True)
class AllocatedDevice:
    """A device allocated to a request."""

    claim: int
    name: str
    request: devices.ExactRequest
    item: Item


class _BudgetExceededError(Exception):
    """The search exceeded the maximum number of steps."""


def device_requests(claims: Sequence[devices.ResourceClaim]) -> list[DeviceRequest]:
    """Return the requests of all claims, in order."""
    result = []
    for number, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            if request.first_available:
                options = tuple((f"{request.name}/{option.name}", option) for option in request.first_available)
            else:
                options = ((request.name, request.exactly or request),)
            result.append(DeviceRequest(number, options))
    return result


def have_alternatives(claims: Sequence[devices.ResourceClaim]) -> bool:
    """Return whether a request of the claims has several alternatives."""
    return any(len(request.first_available) > 1 for claim in claims for request in claim.spec.devices.requests)


def preference(claims: Sequence[devices.ResourceClaim], allocated: Sequence[AllocatedDevice]) -> float:
    """Return how preferred the allocated alternatives are, on average over the requests that have several: 100 for the first.

    The steps are those of kube-scheduler's score: an eighth for each alternative.
    """
    chosen = {(device.claim, device.name) for device in allocated}
    prioritized = [request for request in device_requests(claims) if len(request.options) > 1]
    points = sum(
        MAX_ALTERNATIVES - position
        for request in prioritized
        for position, (name, _) in enumerate(request.options)
        if (request.claim, name) in chosen
    )
    return 100.0 * points / (MAX_ALTERNATIVES * len(prioritized))


def equal_requests(claims: Sequence[devices.ResourceClaim]) -> tuple[devices.ExactRequest, int] | None:
    """Return the request and the number of devices of claims for which as many free devices suffice, whichever these are.

    None for others: with constraints, alternatives, admin access, or requests that other devices match.
    """
    if any(claim.spec.devices.constraints for claim in claims):
        return None
    options = [each.options for each in device_requests(claims)]
    requests = [first for (_, first), *others in options if not others]
    simple = (each.allocation_mode in COUNTED and not each.admin_access for each in requests)
    total = sum(max(request.count, 1) for request in requests)
    if len(requests) < len(options) or not all(simple) or len(set(map(matching_key, requests))) != 1:
        return None
    return (requests[0], total) if total <= MAX_DEVICES else None


def allocate(
    claims: Sequence[devices.ResourceClaim], find: Find, is_free: Callable[[DeviceId], bool]
) -> tuple[list[AllocatedDevice] | None, str]:
    """Return devices for all requests of the claims; None if there are none, with the error if the search failed."""
    search = _DeviceSearch(claims, find, is_free)
    try:
        return (search.allocated, "") if search.place(0) else (None, search.fault)
    except _BudgetExceededError:
        return None, "there are too many ways to share out the devices: fewer requests in one pod would help"


class _DeviceSearch:
    def __init__(
        self, claims: Sequence[devices.ResourceClaim], find: Find, is_free: Callable[[DeviceId], bool]
    ) -> None:
        self._requests = device_requests(claims)
        self._constraints = [claim.spec.devices.constraints for claim in claims]
        self._find, self._is_free = find, is_free
        self._used: set[DeviceId] = set()
        self._in_claim: set[tuple[int, DeviceId]] = set()
        self._steps = 0
        self.allocated: list[AllocatedDevice] = []
        self.fault = ""

    def place(self, number: int) -> bool:
        """Allocate devices to the requests from this number on."""
        if number == len(self._requests):
            return True
        device_request = self._requests[number]
        of_claim = sum(device.claim == device_request.claim for device in self.allocated)
        for name, request in device_request.options:
            suitable = self._find(request)
            if suitable.fault:
                self.fault = suitable.fault
                return False
            requested = len(suitable.items) if request.allocation_mode == "All" else max(request.count, 1)
            if of_claim + requested <= MAX_DEVICES:
                items = [item for item in suitable.items if item.complete]
                if requested and self._take(number, name, request, items, 0, requested):
                    return True
            elif len(device_request.options) == 1:
                self.fault = f'request "{name}" exceeds the {MAX_DEVICES} devices that a resourceclaim may have'
        return False

    def _take(
        self, number: int, name: str, request: devices.ExactRequest, items: Sequence[Item], start: int, left: int
    ) -> bool:
        """Allocate ``left`` devices to one request. They are interchangeable: taken in order, no set is tried twice."""
        if not left:
            return self.place(number + 1)
        for index in range(start, len(items) - left + 1):
            if self._try(number, name, request, items[index]):
                if self._take(number, name, request, items, index + 1, left - 1):
                    return True
                self._release()
        return False

    def _try(self, number: int, name: str, request: devices.ExactRequest, item: Item) -> bool:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _BudgetExceededError
        claim = self._requests[number].claim
        if not request.admin_access and (item.id in self._used or not self._is_free(item.id)):
            return False
        if (claim, item.id) in self._in_claim:
            return False
        device = AllocatedDevice(claim, name, request, item)
        if not self._satisfies_constraints(device):
            return False
        self.allocated.append(device)
        self._in_claim.add((claim, item.id))
        if not request.admin_access:
            self._used.add(item.id)
        return True

    def _release(self) -> None:
        device = self.allocated.pop()
        self._in_claim.discard((device.claim, device.item.id))
        if not device.request.admin_access:
            self._used.discard(device.item.id)

    def _satisfies_constraints(self, device: AllocatedDevice) -> bool:
        """Return whether a device satisfies the claim's constraints together with the devices allocated so far."""
        for constraint in self._constraints[device.claim]:
            name = constraint.match_attribute or constraint.distinct_attribute
            if name is None or not _applies(constraint, device.name):
                continue
            own = device.item.attribute(name)
            if own is None:
                return False
            others = [each for each in self.allocated if each.claim == device.claim and _applies(constraint, each.name)]
            if any((other.item.attribute(name) == own) is (constraint.match_attribute is None) for other in others):
                return False
        return True


def _applies(constraint: devices.DeviceConstraint, request: str) -> bool:
    """Return whether a constraint applies to a request: it names the request, the alternative, or no request."""
    requests = constraint.requests
    return not requests or request in requests or request.partition("/")[0] in requests
