"""Whether a queue takes what is submitted to it: it exists, is open, is no inner queue, and this user may."""

from collections.abc import Iterator

from volcanopy.admission.access import submission_problems
from volcanopy.admission.context import Context
from volcanopy.admission.request import User
from volcanopy.api import names
from volcanopy.api.model import Problem


def taking_problems(path: str, name: str, context: Context, *, what: str = "jobs") -> Iterator[Problem]:
    """Why the queue takes nothing."""
    if context.queues is None:
        return
    if name == names.ROOT_QUEUE:
        yield Problem(path, f"the root queue takes no {what}: choose a queue below it")
        return
    queue = context.queues.get(name)
    if queue is None:
        yield Problem(path, f"there is no queue {name!r}: make it first, or choose another one")
        return
    if queue.status.state not in {"", "Open"}:
        yield Problem(path, f"queue {name!r} is {queue.status.state} and takes no new {what}")
    if children := sorted(key for key, one in context.queues.items() if one.spec.parent == name):
        shown = ", ".join(children[:8]) + (f" and {len(children) - 8} more" if len(children) > 8 else "")
        yield Problem(path, f"queue {name!r} is divided into {shown}: choose one of those")


def entry_problems(
    path: str, name: str, user: User, namespace: str, context: Context, *, what: str = "jobs"
) -> Iterator[Problem]:
    """Why nothing of this user's can go into the queue."""
    yield from taking_problems(path, name, context, what=what)
    yield from submission_problems(path, name, user, namespace, context)
