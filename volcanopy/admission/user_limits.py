"""Limits of a queue for its users and groups: number of queued jobs, and resources of a single job.

The limits of the job's queue and all its ancestors apply. A user is subject to the first entry that names the user, else to the
first entry for every user, and to the first entry that names one of the user's groups.
"""

from collections.abc import Iterator
from typing import NamedTuple

from volcanopy.admission.access import lineage
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import exceeded
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.admission.request import User
from volcanopy.admission.response import Findings, with_severity
from volcanopy.api.core import Queue, QueueLimit
from volcanopy.api.model import Problem, forbidden, invalid

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
        self._amounts: dict[int, Amounts] = {}

    def user(self, name: str) -> QueueLimit | None:
        """Return the entry that applies to a user."""
        return (self.users.get(name) if name else None) or self.users.get(EVERY_USER)

    def amounts(self, entry: QueueLimit | None) -> Amounts:
        """Return the resource limits of an entry in base units."""
        if entry is None:
            return {}
        known = self._amounts.get(id(entry))
        if known is None:
            known = self._amounts[id(entry)] = amounts_of(entry.resources)
        return known

    def of(self, user: User) -> Iterator[tuple[Subject, QueueLimit]]:
        """Yield the entries that apply to a user: one for the user and one for a group."""
        own = self.user(user.name)
        if own is not None:
            yield Subject("user", user.name), own
        groups = [group for group in user.groups if group in self._order]
        if groups:
            group = min(groups, key=self._order.__getitem__)
            yield Subject("group", group), self.groups[group]


def queued_problems(path: str, name: str, user: User, context: Context) -> Iterator[Problem]:
    """Yield the limits of queued jobs that a further job of this user would exceed."""
    if context.queues is None or context.queued_jobs is None:
        return
    for queue in lineage(name, context.queues):
        own, entries = queue.metadata.name, LimitEntries(queue)
        limits: list[tuple[Subject | None, int | None]] = [(None, queue.spec.max_queued_jobs)]
        limits += [(subject, entry.max_queued_jobs) for subject, entry in entries.of(user)]
        for subject, limit in limits:
            if limit is not None and (number := _queued(own, entries, subject, context)) >= limit:
                scope = f'{subject} in queue "{own}"' if subject else f'queue "{own}"'
                yield forbidden(path, f"maxQueuedJobs of {scope} reached ({number}/{limit})")


def _queued(queue: str, entries: LimitEntries, subject: Subject | None, context: Context) -> int:
    """Return the number of queued jobs in a queue and its descendants, of one subject if it is given."""
    queues, inside, total = context.queues or {}, dict[str, bool](), 0
    for (name, user), count in (context.queued_jobs or {}).items():
        if count <= 0:
            continue
        if name not in inside:
            inside[name] = any(ancestor.metadata.name == queue for ancestor in lineage(name, queues))
        if inside[name] and (subject is None or any(other == subject for other, _ in entries.of(user))):
            total += count
    return total


def limit_findings(path: str, name: str, needs: Amounts, user: User, context: Context) -> Findings:
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
