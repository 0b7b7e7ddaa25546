"""Feasibility of jobs: minimum resources against the capability of queues, and pods against the size of nodes.

Where it is not certain how much a job needs at once, the least is assumed, so that no feasible job is rejected.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from volcanopy.admission.access import lineage
from volcanopy.admission.context import Context
from volcanopy.admission.queue_tree import Amounts, amounts_of
from volcanopy.admission.request import at
from volcanopy.admission.response import with_severity
from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.builtin.pod_requests import pod_requests, resources_of_json
from volcanopy.api.model import Problem, invalid
from volcanopy.api.quantity import GROUP_LIMIT, LIMIT, text

_MAX_CONTAINERS = 256
_MAX_RESOURCES = 64


def maximal(nodes: Iterable[Mapping[str, int]]) -> tuple[Amounts, ...]:
    """Return the amounts of the nodes that no other node exceeds in every resource."""
    result: list[Amounts] = []
    distinct = {tuple(sorted(node.items())) for node in nodes}
    for items in sorted(distinct, key=lambda node: (-sum(units for _, units in node), node)):
        amounts = dict(items)
        if not any(_covers(node_amounts, amounts) for node_amounts in result):
            result = [node_amounts for node_amounts in result if not _covers(amounts, node_amounts)]
            result.append(amounts)
    return tuple(result)


def _covers(large: Mapping[str, int], small: Mapping[str, int]) -> bool:
    return all(large.get(name, 0) >= units for name, units in small.items())


def pod_request(spec: Any) -> Amounts:
    """Return the requests of a pod in base units, from its spec as JSON; invalid amounts are left out."""
    total = pod_requests(resources_of_json(spec, _valid_amounts, _MAX_CONTAINERS)) | {"pods": 1}
    return {name: units for name, units in total.items() if units > 0}


def _valid_amounts(resources: Mapping[str, Any]) -> Amounts:
    if len(resources) > _MAX_RESOURCES:
        return {}
    return amounts_of({key: value for key, value in resources.items() if isinstance(value, (str, int, float))})


def extreme_problems(path: str, request: Amounts, limit: int = LIMIT) -> Iterator[Problem]:
    """Yield the resources of which a pod, or a group, requests more than is counted."""
    for name, units in sorted(request.items()):
        if units >= limit:
            most = text(name, limit - limit % 1000 if name == "cpu" else limit)
            yield Problem(path, f"Invalid value: {name} requested is too large: must be less than {most}")


def extreme_job_problems(spec: BatchJobSpec) -> Iterator[Problem]:
    """Yield the resources of which a pod of the job, or all its pods together, request more than is counted."""
    requests = [pod_request(at(task.template, "spec")) for task in spec.tasks]
    problems = [
        problem
        for number, request in enumerate(requests)
        for problem in extreme_problems(f"spec.tasks[{number}].template.spec", request)
    ]
    yield from problems
    total: Amounts = {}
    for task, request in zip(spec.tasks, requests, strict=True):
        for name, units in request.items():
            total[name] = total.get(name, 0) + units * task.replicas
    if not problems:
        yield from extreme_problems("spec.tasks", total, GROUP_LIMIT)


def gang_request(spec: BatchJobSpec, requests: Sequence[Amounts]) -> Amounts:
    """Return the minimum resources of the smallest gang of a job, resource by resource."""
    minimums = [min(task.needed, task.replicas) for task in spec.tasks]
    everywhere = sum(minimums) <= spec.needed
    fixed = minimums if everywhere else [0] * len(minimums)
    optional = [task.replicas - count for task, count in zip(spec.tasks, fixed, strict=True)]
    result: Amounts = {}
    for name in set().union(*requests) if requests else ():
        units_of_requests = [request.get(name, 0) for request in requests]
        total = sum(units * count for units, count in zip(units_of_requests, fixed, strict=True))
        pods_to_add = max(spec.needed - sum(fixed), 0)
        for units, free in sorted(zip(units_of_requests, optional, strict=True)):
            added_pods = min(pods_to_add, free)
            total, pods_to_add = total + units * added_pods, pods_to_add - added_pods
        result[name] = total
    return result


def gang_of(spec: BatchJobSpec) -> Amounts:
    """Return :func:`gang_request` of a job with the pods of its templates."""
    return gang_request(spec, [pod_request(at(task.template, "spec")) for task in spec.tasks])


def job_findings(spec: BatchJobSpec, context: Context) -> Iterable[Problem]:
    """Yield findings if the job could never start, because of the capability of queues or the size of nodes."""
    yield from group_findings("spec.queue", spec.queue, gang_of(spec), context)
    yield from node_findings(spec, context)


def node_findings(spec: BatchJobSpec, context: Context) -> Iterable[Problem]:
    """Yield findings if a pod of the job is larger than every node."""
    for number, task in enumerate(spec.tasks):
        if task.replicas:
            request = pod_request(at(task.template, "spec"))
            yield from _node_findings(f"spec.tasks[{number}].template.spec", request, context)


def group_findings(path: str, queue: str, needs: Amounts, context: Context) -> Iterable[Problem]:
    """Yield findings if a PodGroup with these minimum resources could never start."""
    return with_severity(_above_capability(path, queue, needs, context), context.policy.gang_above_capability)


def pod_findings(spec: Any, context: Context) -> Iterable[Problem]:
    """Yield findings if there is no node that is large enough for the pod."""
    return _node_findings("spec", pod_request(spec), context)


def _node_findings(path: str, request: Amounts, context: Context) -> Iterable[Problem]:
    severity = context.policy.pod_above_nodes
    if severity == "allow" or not context.largest_nodes:
        return ()
    return with_severity(_above_nodes(path, request, context.largest_nodes), severity)


def exceeded(needs: Mapping[str, int], limits: Mapping[str, int], limit: str) -> str:
    """Return the resources that exceed their limits as text, such as ``cpu requested 5, capability 4``."""
    return ", ".join(
        f"{name} requested {text(name, units)}, {limit} {text(name, limits[name])}"
        for name, units in sorted(needs.items())
        if name in limits and units > limits[name]
    )


def _above_capability(path: str, name: str, needs: Amounts, context: Context) -> Iterator[Problem]:
    for queue in lineage(name, context.queues or {}):
        if amounts := exceeded(needs, amounts_of(queue.spec.capability), "capability"):
            yield invalid(path, name, f'can never start: queue "{queue.metadata.name}" capability exceeded: {amounts}')
            return


def _above_nodes(path: str, request: Amounts, nodes: Sequence[Mapping[str, int]]) -> Iterator[Problem]:
    request = {name: units for name, units in request.items() if name != "pods"}
    if any(_covers(node, request) for node in nodes):
        return
    largest = {name: max(node.get(name, 0) for node in nodes) for name in request}
    amounts = exceeded(request, largest, "largest node")
    if not amounts:
        requested = ", ".join(f"{text(name, units)} {name}" for name, units in sorted(request.items()))
        amounts = f"{requested} requested together"
    yield Problem(path, f"Invalid value: no node is large enough: {amounts}")
