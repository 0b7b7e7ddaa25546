"""``volcanopy top``: a cluster live in a terminal."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import NAMESPACE_OR_ALL, ClusterOptions

app = typer.Typer(rich_markup_mode=None)


@command(app, "top", examples=["volcanopy top", "volcanopy top --resource nvidia.com/gpu", "volcanopy top --once"])
async def top(
    cluster: ClusterOptions,
    namespace: Annotated[str | None, NAMESPACE_OR_ALL] = None,
    resource: Annotated[
        str, typer.Option(metavar="NAME", help="Resource of queues and nodes; by default the scarcest.")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Print the state once, and exit; so do pipes.")] = False,
) -> None:
    """Show queues, jobs with reasons, and nodes, live.

    Ctrl-C ends it. Jobs are those of all namespaces, or of one (`-n`).
    """
    from volcanopy.cli.top import show

    async with cluster.client() as client:
        await show(client, namespace, resource, once=once)
