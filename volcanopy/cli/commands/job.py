"""``volcanopy job``: the commands for batch jobs, with their options."""

from enum import StrEnum
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of, names_of_group
from volcanopy.cli.framework.options import QUEUE, Chosen, Cluster, Deletion, Place, Scope, Show, Written

app = typer.Typer(rich_markup_mode=None)

Names = Annotated[
    list[str], typer.Argument(metavar="NAME", hidden=True, help="Names of jobs.", autocompletion=names_of_group)
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="A sentence that the job's status will tell.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is carried out.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait, such as 30s or 5m.")]
Files = Annotated[
    list[str],
    typer.Option("-f", "--filename", metavar="FILE", help="Manifests: a file, a folder, or - for standard input."),
]


class Restart(StrEnum):
    """Whether a container that ends is started again in its pod."""

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
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="The container's image.")],
    cluster: Cluster,
    place: Place,
    written: Written,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND ARGS...]", help="What to run.", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The job's name; job-xxxxx if not given.")] = "",
    replicas: Annotated[int, typer.Option("-r", "--replicas", min=1, help="How many pods.")] = 1,
    least: Annotated[
        int | None,
        typer.Option("-m", "--min", min=1, metavar="N", help="How many must start together; all if not given."),
    ] = None,
    cpu: Annotated[str, typer.Option("--cpu", metavar="QUANTITY", help="Cpu of a pod, as request and limit.")] = "1",
    memory: Annotated[str, typer.Option("--memory", metavar="QUANTITY", help="Memory of a pod, likewise.")] = "100Mi",
    resource: Annotated[
        list[str] | None, typer.Option("--resource", metavar="NAME=QUANTITY", help="Something else. Repeatable.")
    ] = None,
    queue: Annotated[
        str,
        typer.Option("-q", "--queue", metavar="NAME", help="The queue to wait in.", autocompletion=names_of("queue")),
    ] = "",
    priority_class: Annotated[str, typer.Option("--priority-class", metavar="NAME", help="Its PriorityClass.")] = "",
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="What its pods are called after it.")] = "main",
    env: Annotated[list[str] | None, typer.Option("-e", "--env", metavar="NAME=VALUE", help="Repeatable.")] = None,
    label: Annotated[list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="Repeatable.")] = None,
    annotation: Annotated[
        list[str] | None, typer.Option("--annotation", metavar="NAME=VALUE", help="Repeatable.")
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", metavar="NAME[=ARGS]", help="A job plugin, such as svc. Repeatable.")
    ] = None,
    restart: Annotated[Restart, typer.Option("--restart", help="Of containers in their pod.")] = Restart.Never,
    max_retry: Annotated[
        int | None, typer.Option("--max-retry", min=0, metavar="N", help="Restarts that fail it.")
    ] = None,
    ttl: Annotated[
        int | None, typer.Option("--ttl", min=0, metavar="SECONDS", help="Deleted so long after its end.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print its logs until it ends; fail if it does.")] = False,
) -> None:
    """Make a job of equal pods from options."""
    from volcanopy.cli.jobs import following
    from volcanopy.cli.jobs import run as job_run

    asked = job_run.Asked(
        name=name,
        image=image,
        task=task,
        replicas=replicas,
        least=least,
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
        command=words or (),
    )
    made = await job_run.run(cluster, place, written, asked)
    if follow and made is not None:
        await following.to_the_end(cluster, *made)


@command(app, "submit", examples=["volcanopy job submit -f job.yaml", "volcanopy job submit -f jobs/ --dry-run=server"])
async def submit(
    files: Files,
    cluster: Cluster,
    place: Place,
    written: Written,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that others have set.")
    ] = False,
) -> None:
    """Apply manifests of jobs, and of what stands beside them."""
    from volcanopy.cli.framework.apply import put

    await put(cluster, place.namespace, files, written, about="BatchJob", apply=True, take_over=force_conflicts)


@command(
    app,
    "list",
    examples=[
        "volcanopy job list",
        "volcanopy job list -A --queue research --phase Pending",
        "volcanopy job list -l team=blue -o wide --watch",
    ],
)
async def list_jobs(
    cluster: Cluster,
    scope: Scope,
    show: Show,
    queue: Annotated[list[str] | None, QUEUE] = None,
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only those in this phase. Repeatable.")
    ] = None,
) -> None:
    """List jobs: phase, pods, queue, age, and why they wait."""
    from volcanopy.cli.jobs import lists

    await lists.list_jobs(cluster, scope, show, queue or (), phase or ())


@command(app, "get", examples=["volcanopy job get training -o yaml", "volcanopy job get training --watch"])
async def get(names: Names, cluster: Cluster, place: Place, show: Show) -> None:
    """Show jobs by name, as a table or as whole objects."""
    from volcanopy.cli.framework.lists import show_named
    from volcanopy.cli.jobs.columns import VIEW

    async with cluster.client() as client:
        await show_named(client, VIEW, place.of(client), names, show)


@command(app, "describe", examples=["volcanopy job describe training"])
async def describe(which: Chosen, cluster: Cluster, place: Place) -> None:
    """Tell all about jobs: tasks, pods, conditions and events."""
    from volcanopy.cli.framework.kinds import JOBS
    from volcanopy.cli.framework.lists import describe_chosen
    from volcanopy.cli.jobs.description import description

    async with cluster.client() as client:
        await describe_chosen(client, JOBS, place.of(client), which, description)


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
    name: Annotated[
        str, typer.Argument(metavar="NAME", hidden=True, help="Name of a job.", autocompletion=names_of_group)
    ],
    cluster: Cluster,
    place: Place,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    task: Annotated[str, typer.Option("-t", "--task", metavar="NAME", help="Only the pods of this task.")] = "",
    index: Annotated[
        int | None, typer.Option("--index", min=0, metavar="N", help="Only the pod with this index.")
    ] = None,
    container: Annotated[str, typer.Option("-c", "--container", metavar="NAME", help="Not the first container.")] = "",
    all_containers: Annotated[bool, typer.Option("--all-containers", help="All containers of each pod.")] = False,
    previous: Annotated[bool, typer.Option("-p", "--previous", help="Of the run before the last restart.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Only so many last lines of each.")
    ] = None,
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Only what is newer, such as 10m.")] = "",
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
    prefix: Annotated[
        bool | None,
        typer.Option(
            "--prefix/--no-prefix",
            help="Begin each line with its pod; if there are several, by default.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print what the pods of a job write."""
    from volcanopy.cli.framework.durations import seconds
    from volcanopy.cli.jobs.logs import Reading
    from volcanopy.cli.jobs.logs import logs as read

    reading = Reading(
        task=task,
        index=index,
        container=container,
        every_container=all_containers,
        previous=previous,
        tail=tail,
        seconds=max(1, round(seconds("--since", since))) if since else None,
        timestamps=timestamps,
        prefix=prefix,
    )
    await read(cluster, place, name, reading, on=follow)


def _wish_command(verb: str, said: str, example: str) -> None:
    """A command that leaves a wish for the controller: they differ in what is wished for."""

    async def act(
        which: Chosen,
        cluster: Cluster,
        place: Place,
        written: Written,
        reason: Reason = "",
        wait_for_it: Wait = False,
        timeout: Timeout = "60s",
    ) -> None:
        from volcanopy.cli.framework.durations import seconds
        from volcanopy.cli.jobs.commands import wish

        limit = seconds("--timeout", timeout) if wait_for_it else None
        await wish(cluster, place, written, which, verb, reason, limit)

    act.__doc__ = said
    command(app, verb, examples=[example])(act)


_wish_command("suspend", "Stop the pods of jobs until they are resumed.", "volcanopy job suspend training --wait")
_wish_command("resume", "Let suspended jobs go on: their pods are made anew.", "volcanopy job resume training")
_wish_command("restart", "Stop all pods of jobs and start anew; costs a retry.", "volcanopy job restart training")
_wish_command("terminate", "End jobs for good, as Terminated.", "volcanopy job terminate training")
_wish_command("complete", "End jobs for good, as Completed.", "volcanopy job complete training")


@command(app, "scale", examples=["volcanopy job scale training --task worker --replicas 6"])
async def scale(
    name: Annotated[
        str, typer.Argument(metavar="NAME", hidden=True, help="Name of a job.", autocompletion=names_of_group)
    ],
    replicas: Annotated[int, typer.Option("-r", "--replicas", min=0, metavar="N", help="How many pods of the task.")],
    cluster: Cluster,
    place: Place,
    written: Written,
    task: Annotated[str, typer.Option("-t", "--task", metavar="NAME", help="The task, if there are several.")] = "",
    current: Annotated[
        int | None, typer.Option("--current-replicas", min=0, metavar="N", help="Only if it has so many now.")
    ] = None,
    least: Annotated[
        int | None, typer.Option("-m", "--min", min=0, metavar="N", help="Change its minAvailable too.")
    ] = None,
) -> None:
    """Give a task of a job more or fewer pods while it runs."""
    from volcanopy.cli.jobs import scale as job_scale

    await job_scale.scale(cluster, place, written, name, task, replicas, current, least)


@command(app, "delete", examples=["volcanopy job delete training", "volcanopy job delete -l team=blue"])
async def delete(which: Chosen, cluster: Cluster, place: Place, written: Written, how: Deletion) -> None:
    """Delete jobs and their pods."""
    from volcanopy.cli.framework import delete as deletion
    from volcanopy.cli.framework.kinds import JOBS

    async with cluster.client() as client:
        await deletion.delete(client, JOBS, place.of(client), written, which, how)


@command(
    app,
    "wait",
    examples=[
        "volcanopy job wait training --for=completed --timeout=10m",
        "volcanopy job wait -l team=blue --for=phase=Running",
    ],
)
async def wait(
    which: Chosen,
    cluster: Cluster,
    place: Place,
    wanted: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="WHAT",
            help="A phase, such as completed, running or failed; finished; deleted; phase=NAME; condition=NAME.",
        ),
    ] = "completed",
    timeout: Timeout = "30s",
) -> None:
    """Wait until jobs have come to a phase, or no longer can.

    Fails when the time is up, and as soon as a job cannot come to that phase any more.
    """
    from volcanopy.cli.framework.durations import seconds
    from volcanopy.cli.jobs import wait as job_wait

    limit = -1.0 if timeout.startswith("-") else seconds("--timeout", timeout)
    await job_wait.wait(cluster, place, which, job_wait.goal(wanted), limit)
