"""What is wrong with a BatchJob that its schema cannot say: its queue, its plugins, circles among its tasks."""

from collections.abc import Iterable, Iterator, Mapping

from volcanopy.admission.plugins import PluginCheck
from volcanopy.api import names
from volcanopy.api.batch import BatchJob, BatchJobSpec
from volcanopy.api.core import Queue
from volcanopy.api.dependencies import circle
from volcanopy.api.model import InvalidObjectError, Json, Problem


def job_problems(manifest: Json, queues: Mapping[str, Queue] | None, plugins: PluginCheck) -> Iterator[Problem]:
    """Everything that is wrong with a job; ``queues`` is None when they need not be looked at."""
    try:
        job = BatchJob.read(manifest, unknown="refuse")
    except InvalidObjectError as error:
        yield from error.problems
        return
    yield from _amounts(job.spec)
    yield from _dependencies(job.spec)
    yield from _names(job)
    yield from plugins(job)
    if queues is not None:
        yield from _queue(job.spec.queue, queues)


def _amounts(spec: BatchJobSpec) -> Iterator[Problem]:
    if spec.min_available > spec.replicas:
        told = f"{spec.min_available} is more than the {spec.replicas} replicas of all tasks together"
        yield Problem("spec.minAvailable", told)
    for number, task in enumerate(spec.tasks):
        if task.needed > task.replicas:
            path = f"spec.tasks[{number}].minAvailable"
            yield Problem(path, f"{task.needed} is more than the {task.replicas} replicas of task {task.name}")


def _dependencies(spec: BatchJobSpec) -> Iterator[Problem]:
    known = {task.name for task in spec.tasks}
    waits: list[tuple[str, str]] = []
    for number, task in enumerate(spec.tasks):
        for position, name in enumerate(task.depends_on.name if task.depends_on else ()):
            if name in known:
                waits.append((task.name, name))
            else:
                path = f"spec.tasks[{number}].dependsOn.name[{position}]"
                yield Problem(path, f"the job has no task {name!r}: choose from {', '.join(sorted(known))}")
    if way := circle(waits):
        yield Problem("spec.tasks", f"tasks wait for each other in a circle: {way}")


def _names(job: BatchJob) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, task in enumerate(job.spec.tasks):
        if task.name in seen:
            yield Problem(f"spec.tasks[{number}].name", f"there is more than one task {task.name!r}")
        seen.add(task.name)
        longest = f"{job.metadata.name}-{task.name}-{max(task.replicas - 1, 0)}"
        if len(longest) > 63:
            told = f"its pods would be called {longest}, which has {len(longest)} characters: 63 are allowed"
            yield Problem(f"spec.tasks[{number}].name", told)


def _queue(name: str, queues: Mapping[str, Queue]) -> Iterable[Problem]:
    queue = queues.get(name)
    children = sorted(one.metadata.name for one in queues.values() if one.spec.parent == name)
    if name == names.ROOT_QUEUE:
        return [Problem("spec.queue", "the root queue takes no jobs: choose a queue below it")]
    if queue is None:
        return [Problem("spec.queue", f"there is no queue {name!r}: make it first, or choose another one")]
    if queue.status.state not in {"", "Open"}:
        return [Problem("spec.queue", f"queue {name!r} is {queue.status.state} and takes no new jobs")]
    if children:
        told = f"queue {name!r} is divided into {', '.join(children)}: choose one of those"
        return [Problem("spec.queue", told)]
    return []
