"""``volcanopy job scale``: more or fewer pods of a task."""

from copy import deepcopy
from typing import Any

from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.changes import Changes
from volcanopy.cli.framework.kinds import JOBS, key_of, spec_of
from volcanopy.cli.framework.objects import find_object
from volcanopy.cli.framework.options import Cluster, Place, Written
from volcanopy.cli.jobs.columns import phase
from volcanopy.cli.jobs.phases import FINISHED
from volcanopy.kube.client.api_client import Patch
from volcanopy.kube.client.kinds import Json


async def scale(
    cluster: Cluster,
    place: Place,
    written: Written,
    name: str,
    task: str,
    replicas: int,
    current: int | None,
    least: int | None,
) -> None:
    """Change the replicas of a task (of the only one, if none is named), and how many it needs if that is given."""
    async with cluster.client() as client:
        job = await find_object(client, JOBS, place.of(client), name)
        number = _task(job, task)
        before = spec_of(job)["tasks"][number]
        had = before.get("replicas", 1)
        if phase(job) in FINISHED:
            raise CommandError(f"job {key_of(job).name} is {phase(job)}: it makes no more pods")
        if current is not None and had != current:
            raise CommandError(
                f"task {before['name']} of job {key_of(job).name} has {had} replicas, not {current}: left as it is"
            )
        _check(job, number, replicas, least)
        patch = _patch(job, number, replicas, least)
        after = deepcopy(job)
        after["spec"]["tasks"][number]["replicas"] = replicas
        if least is not None:
            after["spec"]["tasks"][number]["minAvailable"] = least
        await Changes(written).patch(client, JOBS, job, patch, after, "scaled", Patch.JSON)


def _task(job: Json, name: str) -> int:
    """Where the task stands among the job's; raises Stop when it is not there, or which one is meant is not said."""
    names = [task["name"] for task in spec_of(job)["tasks"]]
    if not name and len(names) == 1:
        return 0
    if not name:
        raise CommandError(f"job {key_of(job).name} has several tasks: say which with --task ({', '.join(names)})", 2)
    if name not in names:
        raise CommandError(f"job {key_of(job).name} has no task {name!r}: it has {', '.join(names)}")
    return names.index(name)


def _check(job: Json, number: int, replicas: int, least: int | None) -> None:
    """Say here, with what to do, what the server would refuse in the words of its rules."""
    task = spec_of(job)["tasks"][number]
    needs = task.get("minAvailable") if least is None else least
    if needs is not None and needs > replicas:
        raise CommandError(
            f"task {task['name']} needs {needs} pods (minAvailable): give --min too, or at least {needs} replicas", 2
        )
    rest = sum(one.get("replicas", 1) for place, one in enumerate(spec_of(job)["tasks"]) if place != number)
    together = spec_of(job).get("minAvailable") or 0
    if together > rest + replicas:
        raise CommandError(
            f"job {key_of(job).name} needs {together} pods together (minAvailable), and would have {rest + replicas}: "
            f"give at least {together - rest} replicas",
            2,
        )


def _patch(job: Json, number: int, replicas: int, least: int | None) -> list[dict[str, Any]]:
    """Operations that hold only if the task is still where it was seen."""
    path = f"/spec/tasks/{number}"
    task = spec_of(job)["tasks"][number]
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": f"{path}/name", "value": task["name"]},
        {"op": "add", "path": f"{path}/replicas", "value": replicas},
    ]
    if least is not None:
        patch.append({"op": "add", "path": f"{path}/minAvailable", "value": least})
    return patch
