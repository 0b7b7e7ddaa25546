"""What is wrong with the limits that a queue sets its users and groups, and what of them can never count."""

from collections.abc import Iterator, Mapping

from volcanopy.admission.access import lineage
from volcanopy.admission.context import Context
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.user_limits import EVERYBODY, Entries
from volcanopy.admission.verdict import Warned
from volcanopy.api import names
from volcanopy.api.core import QueueLimit as KnownLimit
from volcanopy.api.model import Problem
from volcanopy.api.quantity import QuantityError, amount, parse, text
from volcanopy.api.scheduling import QueueSpec
from volcanopy.api.scheduling_read import Queue as KnownQueue

_FRACTIONS = ("cpu", "memory", "ephemeral-storage", "storage")
_ALL = "system:authenticated"
"""The group that everybody is of."""
_ACCOUNTS = "system:serviceaccounts"
"""The group that every service account is of; each is of one for its namespace as well."""


def amount_problems(path: str, resources: Mapping[str, str | int | float]) -> Iterator[Problem]:
    """Amounts that are none, that are negative, or that are not whole where things are counted."""
    for name, said in resources.items():
        try:
            units = amount(name, said)
            whole = name in _FRACTIONS or name.startswith("hugepages-") or parse(said).denominator == 1
        except QuantityError as error:
            yield Problem(f"{path}[{name}]", str(error))
            continue
        if units < 0:
            yield Problem(f"{path}[{name}]", f"{said} is negative")
        elif not whole:
            yield Problem(f"{path}[{name}]", f"{said} is not a whole number: {name} is counted in whole ones")


def limit_problems(spec: QueueSpec) -> Iterator[Problem | Warned]:
    """What is wrong with the entries by themselves."""
    seen: dict[tuple[str, str], str] = {}
    for number, entry in enumerate(spec.limits):
        yield from amount_problems(f"spec.limits[{number}].resources", entry.resources or {})
        if not entry.users and not entry.groups:
            yield Problem(f"spec.limits[{number}]", "a limit is somebody's: name users or groups")
        for kind, found in (("users", entry.users), ("groups", entry.groups)):
            for position, name in enumerate(found):
                path = f"spec.limits[{number}].{kind}[{position}]"
                if not name:
                    yield Problem(path, "is empty: it names nobody")
                elif name == EVERYBODY and kind == "groups":
                    yield Problem(path, f"'*' is no group: name {_ALL}, which everybody is of, or '*' among the users")
                elif (kind, name) in seen:
                    yield Problem(
                        path, f"{name!r} is named already, in {seen[kind, name]}: only the first entry counts"
                    )
                elif kind == "groups" and (hidden := _hidden(name, seen)):
                    yield Warned(Problem(path, hidden))
                seen.setdefault((kind, name), path)


def _hidden(group: str, seen: Mapping[tuple[str, str], str]) -> str:
    """Why an entry for a group never counts: all of its members are of a group that stands before it."""
    if ("groups", _ALL) in seen:
        return f"never counts: everybody is of group {_ALL!r}, which stands before it in {seen['groups', _ALL]}"
    if group.startswith(f"{_ACCOUNTS}:") and ("groups", _ACCOUNTS) in seen:
        where = seen["groups", _ACCOUNTS]
        return f"never counts: its members are of group {_ACCOUNTS!r}, which stands before it in {where}"
    return ""


def limit_doubts(name: str, after: KnownQueue, context: Context) -> Iterator[Warned]:
    """Limits that are beyond what a queue above, or the queue itself, lets anybody have: those are kept as well."""
    queues = dict(context.queues or {}) | {name: after}
    above = lineage(name, queues)[1:]
    own = after.spec
    for kind, path, most in (
        ("run", "spec.maxRunningJobs", own.max_running_jobs),
        ("wait", "spec.maxQueuedJobs", own.max_queued_jobs),
    ):
        for queue in above:
            theirs = queue.spec.max_running_jobs if kind == "run" else queue.spec.max_queued_jobs
            if most is not None and theirs is not None and most > theirs:
                told = f"{most} is more than the {theirs} that queue {queue.metadata.name!r} above lets {kind}"
                yield Warned(Problem(path, f"{told}: both are kept"))
                break
    books = [(queue.metadata.name, Entries(queue)) for queue in above] if own.limits else []
    for number, entry in enumerate(own.limits):
        yield from _entry_doubts(f"spec.limits[{number}]", entry, after, books)


def _entry_doubts(path: str, entry: KnownLimit, own: KnownQueue, above: list[tuple[str, Entries]]) -> Iterator[Warned]:
    amounts, capability = amounts_of(entry.resources), amounts_of(own.spec.capability)
    for resource, units in sorted(amounts.items()):
        if resource in capability and units > capability[resource]:
            told = (
                f"{text(resource, units)} is more than the queue's capability of {text(resource, capability[resource])}"
            )
            yield Warned(Problem(f"{path}.resources[{resource}]", told))
    most = own.spec.max_running_jobs
    if entry.max_running_jobs is not None and most is not None and entry.max_running_jobs > most:
        told = f"{entry.max_running_jobs} is more than the {most} jobs that the queue runs at once"
        yield Warned(Problem(f"{path}.maxRunningJobs", told))
    for queue, entries in above if amounts else ():
        found = [("user", name, entries.user(name)) for name in entry.users]
        found += [("group", name, entries.groups.get(name)) for name in entry.groups]
        for kind, name, theirs in found:
            limits = entries.amounts(theirs)
            for resource, units in sorted(amounts.items()):
                if resource in limits and units > limits[resource]:
                    most_there = (
                        f"{text(resource, limits[resource])} that queue {queue!r} above lets {kind} {name!r} hold"
                    )
                    told = f"{text(resource, units)} is more than the {most_there}: both are kept"
                    yield Warned(Problem(f"{path}.resources[{resource}]", told))


def same_limits(one: KnownQueue, other: KnownQueue) -> bool:
    """Whether two forms of a queue limit the same, below the same queue."""
    return _said(one) == _said(other)


def _said(queue: KnownQueue) -> tuple[object, ...]:
    spec = queue.spec
    parent = spec.parent or names.ROOT_QUEUE
    return (parent, amounts_of(spec.capability), spec.max_running_jobs, spec.max_queued_jobs, spec.limits)
