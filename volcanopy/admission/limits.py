"""Quantities in queues, and the limits that a queue sets for users and groups: their validation, and whether a job exceeds them.

The limits of the job's queue and all its ancestors apply. A user is subject to the first entry that names the user, else to the
first entry for every user, and to the first entry that names one of the user's groups.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from volcanopy.admission.access import lineage
from volcanopy.admission.children import quantity_problems
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import exceeded
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.admission.request import User
from volcanopy.admission.response import as_warning, with_severity
from volcanopy.api.core import Queue, QueueLimit
from volcanopy.api.model import Problem, duplicate, forbidden, invalid
from volcanopy.api.quantity import parse
from volcanopy.api.scheduling import QueueSpec

EVERY_USER = "*"


class Subject(NamedTuple):
    """Subject of a limit: ``user`` or ``group``, and the name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f'{self.kind} "{self.name}"' if self.name else "unknown users"


class LimitEntries:
    """The limits of a queue by user and group; the first entry for each applies."""

    def __init__(self, queue: Queue) -> None:
        self.users: dict[str, QueueLimit] = {}
        self.groups: dict[str, QueueLimit] = {}
        for entry in queue.spec.limits:
            for name in entry.users:
                self.users.setdefault(name, entry)
            for name in entry.groups:
                self.groups.setdefault(name, entry)
        self._order = {name: number for number, name in enumerate(self.groups)}

    def user(self, name: str) -> QueueLimit | None:
        """Return the entry that applies to a user."""
        return (self.users.get(name) if name else None) or self.users.get(EVERY_USER)

    def of(self, user: User) -> Iterator[tuple[Subject, QueueLimit]]:
        """Yield the entries that apply to a user: one for the user and one for a group."""
        user_limit = self.user(user.name)
        if user_limit is not None:
            yield Subject("user", user.name), user_limit
        groups = [group for group in user.groups if group in self._order]
        if groups:
            group = min(groups, key=self._order.__getitem__)
            yield Subject("group", group), self.groups[group]


def queued_problems(path: str, entered: Iterable[Queue], user: User, context: Context) -> Iterator[Problem]:
    """Yield the limits of queued jobs in these queues that a further job of this user would exceed."""
    if context.queues is None or context.queued_jobs is None:
        return
    for queue in entered:
        own_name, entries = queue.metadata.name, LimitEntries(queue)
        limits: list[tuple[Subject | None, int | None]] = [(None, queue.spec.max_queued_jobs)]
        limits += [(subject, entry.max_queued_jobs) for subject, entry in entries.of(user)]
        for subject, limit in limits:
            if limit is not None and (number := _queued(own_name, entries, subject, context)) >= limit:
                scope = f'{subject} in queue "{own_name}"' if subject else f'queue "{own_name}"'
                yield forbidden(path, f"maxQueuedJobs of {scope} reached ({number}/{limit})")


def _queued(queue: str, entries: LimitEntries, subject: Subject | None, context: Context) -> int:
    """Return the number of queued jobs in a queue and its descendants, of one subject if it is given."""
    queues, inside, total = context.queues or {}, dict[str, bool](), 0
    for (name, user), count in (context.queued_jobs or {}).items():
        if count <= 0:
            continue
        if name not in inside:
            inside[name] = any(ancestor.metadata.name == queue for ancestor in lineage(name, queues))
        if inside[name] and (subject is None or any(entry_subject == subject for entry_subject, _ in entries.of(user))):
            total += count
    return total


def limit_findings(path: str, name: str, needs: Amounts, user: User, context: Context) -> Iterable[Problem]:
    """Yield findings if a gang with these minimum resources exceeds a limit of its submitter."""
    severity = context.policy.gang_above_capability
    if context.queues is None or severity == "allow":
        return ()
    return with_severity(_above_limits(path, name, needs, user, context), severity)


def _above_limits(path: str, name: str, needs: Amounts, user: User, context: Context) -> Iterator[Problem]:
    for queue in lineage(name, context.queues or {}):
        for subject, entry in LimitEntries(queue).of(user):
            if amounts := exceeded(needs, amounts_of(entry.resources), "limit"):
                scope = f'{subject} in queue "{queue.metadata.name}"'
                yield invalid(path, name, f"can never start: resources of {scope} exceeded: {amounts}")


_FRACTIONAL = ("cpu", "memory", "ephemeral-storage", "storage")
_AUTHENTICATED = "system:authenticated"
"""The group that every authenticated user is a member of."""
_SERVICE_ACCOUNTS = "system:serviceaccounts"
"""The group of all service accounts; each is also a member of the group of its namespace."""


def amount_problems(path: str, resources: Mapping[str, str | int | float]) -> Iterator[Problem]:
    """Yield quantities that are not valid, negative, or fractions of a resource that is counted in integers."""
    for name, value in resources.items():
        problems = list(quantity_problems(path, {name: value}))
        yield from problems
        fractional = name in _FRACTIONAL or name.startswith("hugepages-")
        if not problems and not fractional and parse(value).denominator != 1:
            yield invalid(f"{path}[{name}]", value, "must be an integer")


def limit_problems(spec: QueueSpec) -> Iterator[Problem]:
    """Yield the problems of the entries themselves."""
    paths: dict[tuple[str, str], str] = {}
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
                elif (kind, name) in paths:
                    yield duplicate(path, name)
                elif kind == "groups" and (earlier := _covering(name, paths)):
                    detail = f'has no effect: all members are in group "{earlier}" of {paths["groups", earlier]}'
                    yield as_warning(invalid(path, name, detail))
                paths.setdefault((kind, name), path)


def _covering(group: str, paths: Mapping[tuple[str, str], str]) -> str:
    """Return an earlier group that contains all members of this group, if there is one."""
    if ("groups", _AUTHENTICATED) in paths:
        return _AUTHENTICATED
    covered = group.startswith(f"{_SERVICE_ACCOUNTS}:") and ("groups", _SERVICE_ACCOUNTS) in paths
    return _SERVICE_ACCOUNTS if covered else ""
