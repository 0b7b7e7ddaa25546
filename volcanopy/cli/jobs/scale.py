"""``volcanopy job scale``: the number of replicas of a task."""

from copy import deepcopy
from typing import Any

from volcanopy.api.batch_read import BatchJob
from volcanopy.api.quantity import counted
from volcanopy.cli.framework.changes import ChangeWriter
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption, WriteOptions
from volcanopy.client.errors import CommandError
from volcanopy.client.jobs.status import FINISHED, phase
from volcanopy.client.kinds import read
from volcanopy.client.objects import find_object
from volcanopy.kube.client.api_client import PatchType
from volcanopy.kube.client.raw_kinds import JOBS


async def scale(
    cluster: ClusterOptions,
    place: NamespaceOption,
    write: WriteOptions,
    name: str,
    task_name: str,
    replicas: int,
    minimum: int | None,
) -> None:
    """Set the replicas of a task (of the only one, if none is named), and its ``minAvailable`` if that is given, which is that of a job with one task."""
    async with cluster.client() as client:
        body = await find_object(client, JOBS, place.of(client), name)
        job = read(BatchJob, body)
        number = _task_number(job, task_name)
        task = job.spec.tasks[number]
        if phase(job) in FINISHED:
            raise CommandError(f'job "{job.metadata.name}" is {phase(job)}: finished jobs cannot be scaled')
        _check(job, number, replicas, minimum)
        path = f"/spec/tasks/{number}"
        # The first operation rejects the patch where the order of the tasks has changed.
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": f"{path}/name", "value": task.name},
            {"op": "add", "path": f"{path}/replicas", "value": replicas},
        ]
        after = deepcopy(body)
        after["spec"]["tasks"][number]["replicas"] = replicas
        if minimum is not None:
            patch.append({"op": "add", "path": f"{path}/minAvailable", "value": minimum})
            after["spec"]["tasks"][number]["minAvailable"] = minimum
            if _is_minimum_of_job(job):
                patch.append({"op": "add", "path": "/spec/minAvailable", "value": minimum})
                after["spec"]["minAvailable"] = minimum
        await ChangeWriter(write).patch(client, JOBS, body, patch, after, "scaled", PatchType.JSON)


def _task_number(job: BatchJob, name: str) -> int:
    """Return the position of the task; raises CommandError when it does not exist or is not given."""
    names = [task.name for task in job.spec.tasks]
    if not name and len(names) == 1:
        return 0
    if not name:
        raise CommandError(f'job "{job.metadata.name}" has several tasks: use --task ({", ".join(names)})', 2)
    if name not in names:
        raise CommandError(f'--task: job "{job.metadata.name}" has no task "{name}", only {", ".join(names)}')
    return names.index(name)


def _is_minimum_of_job(job: BatchJob) -> bool:
    """Whether the minimum of a task is that of its job, which has one task and a minimum of its own."""
    return len(job.spec.tasks) == 1 and bool(job.spec.min_available)


def _check(job: BatchJob, number: int, replicas: int, minimum: int | None) -> None:
    """Raise CommandError with the option to use for what the server would reject."""
    task = job.spec.tasks[number]
    task_minimum = task.min_available if minimum is None else minimum
    if task_minimum is not None and task_minimum > replicas:
        raise CommandError(
            f'--replicas: task "{task.name}" has minAvailable {task_minimum}: '
            f"use --replicas {task_minimum} or more, or lower it with --min",
            2,
        )
    others = sum(other.replicas for place, other in enumerate(job.spec.tasks) if place != number)
    if job.spec.min_available > others + replicas and not (minimum is not None and _is_minimum_of_job(job)):
        lower = ", or lower it with --min" if _is_minimum_of_job(job) else ""
        raise CommandError(
            f'--replicas: job "{job.metadata.name}" has minAvailable {job.spec.min_available} and would have '
            f"{counted(others + replicas, 'pod')}: use --replicas {job.spec.min_available - others} or more{lower}",
            2,
        )
