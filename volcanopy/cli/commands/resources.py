"""``volcanopy pod``, ``jobflow`` and ``jobtemplate``: kinds with hardly any command of their own."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of_group
from volcanopy.cli.framework.options import (
    ClusterOptions,
    Document,
    NamespaceOption,
    PodFilter,
)
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
    details="the phase of each of their jobs",
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
add_commands(job_flow, JOB_FLOW, "create", "list")


@command(job_flow, "tree", examples=["volcanopy jobflow tree pipeline"], noun=JOB_FLOW.noun)
async def print_job_flow_tree(
    name: Annotated[str, typer.Argument(help="Name of the job flow.", autocompletion=names_of_group)],
    cluster: ClusterOptions,
    place: NamespaceOption,
    output: Annotated[
        Document | None,
        typer.Option("-o", "--output", help="Output format instead of the drawing.", show_default=False),
    ] = None,
) -> None:
    """Draw the jobs of a flow, its critical path and its expected end.

    A job is expected to take as long as the completed jobs of its template in the namespace, on average, else the runningEstimate of
    its template.
    """
    from volcanopy.cli.views.flows import print_tree

    await print_tree(cluster, place, name, output.value if output else "text")


add_commands(job_flow, JOB_FLOW, "get", "describe", "delete")
add_commands(job_template, JOB_TEMPLATE, "create", "list", "get", "describe", "delete")
