"""``volcanopy job``: commands for batch jobs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of
from volcanopy.cli.framework.options import (
    NAME,
    QUEUE,
    Cluster,
    Files,
    Place,
    Selection,
    Timeout,
    WriteOptions,
)
from volcanopy.cli.framework.resource import Resource, add_bus_command, add_commands

app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, NAME]


@dataclass(frozen=True)
class JobFilter:
    """Filters of jobs."""

    queue: Annotated[list[str] | None, QUEUE] = None
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only jobs in this phase. Repeatable.")
    ] = None


JOB = Resource(
    "job",
    "jobs",
    "volcanopy.cli.jobs.views",
    details="tasks, pods, conditions and events",
    deletion=" and their pods",
    filter=JobFilter,
    list_examples=(
        "list",
        "list -A --queue research --phase Pending",
        "list -l team=blue -o wide --watch",
    ),
)


class Restart(StrEnum):
    """Restart policies of containers."""

    Never = "Never"
    OnFailure = "OnFailure"


@command(
    app,
    "run",
    examples=[
        "volcanopy job run --name hello --image busybox -- echo hello",
        "volcanopy job run --name train --image trainer --replicas 8 --min 4 --cpu 2 --memory 4Gi --queue research",
        "volcanopy job run --image trainer --resource nvidia.com/gpu=1 --dry-run=client -o yaml > job.yaml",
    ],
)
async def run(
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="Image of the container.")],
    cluster: Cluster,
    place: Place,
    write: WriteOptions,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND ARGS...]", help="Command of the container.", show_default=False),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the job; by default job-xxxxx.")] = "",
    replicas: Annotated[int, typer.Option("-r", "--replicas", min=1, help="Number of pods.")] = 1,
    minimum: Annotated[
        int | None,
        typer.Option("-m", "--min", min=1, metavar="N", help="Pods that must start together; by default all."),
    ] = None,
    cpu: Annotated[str, typer.Option("--cpu", metavar="QUANTITY", help="CPU request and limit of a pod.")] = "1",
    memory: Annotated[
        str, typer.Option("--memory", metavar="QUANTITY", help="Memory request and limit of a pod.")
    ] = "100Mi",
    resource: Annotated[
        list[str] | None,
        typer.Option("--resource", metavar="NAME=QUANTITY", help="Request and limit of another resource. Repeatable."),
    ] = None,
    queue: Annotated[
        str,
        typer.Option("-q", "--queue", metavar="NAME", help="Queue of the job.", autocompletion=names_of("queue")),
    ] = "",
    priority_class: Annotated[
        str, typer.Option("--priority-class", metavar="NAME", help="PriorityClass of the job.")
    ] = "",
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="Name of the task, part of pod names.")] = "main",
    env: Annotated[
        list[str] | None, typer.Option("-e", "--env", metavar="NAME=VALUE", help="Environment variable. Repeatable.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="Label of job and pods. Repeatable.")
    ] = None,
    annotation: Annotated[
        list[str] | None,
        typer.Option("--annotation", metavar="NAME=VALUE", help="Annotation of job and pods. Repeatable."),
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", metavar="NAME[=ARGS]", help="Job plugin, such as svc. Repeatable.")
    ] = None,
    restart: Annotated[Restart, typer.Option("--restart", help="Restart policy of containers.")] = Restart.Never,
    max_retry: Annotated[
        int | None, typer.Option("--max-retry", min=0, metavar="N", help="Number of restarts that fail the job.")
    ] = None,
    ttl: Annotated[
        int | None, typer.Option("--ttl", min=0, metavar="SECONDS", help="Time until a finished job is deleted.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print the logs until the job finishes; fail if the job fails.")
    ] = False,
) -> None:
    """Create a job of equal pods from options."""
    from volcanopy.cli.jobs import run as job_run

    options = job_run.JobOptions(
        name=name,
        image=image,
        task=task,
        replicas=replicas,
        minimum=minimum,
        cpu=cpu,
        memory=memory,
        resources=resource or (),
        queue=queue,
        priority_class=priority_class,
        environment=env or (),
        labels=label or (),
        annotations=annotation or (),
        plugins=plugin or (),
        restart=restart.value,
        max_retry=max_retry,
        ttl=ttl,
        command=arguments or (),
    )
    await job_run.run(cluster, place, write, options, follow=follow)


@command(app, "submit", examples=["volcanopy job submit -f job.yaml", "volcanopy job submit -f jobs/ --dry-run=server"])
async def submit(
    files: Files,
    cluster: Cluster,
    place: Place,
    write: WriteOptions,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Overwrite fields of other field managers.")
    ] = False,
) -> None:
    """Apply jobs and the other objects of manifests."""
    from volcanopy.cli.framework.apply import apply_files

    await apply_files(cluster, place.namespace, files, write, kind="BatchJob", force_conflicts=force_conflicts)


add_commands(app, JOB, "list", "get", "describe")


@command(
    app,
    "logs",
    examples=[
        "volcanopy job logs training",
        "volcanopy job logs training --task worker --index 0 --tail 20",
        "volcanopy job logs training -f",
    ],
)
async def logs(
    name: Name,
    cluster: Cluster,
    place: Place,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until the job finishes.")] = False,
    task: Annotated[str, typer.Option("-t", "--task", metavar="NAME", help="Only pods of this task.")] = "",
    index: Annotated[
        int | None, typer.Option("--index", min=0, metavar="N", help="Only the pod with this index.")
    ] = None,
    container: Annotated[
        str, typer.Option("-c", "--container", metavar="NAME", help="Name of the container; by default the first.")
    ] = "",
    all_containers: Annotated[bool, typer.Option("--all-containers", help="All containers of each pod.")] = False,
    previous: Annotated[bool, typer.Option("-p", "--previous", help="Logs before the last restart.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Number of last lines of each log.")
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Maximum age of lines, such as 10m.")] = "",
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Time of each line.")] = False,
    prefix: Annotated[
        bool | None,
        typer.Option(
            "--prefix/--no-prefix", help="Pod of each line; by default with several logs.", show_default=False
        ),
    ] = None,
) -> None:
    """Print the logs of a job's pods."""
    from volcanopy.cli.framework.durations import seconds
    from volcanopy.cli.jobs import logs as job_logs

    options = job_logs.LogOptions(
        task=task,
        index=index,
        container=container,
        all_containers=all_containers,
        previous=previous,
        tail=tail,
        seconds=max(1, round(seconds("--since", since))) if since else None,
        timestamps=timestamps,
        prefix=prefix,
    )
    await job_logs.logs(cluster, place, name, options, follow=follow)


_COMMANDS = "volcanopy.cli.jobs.commands"
add_bus_command(app, JOB, "suspend", "Suspend jobs: delete their pods until they are resumed.", _COMMANDS)
add_bus_command(app, JOB, "resume", "Resume suspended jobs: create their pods again.", _COMMANDS)
add_bus_command(
    app,
    JOB,
    "restart",
    "Restart jobs: delete all pods and create them again.\n\nA restart counts as a retry.",
    _COMMANDS,
)
add_bus_command(app, JOB, "terminate", "Terminate jobs for good, with phase Terminated.", _COMMANDS)
add_bus_command(app, JOB, "complete", "Complete jobs for good, with phase Completed.", _COMMANDS)


@command(app, "scale", examples=["volcanopy job scale training --task worker --replicas 6"])
async def scale(
    name: Name,
    replicas: Annotated[int, typer.Option("-r", "--replicas", min=0, metavar="N", help="Number of pods of the task.")],
    cluster: Cluster,
    place: Place,
    write: WriteOptions,
    task: Annotated[
        str, typer.Option("-t", "--task", metavar="NAME", help="Name of the task; required if there are several.")
    ] = "",
    current: Annotated[
        int | None, typer.Option("--current-replicas", min=0, metavar="N", help="Required current number of pods.")
    ] = None,
    minimum: Annotated[
        int | None, typer.Option("-m", "--min", min=0, metavar="N", help="New minAvailable of the task.")
    ] = None,
) -> None:
    """Change the number of pods of a task."""
    from volcanopy.cli.jobs import scale as job_scale

    await job_scale.scale(cluster, place, write, name, task, replicas, current, minimum)


add_commands(app, JOB, "delete")


@command(
    app,
    "wait",
    examples=[
        "volcanopy job wait training --for=completed --timeout=10m",
        "volcanopy job wait -l team=blue --for=phase=Running",
    ],
    noun=JOB.noun,
)
async def wait(
    selection: Selection,
    cluster: Cluster,
    place: Place,
    goal: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="GOAL",
            help="A phase, such as completed, running or failed; finished; deleted; phase=NAME; condition=NAME.",
        ),
    ] = "completed",
    timeout: Timeout = "30s",
) -> None:
    """Wait until jobs reach a phase.

    Fails at the timeout, and as soon as a job cannot reach the phase any more.
    """
    from volcanopy.cli.framework.durations import timeout_seconds
    from volcanopy.cli.jobs import wait as job_wait

    await job_wait.wait(cluster, place, selection, job_wait.goal(goal), timeout_seconds(timeout))
