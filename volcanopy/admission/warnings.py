"""What is legal and surely not meant: said as a warning to whoever submits it."""

from collections.abc import Iterator
from typing import Any

from volcanopy.admission.context import Context
from volcanopy.admission.queue_tree import amounts_of
from volcanopy.admission.request import at
from volcanopy.api.batch import BatchJobSpec
from volcanopy.api.model import Problem

_MOST_CONTAINERS = 64


def job_doubts(spec: BatchJobSpec, context: Context, prefix: str = "") -> Iterator[Problem]:
    """What is doubtful about a job; ``prefix`` stands before each path."""
    for number, task in enumerate(spec.tasks):
        path = f"{prefix}spec.tasks[{number}]"
        if task.min_available == 0 and task.replicas:
            yield Problem(f"{path}.minAvailable", f"0: the job starts and goes on without any pod of task {task.name}")
        if not task.replicas:
            yield Problem(f"{path}.replicas", f"0: task {task.name} has no pods")
        yield from pod_doubts(at(task.template, "spec"), f"{path}.template.spec", context)
    yield from _priority(spec.priority_class_name, f"{prefix}spec.priorityClassName", context)
    if spec.scheduler_name not in context.policy.scheduler_names:
        told = f"{spec.scheduler_name!r} is not ours: its pods are neither started together nor counted to the queue"
        yield Problem(f"{prefix}spec.schedulerName", told)


def queue_doubts(path: str, name: str, context: Context) -> Iterator[Problem]:
    """What is doubtful about a queue that jobs will go to later."""
    if context.queues is None:
        return
    queue = context.queues.get(name)
    if queue is None:
        yield Problem(path, f"there is no queue {name!r} yet: jobs are refused until there is")
    elif queue.status.state not in {"", "Open"}:
        yield Problem(path, f"queue {name!r} is {queue.status.state}: jobs are refused until it is open")


def pod_doubts(spec: Any, path: str, context: Context) -> Iterator[Problem]:
    """What is doubtful about a pod's spec, as JSON."""
    for kind in ("containers", "initContainers"):
        found = at(spec, kind)
        for number, container in enumerate(found[:_MOST_CONTAINERS] if isinstance(found, list) else ()):
            yield from _container(container, f"{path}.{kind}[{number}].resources")
    name = at(spec, "priorityClassName")
    yield from _priority(name if isinstance(name, str) else "", f"{path}.priorityClassName", context)


def _container(container: Any, path: str) -> Iterator[Problem]:
    requests, limits = at(container, "resources", "requests"), at(container, "resources", "limits")
    requests = requests if isinstance(requests, dict) and len(requests) <= 64 else {}
    limits = limits if isinstance(limits, dict) and len(limits) <= 64 else {}
    most = amounts_of({key: value for key, value in limits.items() if isinstance(value, (str, int, float))})
    asked = amounts_of({key: value for key, value in requests.items() if isinstance(value, (str, int, float))})
    for name, units in asked.items():
        if name in most and units > most[name]:
            told = f"{requests[name]} is more than the limit of {limits[name]}: such a pod is refused when it is made"
            yield Problem(f"{path}.requests[{name}]", told)
        elif units == 0:
            yield Problem(
                f"{path}.requests[{name}]", "0: nothing is kept for the container, and it is counted as nothing"
            )


def _priority(name: str, path: str, context: Context) -> Iterator[Problem]:
    if name and context.priority_classes is not None and name not in context.priority_classes:
        yield Problem(path, f"there is no PriorityClass {name!r}: pods that name it are refused until there is")
