"""``volcanopy node``: nodes with what their pods request."""

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import ClusterOptions
from volcanopy.cli.jobs.options import Report, ReportFormat

app = typer.Typer(rich_markup_mode=None)


@command(app, "list", examples=["volcanopy node list", "volcanopy node list -o json"])
async def list_(cluster: ClusterOptions, output: Report = ReportFormat.table) -> None:
    """List nodes with what their pods request."""
    from volcanopy.cli.views.nodes import print_nodes

    await print_nodes(cluster, output)
