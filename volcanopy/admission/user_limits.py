"""What a queue lets its users and groups have: how many jobs may wait, and whether a job could ever fit.

The limits of every queue from the job's own upwards count. A user's are those of the first entry that names the user, or
else of the first for everybody; a group's are those of the first entry that names one of the user's groups.
"""

from collections.abc import Iterator
from typing import NamedTuple

from volcanopy.admission.access import lineage
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import Findings
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.admission.request import User
from volcanopy.api.core import QueueLimit
from volcanopy.api.model import Problem
from volcanopy.api.quantity import text
from volcanopy.api.scheduling_read import Queue

EVERYBODY = "*"


class Subject(NamedTuple):
    """Whom a limit is about: ``user`` or ``group``, and the name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else "a user whose name is not known"


class Entries:
    """The entries of a queue by whom they name; of many the first."""

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
        """The entry that a user is subject to."""
        return (self.users.get(name) if name else None) or self.users.get(EVERYBODY)

    def amounts(self, entry: QueueLimit | None) -> Amounts:
        """What one of the entries lets somebody hold; nothing is limited where there is none."""
        if entry is None:
            return {}
        known = self._amounts.get(id(entry))
        if known is None:
            known = self._amounts[id(entry)] = amounts_of(entry.resources)
        return known

    def of(self, user: User) -> Iterator[tuple[Subject, QueueLimit]]:
        """The entries that this user is subject to: its own, and that of one of its groups."""
        own = self.user(user.name)
        if own is not None:
            yield Subject("user", user.name), own
        if self.groups:
            group = min((one for one in user.groups if one in self._order), key=self._order.__getitem__, default=None)
            if group is not None:
                yield Subject("group", group), self.groups[group]


def queued_problems(path: str, name: str, user: User, context: Context) -> Iterator[Problem]:
    """Why no more jobs of this user's may wait in a queue, nor in those above it."""
    if context.queues is None or context.waiting is None:
        return
    for queue in lineage(name, context.queues):
        own = queue.metadata.name
        which = f"queue {own!r}" if own == name else f"queue {own!r} above {name!r}"
        most, entries = queue.spec.max_queued_jobs, Entries(queue)
        if most is not None and (there := _waiting(own, entries, None, context)) >= most:
            yield Problem(path, f"{which} lets {_jobs(most)} wait{_already(most, there)}")
        for subject, entry in entries.of(user):
            most = entry.max_queued_jobs
            if most is not None and (there := _waiting(own, entries, subject, context)) >= most:
                yield Problem(path, f"{which} lets {subject} have {_jobs(most)} waiting{_already(most, there)}")


def _waiting(queue: str, entries: Entries, subject: Subject | None, context: Context) -> int:
    """How many jobs wait in a queue and those below it; of a subject of its entries, if one is given."""
    queues, inside, found = context.queues or {}, dict[str, bool](), 0
    for (name, user), count in (context.waiting or {}).items():
        if count <= 0:
            continue
        if name not in inside:
            inside[name] = any(one.metadata.name == queue for one in lineage(name, queues))
        if inside[name] and (subject is None or any(about == subject for about, _ in entries.of(user))):
            found += count
    return found


def _jobs(count: int) -> str:
    return "no jobs" if not count else "1 job" if count == 1 else f"{count} jobs"


def _already(most: int, there: int) -> str:
    """How many wait, and what to do."""
    if not most:
        return ": choose another queue"
    return f", and {'1 waits' if there == 1 else f'{there} wait'} already: submit it when fewer do"


def allowance(path: str, name: str, needs: Amounts, user: User, context: Context) -> Findings:
    """Whether a gang could ever start that needs so much, of what its queue, or one above it, lets this user hold."""
    severity = context.policy.gang_above_capability
    if context.queues is None or severity == "allow":
        return Findings()
    over = tuple(_over_limits(path, name, needs, user, context))
    return Findings(over) if severity == "refuse" else Findings((), over)


def _over_limits(path: str, name: str, needs: Amounts, user: User, context: Context) -> Iterator[Problem]:
    for queue in lineage(name, context.queues or {}):
        for subject, entry in Entries(queue).of(user):
            limits = amounts_of(entry.resources)
            short = [
                f"{text(resource, units)} {resource} of at most {text(resource, limits[resource])}"
                for resource, units in sorted(needs.items())
                if resource in limits and units > limits[resource]
            ]
            if short:
                own = queue.metadata.name
                which = f"queue {own!r}" if own == name else f"queue {own!r} above {name!r}"
                told = f"the gang could never start: it needs {', '.join(short)} that {which} lets {subject} hold"
                yield Problem(path, told)
