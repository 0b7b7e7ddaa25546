"""Who may submit to a queue, and who may change it: what the queue says, or those above it.

The submitters of a queue are its own, or, if it names none, those of the nearest queue above that does. Administrators
add up on the way to the root, because whoever administers a queue administers its parts. They may submit, too. Where
nobody is named, everybody may whom the API server lets.
"""

from collections.abc import Iterator, Mapping

from volcanopy.admission.context import Context
from volcanopy.admission.request import User
from volcanopy.api import names
from volcanopy.api.model import Problem
from volcanopy.api.scheduling import Subjects as WrittenSubjects
from volcanopy.api.scheduling_read import Queue, Subjects

_SHOWN = 8


def matches(subjects: Subjects | WrittenSubjects, user: User, namespace: str) -> bool:
    """Whether this is one of them. ``namespace`` is where the job is; empty for what is in none."""
    if user.name in subjects.users or "*" in subjects.users:
        return True
    if not set(subjects.groups).isdisjoint(user.groups):
        return True
    home = user.account
    if home is not None:
        accounts = subjects.service_accounts
        if f"{home[0]}/{home[1]}" in accounts or f"{home[0]}/*" in accounts:
            return True
    return (namespace or (home[0] if home else "")) in subjects.namespaces


def lineage(name: str, queues: Mapping[str, Queue]) -> list[Queue]:
    """The queue and those above it, as far as they are known, up to the root; a circle is gone round once."""
    found: list[Queue] = []
    seen: set[str] = set()
    while name not in seen and (queue := queues.get(name)) is not None:
        seen.add(name)
        found.append(queue)
        if name == names.ROOT_QUEUE:
            break
        name = queue.spec.parent or names.ROOT_QUEUE
    return found


def is_trusted(user: User, context: Context) -> bool:
    """Whether this user may use and change every queue."""
    return matches(context.policy.superusers, user, "") or user.name in context.policy.controllers


def submission_problems(path: str, name: str, user: User, namespace: str, context: Context) -> Iterator[Problem]:
    """Why this user may not submit to this queue, in a sentence that says who may."""
    if context.queues is None or not user.name or matches(context.policy.superusers, user, ""):
        return
    line = lineage(name, context.queues)
    saying = next((queue for queue in line if queue.spec.submitters is not None), None)
    if saying is None or saying.spec.submitters is None or matches(saying.spec.submitters, user, namespace):
        return
    heads = [queue.spec.administrators for queue in line if queue.spec.administrators is not None]
    if any(matches(one, user, "") for one in heads):
        return
    whose = "" if saying.metadata.name == name else f", as queue {saying.metadata.name!r} above it says"
    told = f"user {user.name!r} may not submit to queue {name!r} from namespace {namespace!r}: "
    yield Problem(path, f"{told}{_told(saying.spec.submitters)} may{whose}")


def administration_problems(name: str, user: User, context: Context, *, doing: str) -> Iterator[Problem]:
    """Why this user may not do this with this queue or put queues below it, in a sentence that says who may."""
    if context.queues is None or not user.name or is_trusted(user, context):
        return
    line = lineage(name, context.queues)
    heads = [
        (queue.metadata.name, queue.spec.administrators) for queue in line if queue.spec.administrators is not None
    ]
    if not heads or any(matches(one, user, "") for _, one in heads):
        return
    who = ", or ".join(f"{_told(one)} (of queue {of!r})" for of, one in heads)
    yield Problem("", f"user {user.name!r} may not {doing}: {who} may")


def _told(subjects: Subjects) -> str:
    """Those who may, for a sentence."""
    found = [
        *(f"user {one!r}" for one in subjects.users),
        *(f"group {one!r}" for one in subjects.groups),
        *(f"service account {one!r}" for one in subjects.service_accounts),
        *(f"whoever works in namespace {one!r}" for one in subjects.namespaces),
    ]
    if not found:
        return "nobody but administrators"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
