"""Jobs that could never start: a gang larger than its queue may ever be, a pod larger than any node.

Everything here errs on the side of the job: where it is not certain how much is needed at once, the least is taken.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcanopy.admission.access import lineage
from volcanopy.admission.context import Context
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.admission.request import at
from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.model import Problem
from volcanopy.api.quantity import text

_MOST_CONTAINERS = 256


@dataclass(frozen=True)
class Findings:
    """What is wrong, and what is only doubted."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def maximal(rooms: Iterable[Mapping[str, int]]) -> tuple[Amounts, ...]:
    """The rooms of which none has as much of everything as another one."""
    found: list[Amounts] = []
    distinct = {tuple(sorted(room.items())) for room in rooms}
    for items in sorted(distinct, key=lambda one: (-sum(units for _, units in one), one)):
        room = dict(items)
        if not any(_covers(one, room) for one in found):
            found = [one for one in found if not _covers(room, one)]
            found.append(room)
    return tuple(found)


def _covers(large: Mapping[str, int], small: Mapping[str, int]) -> bool:
    return all(large.get(name, 0) >= units for name, units in small.items())


def pod_request(spec: Any) -> Amounts:
    """What a pod asks for, in base units, read from its spec as JSON; what makes no sense counts nothing."""
    whole = _requests(spec)
    running = _summed(spec, "containers")
    peak: Amounts = {}
    init = at(spec, "initContainers")
    for container in init[:_MOST_CONTAINERS] if isinstance(init, list) else ():
        own = _requests(container)
        if at(container, "restartPolicy") == "Always":
            running = _plus(running, own)
            own = running
        else:
            own = _plus(own, _sidecars(init, container))
        peak = {name: max(peak.get(name, 0), own.get(name, 0)) for name in peak.keys() | own.keys()}
    total = {name: max(peak.get(name, 0), running.get(name, 0)) for name in peak.keys() | running.keys()}
    overhead = at(spec, "overhead")
    total = _plus(total | whole, amounts_of(overhead) if isinstance(overhead, Mapping) else {})
    return {name: units for name, units in (total | {"pods": 1}).items() if units > 0}


def _sidecars(init: Sequence[Any], until: Any) -> Amounts:
    found: Amounts = {}
    for one in init[:_MOST_CONTAINERS]:
        if one is until:
            break
        if at(one, "restartPolicy") == "Always":
            found = _plus(found, _requests(one))
    return found


def _summed(spec: Any, key: str) -> Amounts:
    found: Amounts = {}
    containers = at(spec, key)
    for container in containers[:_MOST_CONTAINERS] if isinstance(containers, list) else ():
        found = _plus(found, _requests(container))
    return found


def _requests(container: Any) -> Amounts:
    """The requests of a container; a limit without a request is one."""
    limits, requests = at(container, "resources", "limits"), at(container, "resources", "requests")
    return _safe(limits) | _safe(requests)


def _safe(resources: Any) -> Amounts:
    if not isinstance(resources, Mapping) or len(resources) > 64:
        return {}
    return amounts_of({key: value for key, value in resources.items() if isinstance(value, (str, int, float))})


def _plus(one: Amounts, other: Mapping[str, int]) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in one.keys() | other.keys()}


def gang_request(spec: BatchJobSpec, requests: Sequence[Amounts]) -> Amounts:
    """The least that the smallest gang of a job needs at once, resource by resource."""
    needed = [min(task.needed, task.replicas) for task in spec.tasks]
    everywhere = sum(needed) <= spec.needed
    fixed = needed if everywhere else [0] * len(needed)
    room = [task.replicas - count for task, count in zip(spec.tasks, fixed, strict=True)]
    found: Amounts = {}
    for name in set().union(*requests) if requests else ():
        each = [one.get(name, 0) for one in requests]
        total = sum(units * count for units, count in zip(each, fixed, strict=True))
        left = max(spec.needed - sum(fixed), 0)
        for units, free in sorted(zip(each, room, strict=True)):
            taken = min(left, free)
            total, left = total + units * taken, left - taken
        found[name] = total
    return found


def gang_of(spec: BatchJobSpec) -> Amounts:
    """As :func:`gang_request`, of a job whose pods are as it says."""
    return gang_request(spec, [pod_request(at(task.template, "spec")) for task in spec.tasks])


def job_fits(spec: BatchJobSpec, context: Context) -> Findings:
    """Whether a job could ever start, as far as the queues' limits and the nodes' sizes tell."""
    requests = [pod_request(at(task.template, "spec")) for task in spec.tasks]
    found = Findings()
    if context.policy.gang_above_capability != "allow":
        over = tuple(_over_capability("spec.queue", spec.queue, gang_request(spec, requests), context))
        found = _added(found, over, context.policy.gang_above_capability)
    if context.policy.pod_above_nodes != "allow" and context.rooms:
        paths = [f"spec.tasks[{number}].template.spec" for number in range(len(requests))]
        counted = [
            one for one, task in zip(zip(paths, requests, strict=True), spec.tasks, strict=True) if task.replicas
        ]
        over = tuple(problem for path, request in counted for problem in _over_nodes(path, request, context.rooms))
        found = _added(found, over, context.policy.pod_above_nodes)
    return found


def group_fits(path: str, queue: str, needs: Amounts, context: Context) -> Findings:
    """Whether a PodGroup could ever start that says what it needs."""
    severity = context.policy.gang_above_capability
    return _added(Findings(), tuple(_over_capability(path, queue, needs, context)), severity)


def pod_fits(spec: Any, context: Context) -> Findings:
    """Whether there is a node that a pod could ever be on."""
    if context.policy.pod_above_nodes == "allow" or not context.rooms:
        return Findings()
    return _added(
        Findings(), tuple(_over_nodes("spec", pod_request(spec), context.rooms)), context.policy.pod_above_nodes
    )


def _added(found: Findings, over: tuple[Problem, ...], severity: str) -> Findings:
    if severity == "refuse":
        return Findings(found.problems + over, found.warnings)
    return Findings(found.problems, found.warnings + over) if severity == "warn" else found


def _over_capability(path: str, name: str, needs: Amounts, context: Context) -> Iterator[Problem]:
    for queue in lineage(name, context.queues or {}):
        limits = amounts_of(queue.spec.capability)
        short = [
            f"{text(resource, units)} {resource} of at most {text(resource, limits[resource])}"
            for resource, units in sorted(needs.items())
            if resource in limits and units > limits[resource]
        ]
        if short:
            which = (
                f"queue {name!r}" if queue.metadata.name == name else f"queue {queue.metadata.name!r} above {name!r}"
            )
            yield Problem(path, f"the gang could never start: it needs {', '.join(short)} that {which} may hold")
            return


def _over_nodes(path: str, request: Amounts, rooms: Sequence[Mapping[str, int]]) -> Iterator[Problem]:
    request = {name: units for name, units in request.items() if name != "pods"}
    if any(_covers(room, request) for room in rooms):
        return
    lacking = [
        f"{text(name, units)} {name} (the largest node has {text(name, max(room.get(name, 0) for room in rooms))})"
        for name, units in sorted(request.items())
        if all(room.get(name, 0) < units for room in rooms)
    ]
    says = ", ".join(lacking) or ", ".join(f"{text(name, units)} {name}" for name, units in sorted(request.items()))
    together = "" if lacking else " together"
    yield Problem(path, f"no node is large enough: the pod asks for {says}{together}")
