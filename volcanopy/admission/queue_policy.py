"""Validation of borrowing and lending limits, stop policy and priority offset of a queue."""

from collections.abc import Iterator

from volcanopy.admission.queue_limits import amount_problems
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.response import AdmissionWarning
from volcanopy.api import names
from volcanopy.api.model import Problem, forbidden, invalid
from volcanopy.api.quantity import text
from volcanopy.api.scheduling import Queue, QueueSpec, StopPolicy

BORROWING, LENDING = "spec.borrowingLimit", "spec.lendingLimit"


def policy_problems(queue: Queue) -> Iterator[Problem | AdmissionWarning]:
    """Yield values that are not valid or have no effect."""
    spec = queue.spec
    problems = [
        *amount_problems(BORROWING, spec.borrowing_limit or {}),
        *amount_problems(LENDING, spec.lending_limit or {}),
    ]
    yield from problems
    if queue.metadata.name == names.ROOT_QUEUE:
        yield from _root(spec)
    elif not problems:
        yield from map(AdmissionWarning, _warnings(spec))


def _root(spec: QueueSpec) -> Iterator[Problem]:
    if spec.stop_policy is not StopPolicy.NONE:
        detail = "the root queue must not be stopped: stop its child queues"
        yield invalid("spec.stopPolicy", spec.stop_policy.value, detail)
    for path, value in (
        (BORROWING, spec.borrowing_limit),
        (LENDING, spec.lending_limit),
        ("spec.priorityOffset", spec.priority_offset),
    ):
        if value:
            yield forbidden(path, "must not be set for the root queue")


def _warnings(spec: QueueSpec) -> Iterator[Problem]:
    deserved, capability = amounts_of(spec.deserved or {}), amounts_of(spec.capability or {})
    guarantee = amounts_of(spec.guarantee.resource if spec.guarantee else {})
    for name, units in amounts_of(spec.lending_limit or {}).items():
        path, value = f"{LENDING}[{name}]", text(name, units)
        if name not in deserved:
            detail = f"applies only if the deserved share is computed from weights: {name} is not in spec.deserved"
            yield invalid(path, value, detail)
        elif units > deserved[name]:
            yield invalid(path, value, f"exceeds the deserved share ({text(name, deserved[name])}): all of it is lent")
        elif units > deserved[name] - guarantee.get(name, 0):
            lendable = text(name, deserved[name] - guarantee[name])
            detail = f"exceeds deserved minus guarantee ({lendable}): guaranteed resources are never lent"
            yield invalid(path, value, detail)
    for name, units in amounts_of(spec.borrowing_limit or {}).items():
        path, value = f"{BORROWING}[{name}]", text(name, units)
        total = deserved.get(name, 0) + units
        if name in deserved and name in capability and total > capability[name]:
            detail = f"deserved plus borrowing limit ({text(name, total)}) exceeds the capability"
            yield invalid(path, value, f"{detail} ({text(name, capability[name])}): the capability applies")
        elif name not in deserved:
            detail = f"applies to the deserved share computed from weights, else 0: {name} is not in spec.deserved"
            yield invalid(path, value, detail)
