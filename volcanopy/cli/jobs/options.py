"""Options of ``job list``, ``job run``, ``job logs``, ``job history`` and ``usage``."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from volcanopy.cli.framework.name_completion import names_of
from volcanopy.cli.framework.options import QUEUE

INT32 = 2**31 - 1
"""Largest number of a field with the format int32."""


class Restart(StrEnum):
    """Restart policies of containers."""

    Never = "Never"
    OnFailure = "OnFailure"


@dataclass(frozen=True)
class JobFilter:
    """Filters of jobs."""

    queue: Annotated[list[str] | None, QUEUE] = None
    phase: Annotated[
        list[str] | None, typer.Option("--phase", metavar="PHASE", help="Only jobs in this phase. Repeatable.")
    ] = None


@dataclass(frozen=True)
class JobOptions:
    """Fields of a job of equal pods; resources, variables, labels and annotations are ``name=value`` texts."""

    image: Annotated[
        str,
        typer.Option("--image", metavar="IMAGE", help="Image of the container; process nodes do not use it."),
    ] = ""
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND ARGS...]", help="Command of the container.", show_default=False),
    ] = None
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the job; by default job-xxxxx.")] = ""
    replicas: Annotated[int, typer.Option("-r", "--replicas", min=1, help="Number of pods.")] = 1
    minimum: Annotated[
        int | None,
        typer.Option("-m", "--min", min=1, metavar="N", help="Pods that must start together; by default all."),
    ] = None
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Script to run; COMMAND ARGS are its arguments."),
    ] = None
    array: Annotated[
        str,
        typer.Option(
            "--array",
            metavar="FIRST-LAST[%N]",
            help="Job array: a pod for each index (VC_ARRAY_INDEX), N at a time, each restarted alone if it fails.",
        ),
    ] = ""
    here: Annotated[
        bool,
        typer.Option("--here", help="Run on a process node, in this directory and with this environment."),
    ] = False
    cpu: Annotated[str, typer.Option("--cpu", metavar="QUANTITY", help="CPU request and limit of a pod.")] = "1"
    memory: Annotated[str, typer.Option("--memory", metavar="QUANTITY", help="Memory request and limit of a pod.")] = (
        "100Mi"
    )
    cpu_limit: Annotated[
        str | None, typer.Option("--cpu-limit", metavar="QUANTITY", help="CPU limit if not the request; 0: none.")
    ] = None
    memory_limit: Annotated[
        str | None, typer.Option("--memory-limit", metavar="QUANTITY", help="Memory limit if not the request; 0: none.")
    ] = None
    gpus: Annotated[int, typer.Option("--gpus", min=0, metavar="N", help="GPUs of a pod (nvidia.com/gpu).")] = 0
    resource: Annotated[
        list[str] | None,
        typer.Option("--resource", metavar="NAME=QUANTITY", help="Request and limit of another resource. Repeatable."),
    ] = None
    queue: Annotated[
        str,
        typer.Option("-q", "--queue", metavar="NAME", help="Queue of the job.", autocompletion=names_of("queue")),
    ] = ""
    priority_class: Annotated[
        str, typer.Option("--priority-class", metavar="NAME", help="PriorityClass of the job.")
    ] = ""
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="Name of the task, part of pod names.")] = "main"
    env: Annotated[
        list[str] | None, typer.Option("-e", "--env", metavar="NAME=VALUE", help="Environment variable. Repeatable.")
    ] = None
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="Label of job and pods. Repeatable.")
    ] = None
    annotation: Annotated[
        list[str] | None,
        typer.Option("--annotation", metavar="NAME=VALUE", help="Annotation of job and pods. Repeatable."),
    ] = None
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", metavar="NAME[=ARGS]", help="Job plugin, such as svc. Repeatable.")
    ] = None
    restart: Annotated[
        Restart | None,
        typer.Option(
            "--restart",
            help="Restart policy of containers. Default: Never; OnFailure with --array.",
            show_default=False,
        ),
    ] = None
    max_retry: Annotated[
        int | None,
        typer.Option("--max-retry", min=0, max=INT32, metavar="N", help="Number of restarts that fail the job."),
    ] = None
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="DURATION", help="Time until a finished job is deleted, such as 1h.")
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(
            "--deadline", metavar="DURATION", help="Maximum running time; the job fails after it, such as 2h."
        ),
    ] = None
    estimate: Annotated[
        str, typer.Option("--estimate", metavar="DURATION", help="Expected running time, such as 30m; not enforced.")
    ] = ""
    follow: Annotated[
        bool, typer.Option("--follow", help="Print the logs until the job finishes; fail if the job fails.")
    ] = False
    interactive: Annotated[
        bool,
        typer.Option(
            "-i", "--interactive", help="Connect the terminal with the pod, by default a shell, until it ends."
        ),
    ] = False


@dataclass(frozen=True)
class LogOptions:
    """Selection and format of logs."""

    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until the job finishes.")] = False
    task: Annotated[str, typer.Option("-t", "--task", metavar="NAME", help="Only pods of this task.")] = ""
    index: Annotated[int | None, typer.Option("--index", min=0, metavar="N", help="Only the pod with this index.")] = (
        None
    )
    container: Annotated[
        str, typer.Option("-c", "--container", metavar="NAME", help="Name of the container; by default the first.")
    ] = ""
    all_containers: Annotated[bool, typer.Option("--all-containers", help="All containers of each pod.")] = False
    previous: Annotated[bool, typer.Option("-p", "--previous", help="Logs before the last restart.")] = False
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Number of last lines of each log.")
    ] = None
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Maximum age of lines, such as 10m.")] = ""
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Time of each line.")] = False
    prefix: Annotated[
        bool | None,
        typer.Option(
            "--prefix/--no-prefix", help="Pod of each line; by default with several logs.", show_default=False
        ),
    ] = None


class ReportFormat(StrEnum):
    """Output formats of a report."""

    table = "table"
    json = "json"
    yaml = "yaml"


class By(StrEnum):
    """What usage is summed by."""

    user = "user"
    queue = "queue"
    namespace = "namespace"


Since = Annotated[
    str, typer.Option("--since", metavar="DURATION", help="Only jobs that ended within this time, such as 7d or 12h.")
]
UsageSince = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="DURATION",
        help="Only jobs that ended within this time, such as 12h; by default 7d.",
        show_default=False,
    ),
]
Report = Annotated[ReportFormat, typer.Option("-o", "--output", help="Output format.")]
