"""What a job is given that it does not say, where a schema cannot give it: names of its tasks.

Nothing else is written into a job: the controller knows what follows from what is left out. A minimum that was filled in
would still stand there when the replicas are changed, and a list that was changed makes every ``kubectl apply`` of the
same file say "configured".
"""

from typing import Any

from volcanopy.api.model import Json


def default_job(manifest: Json) -> Json:
    """The job with a name for each task that has none. Leaves alone what has no sense."""
    spec = manifest.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(tasks, list):
        return manifest
    return manifest | {"spec": spec | {"tasks": [_task(task, number) for number, task in enumerate(tasks)]}}


def _task(task: Any, number: int) -> Any:
    if not isinstance(task, dict) or task.get("name"):
        return task
    return {"name": f"default{number}", **{key: value for key, value in task.items() if key != "name"}}
