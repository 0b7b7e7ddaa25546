"""What a job is given that it does not say, where a schema cannot give it: names and minima that follow from the rest.

The controller reads a job the same with or without these; written into the object they can be seen.
"""

from typing import Any, TypeGuard

from volcanopy.api.model import Json


def default_job(manifest: Json) -> Json:
    """The job with task names, each task's minAvailable and the job's filled in. Leaves alone what has no sense."""
    spec = manifest.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(tasks, list):
        return manifest
    named = [_task(task, number) for number, task in enumerate(tasks)]
    spec = spec | {"tasks": named}
    minima = [task.get("minAvailable") if isinstance(task, dict) else None for task in named]
    if not spec.get("minAvailable") and all(_whole(one) for one in minima):
        spec["minAvailable"] = sum(minima)
    return manifest | {"spec": spec}


def _task(task: Any, number: int) -> Any:
    if not isinstance(task, dict):
        return task
    made = dict(task)
    if not made.get("name"):
        made["name"] = f"default{number}"
    if made.get("minAvailable") is None:
        minimum = _from_partitions(made.get("partitionPolicy")) or made.get("replicas", 1)
        if _whole(minimum):
            made["minAvailable"] = minimum
    return made


def _from_partitions(policy: Any) -> int:
    if not isinstance(policy, dict):
        return 0
    least, size = policy.get("minPartitions"), policy.get("partitionSize")
    return least * size if _whole(least) and _whole(size) else 0


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
