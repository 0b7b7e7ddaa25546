"""Entry into a queue: the one rule for every way in, with the right of the user, the state of the queue, its limits and amounts.

Ways in are the creation of a job, PodGroup or pod, the change of a PodGroup's queue (by a user, or after the annotations of a
workload), and the resumption of a suspended job. Limits of ancestors that the object counts in already are not checked again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from volcanopy.admission.access import acceptance_problems, lineage, submission_problems
from volcanopy.admission.context import Context
from volcanopy.admission.feasibility import group_findings
from volcanopy.admission.limits import LimitEntries, limit_findings, queued_problems
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.admission.request import User
from volcanopy.api.core import Queue
from volcanopy.api.model import Problem, forbidden
from volcanopy.api.read_model import Quantities


@dataclass(frozen=True)
class QueueEntry:
    """An object that enters a queue: ``path`` is the field that names the queue, ``user`` the one whose right is checked.

    ``needs`` are the minimum resources that must fit at once; ``origin`` is the queue that it counts in so far.
    """

    path: str
    queue: str
    user: User
    namespace: str
    needs: Amounts = field(default_factory=dict)
    origin: str = ""
    counted_for: User | None = None
    """The user whose limits apply, if that is another one: the submitter of a PodGroup that an administrator moves."""
    is_admitted: bool = False
    """Whether it was admitted to its previous queue, so that it counts as running."""
    is_waiting: bool = True
    """Whether it counts as a waiting job. A pod in a PodGroup and a pod of an admitted workload do not."""


def entry_problems(entry: QueueEntry, context: Context) -> Iterator[Problem]:
    """Yield the reasons why the object cannot enter the queue."""
    yield from acceptance_problems(entry.path, entry.queue, context)
    yield from submission_problems(entry.path, entry.queue, entry.user, entry.namespace, context)
    entered, user = _entered(entry, context), entry.counted_for or entry.user
    if entry.is_admitted:
        yield from _running_problems(entry.path, entered, user)
    elif entry.is_waiting:
        yield from queued_problems(entry.path, entered, user, context)
    yield from amount_findings(entry.path, entry.queue, entry.needs, user, context)


def amount_findings(path: str, queue: str, needs: Amounts, user: User, context: Context) -> Iterator[Problem]:
    """Yield findings if a gang with these minimum resources exceeds the capability or the submitter's limits."""
    yield from group_findings(path, queue, needs, context)
    yield from limit_findings(path, queue, needs, user, context)


def _entered(entry: QueueEntry, context: Context) -> list[Queue]:
    """Return the queue and the ancestors in which the object does not count yet."""
    queues = context.queues or {}
    before = {queue.metadata.name for queue in lineage(entry.origin, queues)} if entry.origin else set()
    return [queue for queue in lineage(entry.queue, queues) if queue.metadata.name not in before]


def _running_problems(path: str, entered: list[Queue], user: User) -> Iterator[Problem]:
    """Yield the limits that an admitted PodGroup would pass: they are checked when a job is admitted and its pods are bound."""
    for queue in entered:
        limited = _limited(queue.spec.capability, queue.spec.max_running_jobs)
        for _, limit in LimitEntries(queue).of(user):
            limited |= _limited(limit.resources, limit.max_running_jobs)
        if limited:
            names_text, name = ", ".join(sorted(limited)), queue.metadata.name
            detail = "create the PodGroup in this queue, or move it before it is admitted"
            yield forbidden(path, f'PodGroup is admitted, and queue "{name}" limits {names_text}: {detail}')


def _limited(resources: Quantities, max_running_jobs: int | None) -> set[str]:
    return set(amounts_of(resources)) | ({"maxRunningJobs"} if max_running_jobs is not None else set())
