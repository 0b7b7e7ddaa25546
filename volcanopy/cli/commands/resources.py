"""``volcanopy pod``, ``jobflow`` and ``jobtemplate``: kinds without commands of their own."""

import typer

from volcanopy.cli.framework.options import PodFilter
from volcanopy.cli.framework.resource import Resource, add_commands

POD = Resource(
    "pod",
    "pods of jobs",
    "volcanopy.cli.views.pods",
    filter=PodFilter,
    list_examples=("list --job training", "list -A --queue research -o wide"),
)
JOB_FLOW = Resource(
    "jobflow",
    "job flows",
    "volcanopy.cli.views.flows",
    details="their jobs, critical path and expected end",
    deletion=" and their jobs",
    example="pipeline",
)
JOB_TEMPLATE = Resource(
    "jobtemplate",
    "job templates",
    "volcanopy.cli.views.templates",
    details="their tasks and jobs",
    deletion=" and keep the jobs created from them",
    example="fetch",
)

pod, job_flow, job_template = (typer.Typer(rich_markup_mode=None) for _ in range(3))
add_commands(pod, POD, "list")
add_commands(job_flow, JOB_FLOW, "create", "list", "get", "describe", "delete")
add_commands(job_template, JOB_TEMPLATE, "create", "list", "get", "describe", "delete")
