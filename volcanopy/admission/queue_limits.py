"""Validation of quantities in queues, and of the limits that a queue sets for users and groups."""

from collections.abc import Iterator, Mapping

from volcanopy.admission.access import lineage
from volcanopy.admission.context import Context
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.response import AdmissionWarning
from volcanopy.admission.user_limits import EVERY_USER, LimitEntries
from volcanopy.api import names
from volcanopy.api.core import Queue as KnownQueue
from volcanopy.api.core import QueueLimit as KnownLimit
from volcanopy.api.model import Problem, duplicate, invalid
from volcanopy.api.quantity import QuantityError, amount, parse, text
from volcanopy.api.scheduling import QueueSpec

MAX_RESOURCES = 64
"""Maximum number of resources in a resource list."""
_FRACTIONAL = ("cpu", "memory", "ephemeral-storage", "storage")
_AUTHENTICATED = "system:authenticated"
"""The group that every authenticated user is a member of."""
_SERVICE_ACCOUNTS = "system:serviceaccounts"
"""The group of all service accounts; each is also a member of the group of its namespace."""


def quantity_problems(path: str, resources: Mapping[str, str | int | float]) -> Iterator[Problem]:
    """Yield quantities that are not valid or negative."""
    for name, value in resources.items():
        try:
            negative = amount(name, value) < 0
        except QuantityError as error:
            yield Problem(f"{path}[{name}]", f"Invalid value: {error}")
        else:
            if negative:
                yield invalid(f"{path}[{name}]", value, "must be greater than or equal to 0")


def amount_problems(path: str, resources: Mapping[str, str | int | float]) -> Iterator[Problem]:
    """Yield quantities that are not valid, negative, or fractions of a resource that is counted in integers."""
    for name, value in resources.items():
        problems = list(quantity_problems(path, {name: value}))
        yield from problems
        fractional = name in _FRACTIONAL or name.startswith("hugepages-")
        if not problems and not fractional and parse(value).denominator != 1:
            yield invalid(f"{path}[{name}]", value, "must be an integer")


def limit_problems(spec: QueueSpec) -> Iterator[Problem | AdmissionWarning]:
    """Yield the problems of the entries themselves."""
    seen: dict[tuple[str, str], str] = {}
    for number, entry in enumerate(spec.limits):
        yield from amount_problems(f"spec.limits[{number}].resources", entry.resources or {})
        if not entry.users and not entry.groups:
            yield Problem(f"spec.limits[{number}]", "Invalid value: at least one of users and groups must be set")
        for kind, subjects in (("users", entry.users), ("groups", entry.groups)):
            for position, name in enumerate(subjects):
                path = f"spec.limits[{number}].{kind}[{position}]"
                if not name:
                    yield Problem(path, "Required value")
                elif name == EVERY_USER and kind == "groups":
                    yield invalid(path, name, f'not a group: use group "{_AUTHENTICATED}", or "*" in users')
                elif (kind, name) in seen:
                    yield duplicate(path, name)
                elif kind == "groups" and (earlier := _covering(name, seen)):
                    detail = f'has no effect: all members are in group "{earlier}" of {seen["groups", earlier]}'
                    yield AdmissionWarning(invalid(path, name, detail))
                seen.setdefault((kind, name), path)


def _covering(group: str, seen: Mapping[tuple[str, str], str]) -> str:
    """Return an earlier group that contains all members of this group, if there is one."""
    if ("groups", _AUTHENTICATED) in seen:
        return _AUTHENTICATED
    covered = group.startswith(f"{_SERVICE_ACCOUNTS}:") and ("groups", _SERVICE_ACCOUNTS) in seen
    return _SERVICE_ACCOUNTS if covered else ""


def limit_warnings(name: str, after: KnownQueue, context: Context) -> Iterator[AdmissionWarning]:
    """Yield limits that exceed those of the queue itself or an ancestor: the smaller limit applies."""
    queues = dict(context.queues or {}) | {name: after}
    ancestors = lineage(name, queues)[1:]
    for field, attribute in (("maxRunningJobs", "max_running_jobs"), ("maxQueuedJobs", "max_queued_jobs")):
        own = getattr(after.spec, attribute)
        for ancestor in ancestors:
            limit = getattr(ancestor.spec, attribute)
            if own is not None and limit is not None and own > limit:
                detail = f'exceeds {field} of queue "{ancestor.metadata.name}" ({limit}): the smaller limit applies'
                yield AdmissionWarning(invalid(f"spec.{field}", own, detail))
                break
    entries = [(ancestor.metadata.name, LimitEntries(ancestor)) for ancestor in ancestors] if after.spec.limits else []
    for number, entry in enumerate(after.spec.limits):
        problems = _entry_warnings(f"spec.limits[{number}]", entry, after, entries)
        yield from map(AdmissionWarning, problems)


def _entry_warnings(
    path: str, entry: KnownLimit, own: KnownQueue, ancestors: list[tuple[str, LimitEntries]]
) -> Iterator[Problem]:
    amounts = amounts_of(entry.resources)
    yield from _exceeding(path, amounts, amounts_of(own.spec.capability), "the capability of the queue")
    maximum = own.spec.max_running_jobs
    if entry.max_running_jobs is not None and maximum is not None and entry.max_running_jobs > maximum:
        detail = f"exceeds maxRunningJobs of the queue ({maximum})"
        yield invalid(f"{path}.maxRunningJobs", entry.max_running_jobs, detail)
    for queue, entries in ancestors if amounts else ():
        subjects = [("user", name, entries.user(name)) for name in entry.users]
        subjects += [("group", name, entries.groups.get(name)) for name in entry.groups]
        for kind, name, other in subjects:
            limit = f'the limit of {kind} "{name}" in queue "{queue}"'
            yield from _exceeding(path, amounts, entries.amounts(other), limit)


def _exceeding(path: str, amounts: Mapping[str, int], limits: Mapping[str, int], limit: str) -> Iterator[Problem]:
    for resource, units in sorted(amounts.items()):
        if resource in limits and units > limits[resource]:
            detail = f"exceeds {limit} ({text(resource, limits[resource])}): the smaller limit applies"
            yield invalid(f"{path}.resources[{resource}]", text(resource, units), detail)


def same_limits(left: KnownQueue, right: KnownQueue) -> bool:
    """Return whether two versions of a queue have the same limits and the same parent."""
    return _limits(left) == _limits(right)


def _limits(queue: KnownQueue) -> tuple[object, ...]:
    spec = queue.spec
    parent = spec.parent or names.ROOT_QUEUE
    return (parent, amounts_of(spec.capability), spec.max_running_jobs, spec.max_queued_jobs, spec.limits)
