"""``volcanopy job``: commands for batch jobs."""

from typing import Annotated, Any

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import (
    NAME,
    ClusterOptions,
    Files,
    NamespaceOption,
    Selection,
    Timeout,
    WriteOptions,
)
from volcanopy.cli.framework.resource import Resource, add_bus_command, add_commands
from volcanopy.cli.jobs.options import JobFilter, LogsOptions, Report, ReportFormat, RunOptions, Since

app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, NAME]


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
        "list -l team=blue -o wide",
    ),
)

PlanOnly = Annotated[
    bool, typer.Option("--plan", help="Create nothing: show when the job would start, and what would let it start.")
]


async def _print_plan(
    cluster: ClusterOptions, place: NamespaceOption, write: WriteOptions, bodies: list[dict[str, Any]]
) -> None:
    from volcanopy.cli.whatif import print_plan

    async with cluster.client() as client:
        as_json = write.output is not None and write.output.value == "json"
        await print_plan(client, bodies, place.of(client), as_json)


@command(
    app,
    "run",
    examples=[
        "volcanopy job run --name hello --image busybox -- echo hello",
        "volcanopy job run --name train --image trainer --replicas 8 --min 4 --cpu 2 --memory 4Gi --queue research",
        "volcanopy job run --image trainer --gpus 1 --dry-run=client -o yaml > job.yaml",
        "volcanopy job run --here --follow -- python train.py",
        "volcanopy job run --array 1-100%10 --script sweep.sh",
        "volcanopy job run --interactive -- bash",
    ],
)
async def run(
    options: RunOptions, cluster: ClusterOptions, place: NamespaceOption, write: WriteOptions, plan: PlanOnly = False
) -> None:
    """Create a job of equal pods from options."""
    from volcanopy.cli.jobs import run as job_run
    from volcanopy.client.jobs.manifest import manifest

    if plan:
        await _print_plan(cluster, place, write, [manifest(options)])
        return
    await job_run.run(cluster, place, write, options)


@command(
    app,
    "submit",
    examples=[
        "volcanopy job submit -f job.yaml",
        "volcanopy job submit -f jobs/ --dry-run=server",
        "volcanopy job submit -f job.yaml --plan",
    ],
)
async def submit(
    files: Files,
    cluster: ClusterOptions,
    place: NamespaceOption,
    write: WriteOptions,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Overwrite fields of other field managers.")
    ] = False,
    plan: PlanOnly = False,
) -> None:
    """Apply jobs and the other objects of manifests."""
    from volcanopy.cli.framework.apply import apply_files
    from volcanopy.cli.manifests import read

    if plan:
        await _print_plan(cluster, place, write, [manifest.body for manifest in read(files)])
        return
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
async def logs(name: Name, options: LogsOptions, cluster: ClusterOptions, place: NamespaceOption) -> None:
    """Print the logs of a job's pods."""
    from volcanopy.cli.jobs import logs as job_logs

    await job_logs.logs(cluster, place, name, options)


@command(
    app,
    "history",
    examples=[
        "volcanopy job history training",
        "volcanopy job history --since 7d",
        "volcanopy job history training -o json",
    ],
)
async def history(
    cluster: ClusterOptions,
    place: NamespaceOption,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the job; by default all jobs.")] = "",
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")] = False,
    since: Since = "",
    output: Report = ReportFormat.table,
) -> None:
    """Print what jobs did and used, also deleted ones.

    With a name, every job that had this name: when it was queued, admitted, placed, evicted and by what, and finished.
    """
    from volcanopy.cli.jobs import history as job_history

    await job_history.history(cluster, place.namespace, all_namespaces, name, since, output)


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
    cluster: ClusterOptions,
    place: NamespaceOption,
    write: WriteOptions,
    task: Annotated[
        str, typer.Option("-t", "--task", metavar="NAME", help="Name of the task; required if there are several.")
    ] = "",
    minimum: Annotated[
        int | None,
        typer.Option("-m", "--min", min=0, metavar="N", help="New minAvailable of the task, or of a job of one task."),
    ] = None,
) -> None:
    """Change the number of pods of a task."""
    from volcanopy.cli.jobs import scale as job_scale

    await job_scale.scale(cluster, place, write, name, task, replicas, minimum)


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
    cluster: ClusterOptions,
    place: NamespaceOption,
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
    from volcanopy.cli.jobs import commands
    from volcanopy.client.durations import timeout_seconds
    from volcanopy.client.jobs.wait import goal as goal_of

    await commands.wait(cluster, place, selection, goal_of(goal), timeout_seconds(timeout))
