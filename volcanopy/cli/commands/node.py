"""``volcanopy node`` and ``volcanopy cluster``: nodes with what their pods request, and the sums of the cluster."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of_group
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.jobs.options import Report, ReportFormat

node, cluster_group = (typer.Typer(rich_markup_mode=None) for _ in range(2))
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of nodes.", autocompletion=names_of_group)]


@command(node, "list", examples=["volcanopy node list", "volcanopy node list -o json"])
async def list_(cluster: ClusterOptions, output: Report = ReportFormat.table) -> None:
    """List nodes with what their pods request."""
    from volcanopy.cli.views.nodes import print_nodes

    await print_nodes(cluster, output)


@command(node, "describe", examples=["volcanopy node describe local-1"])
async def describe(cluster: ClusterOptions, names: Names) -> None:
    """Describe nodes with their pods."""
    from volcanopy.cli.views.nodes import describe_nodes

    await describe_nodes(cluster, names)


@command(cluster_group, "top", examples=["volcanopy cluster top", "volcanopy cluster top -o json"])
async def top(cluster: ClusterOptions, output: Report = ReportFormat.table) -> None:
    """Print what the pods of all nodes request."""
    from volcanopy.cli.views.nodes import print_top

    await print_top(cluster, output)
