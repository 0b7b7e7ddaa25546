"""Options of ``job list``, ``job run``, ``job logs``, ``job history`` and ``usage``."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from volcanopy.cli.framework.name_completion import names_of
from volcanopy.cli.framework.options import INT32, QUEUE
from volcanopy.client.jobs.options import JobOptions, LogOptions


@dataclass(frozen=True)
class JobFilter:
    """Filters of jobs."""

    queue: Annotated[list[str] | None, QUEUE] = None
    phase: Annotated[list[str] | None, typer.Option(metavar="PHASE", help="Only jobs in this phase. Repeatable.")] = (
        None
    )


RunOptions = Annotated[
    JobOptions,
    {
        "image": typer.Option(metavar="IMAGE", help="Image of the container; process nodes do not use it."),
        "arguments": typer.Argument(
            metavar="[-- COMMAND ARGS...]", help="Command of the container.", show_default=False
        ),
        "name": typer.Option(metavar="NAME", help="Name of the job; by default job-xxxxx."),
        "replicas": typer.Option("-r", "--replicas", min=1, help="Number of pods."),
        "minimum": typer.Option(
            "-m", "--min", min=1, metavar="N", help="Pods that must start together; by default all."
        ),
        "script": typer.Option(metavar="FILE", help="Script to run; COMMAND ARGS are its arguments."),
        "array": typer.Option(
            metavar="FIRST-LAST[%N]",
            help="Job array: a pod for each index (VC_ARRAY_INDEX), N at a time, each restarted alone if it fails.",
        ),
        "here": typer.Option("--here", help="Run on a process node, in this directory and with this environment."),
        "directory": typer.Option(
            metavar="PATH", help="Directory in which the command runs; with --here by default this one."
        ),
        "cpu": typer.Option(metavar="QUANTITY", help="CPU request and limit of a pod."),
        "memory": typer.Option(metavar="QUANTITY", help="Memory request and limit of a pod."),
        "cpu_limit": typer.Option(metavar="QUANTITY", help="CPU limit if not the request; 0: none."),
        "memory_limit": typer.Option(metavar="QUANTITY", help="Memory limit if not the request; 0: none."),
        "gpus": typer.Option(min=0, metavar="N", help="GPUs of a pod (nvidia.com/gpu)."),
        "resource": typer.Option(metavar="NAME=QUANTITY", help="Request and limit of another resource. Repeatable."),
        "queue": typer.Option(
            "-q", "--queue", metavar="NAME", help="Queue of the job.", autocompletion=names_of("queue")
        ),
        "priority_class": typer.Option(metavar="NAME", help="PriorityClass of the job."),
        "task": typer.Option(metavar="NAME", help="Name of the task, part of pod names."),
        "env": typer.Option("-e", "--env", metavar="NAME=VALUE", help="Environment variable. Repeatable."),
        "label": typer.Option(metavar="NAME=VALUE", help="Label of job and pods. Repeatable."),
        "annotation": typer.Option(metavar="NAME=VALUE", help="Annotation of job and pods. Repeatable."),
        "plugin": typer.Option(metavar="NAME[=ARGS]", help="Job plugin, such as svc. Repeatable."),
        "restart": typer.Option(
            help="Restart policy of containers. Default: Never; OnFailure with --array.", show_default=False
        ),
        "grace_period": typer.Option(
            metavar="DURATION", help="Time between SIGTERM and SIGKILL, such as 2m; by default 30s."
        ),
        "max_retry": typer.Option(min=0, max=INT32, metavar="N", help="Number of restarts that fail the job."),
        "ttl": typer.Option(metavar="DURATION", help="Time until a finished job is deleted, such as 1h."),
        "deadline": typer.Option(metavar="DURATION", help="Maximum running time; the job fails after it, such as 2h."),
        "estimate": typer.Option(metavar="DURATION", help="Expected running time, such as 30m; not enforced."),
        "follow": typer.Option("--follow", help="Print the logs until the job finishes; fail if the job fails."),
        "interactive": typer.Option(
            "-i", "--interactive", help="Connect the terminal with the pod, by default a shell, until it ends."
        ),
    },
]
LogsOptions = Annotated[
    LogOptions,
    {
        "follow": typer.Option("-f", "--follow", help="Continue until the job finishes."),
        "task": typer.Option("-t", "--task", metavar="NAME", help="Only pods of this task."),
        "index": typer.Option(min=0, metavar="N", help="Only the pod with this index."),
        "container": typer.Option(
            "-c", "--container", metavar="NAME", help="Name of the container; by default the first."
        ),
        "all_containers": typer.Option("--all-containers", help="All containers of each pod."),
        "previous": typer.Option("-p", "--previous", help="Logs before the last restart."),
        "tail": typer.Option(min=0, metavar="N", help="Number of last lines of each log."),
        "since": typer.Option(metavar="DURATION", help="Maximum age of lines, such as 10m."),
        "timestamps": typer.Option("--timestamps", help="Time of each line."),
        "prefix": typer.Option(help="Pod of each line; by default with several logs.", show_default=False),
    },
]

ReportFormat = StrEnum("ReportFormat", "table json yaml")
"""Output formats of a report."""

By = StrEnum("By", "user queue namespace")
"""What usage is summed by."""
Since = Annotated[
    str, typer.Option(metavar="DURATION", help="Only jobs that ended within this time, such as 7d or 12h.")
]
UsageSince = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Only jobs that ended within this time, such as 12h; by default 7d.",
        show_default=False,
    ),
]
Report = Annotated[ReportFormat, typer.Option("-o", "--output", help="Output format.")]
