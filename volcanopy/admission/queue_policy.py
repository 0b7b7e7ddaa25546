"""What is wrong with what a queue says of borrowing and lending, of being stopped and of how its jobs look outside."""

from collections.abc import Iterator

from volcanopy.admission.queue_limits import amount_problems
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.verdict import Warned
from volcanopy.api import names
from volcanopy.api.model import Problem
from volcanopy.api.quantity import text
from volcanopy.api.scheduling import Queue, QueueSpec, StopPolicy

BORROWING, LENDING = "spec.borrowingLimit", "spec.lendingLimit"


def term_problems(queue: Queue) -> Iterator[Problem | Warned]:
    """What cannot be, and what is surely not meant."""
    spec = queue.spec
    wrong = [
        *amount_problems(BORROWING, spec.borrowing_limit or {}),
        *amount_problems(LENDING, spec.lending_limit or {}),
    ]
    yield from wrong
    if queue.metadata.name == names.ROOT_QUEUE:
        yield from _root(spec)
    elif not wrong:
        yield from _doubts(spec)


def _root(spec: QueueSpec) -> Iterator[Problem]:
    if spec.stop_policy is not StopPolicy.NONE:
        told = "the root queue cannot be stopped, since nothing would run anywhere: stop the queues below it"
        yield Problem("spec.stopPolicy", told)
    for path, resources, what in (
        (BORROWING, spec.borrowing_limit, "borrows from"),
        (LENDING, spec.lending_limit, "lends to"),
    ):
        if resources:
            yield Problem(path, f"the root queue is the cluster, and {what} nobody: leave it out")
    if spec.priority_offset:
        told = "the root queue is part of no other, so its jobs are compared with no others: leave it out"
        yield Problem("spec.priorityOffset", told)


def _doubts(spec: QueueSpec) -> Iterator[Warned]:
    deserved, capability = amounts_of(spec.deserved or {}), amounts_of(spec.capability or {})
    guarantee = amounts_of(spec.guarantee.resource if spec.guarantee else {})
    for name, units in amounts_of(spec.lending_limit or {}).items():
        path = f"{LENDING}[{name}]"
        if name not in deserved:
            told = (
                f"nothing is said of {name} in spec.deserved: the limit counts only where weights say what is deserved"
            )
            yield Warned(Problem(path, told))
        elif units > deserved[name]:
            told = f"{text(name, units)} is more than the {text(name, deserved[name])} deserved: all of it is lent"
            yield Warned(Problem(path, told))
        elif units > deserved[name] - guarantee.get(name, 0):
            least = text(name, deserved[name] - guarantee[name])
            told = f"{text(name, guarantee[name])} is guaranteed and never lent: no more than {least} is lent anyway"
            yield Warned(Problem(path, told))
    for name, units in amounts_of(spec.borrowing_limit or {}).items():
        path = f"{BORROWING}[{name}]"
        most = deserved.get(name, 0) + units
        if name in deserved and name in capability and most > capability[name]:
            told = f"with the {text(name, deserved[name])} deserved it is more than the capability of"
            yield Warned(Problem(path, f"{told} {text(name, capability[name])}, which is kept"))
        elif name not in deserved:
            told = f"nothing is said of {name} in spec.deserved: where weights do not say either, all is borrowed"
            yield Warned(Problem(path, told))
