"""Warnings about jobs and pods that are valid but probably not intended."""

from collections.abc import Iterator
from typing import Any

from volcanopy.admission.context import Context
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.request import at
from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.model import Problem, invalid, not_found

_MAX_CONTAINERS = 64


def job_warnings(spec: BatchJobSpec, context: Context, prefix: str = "") -> Iterator[Problem]:
    """Yield the warnings of a job; ``prefix`` is prepended to each path."""
    for number, task in enumerate(spec.tasks):
        path = f"{prefix}spec.tasks[{number}]"
        if task.min_available == 0 and task.replicas:
            yield invalid(f"{path}.minAvailable", 0, f'the job can run without any pod of task "{task.name}"')
        if not task.replicas:
            yield invalid(f"{path}.replicas", 0, f'task "{task.name}" has no pods')
        yield from pod_warnings(at(task.template, "spec"), f"{path}.template.spec", context)
    yield from _priority(spec.priority_class_name, f"{prefix}spec.priorityClassName", context)
    if spec.scheduler_name not in context.policy.scheduler_names:
        detail = "pods of another scheduler are neither scheduled as a gang nor counted in the queue"
        yield invalid(f"{prefix}spec.schedulerName", spec.scheduler_name, detail)


def queue_warnings(path: str, name: str, context: Context) -> Iterator[Problem]:
    """Yield the warnings of a queue that jobs are submitted to later."""
    if context.queues is None:
        return
    queue = context.queues.get(name)
    if queue is None:
        yield not_found(path, "queue", name, "jobs are rejected until it exists")
    elif queue.status.state not in {"", "Open"}:
        yield invalid(path, name, f"queue is {queue.status.state}: jobs are rejected until it is open")


def pod_warnings(spec: Any, path: str, context: Context) -> Iterator[Problem]:
    """Yield the warnings of a pod's spec, given as JSON."""
    for kind in ("containers", "initContainers"):
        containers = at(spec, kind)
        for number, container in enumerate(containers[:_MAX_CONTAINERS] if isinstance(containers, list) else ()):
            yield from _container(container, f"{path}.{kind}[{number}].resources")
    name = at(spec, "priorityClassName")
    yield from _priority(name if isinstance(name, str) else "", f"{path}.priorityClassName", context)


def _container(container: Any, path: str) -> Iterator[Problem]:
    requests, limits = (_quantities(at(container, "resources", kind)) for kind in ("requests", "limits"))
    maximum = amounts_of(limits)
    for name, units in amounts_of(requests).items():
        if name in maximum and units > maximum[name]:
            detail = f"must be less than or equal to the limit ({limits[name]}): pods will be rejected"
            yield invalid(f"{path}.requests[{name}]", requests[name], detail)
        elif units == 0:
            yield invalid(f"{path}.requests[{name}]", requests[name], "nothing is reserved for the container")


def _quantities(resources: Any) -> dict[str, str | int | float]:
    if not isinstance(resources, dict) or len(resources) > 64:
        return {}
    return {key: value for key, value in resources.items() if isinstance(value, (str, int, float))}


def _priority(name: str, path: str, context: Context) -> Iterator[Problem]:
    if name and context.priority_classes is not None and name not in context.priority_classes:
        yield not_found(path, "PriorityClass", name, "pods are rejected until it exists")
