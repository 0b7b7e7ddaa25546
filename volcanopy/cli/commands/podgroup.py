"""``volcanopy podgroup``: what the scheduler places as a whole."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of_group
from volcanopy.cli.framework.options import QUEUE, Chosen, Cluster, Place, Scope, Show

app = typer.Typer(rich_markup_mode=None)


@command(app, "list", examples=["volcanopy podgroup list -A", "volcanopy podgroup list --queue research -o wide"])
async def list_groups(
    cluster: Cluster,
    scope: Scope,
    show: Show,
    queue: Annotated[list[str] | None, QUEUE] = None,
) -> None:
    """List pod groups: phase, pods, queue, and why they wait."""
    from volcanopy.cli import podgroups
    from volcanopy.cli.framework.lists import Wanted, show_list

    queues = queue or []
    async with cluster.client() as client:
        what = f"podgroups in queue {' or '.join(queues)}" if queues else ""
        wanted = Wanted(
            scope.of(client),
            scope.selector,
            keep=lambda group: not queues or podgroups.queue(group) in queues,
            what=what,
        )
        await show_list(client, podgroups.VIEW, wanted, show)


@command(app, "get", examples=["volcanopy podgroup get my-group -o yaml"])
async def get(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME", hidden=True, help="Names of pod groups.", autocompletion=names_of_group),
    ],
    cluster: Cluster,
    place: Place,
    show: Show,
) -> None:
    """Show pod groups by name, as a table or as whole objects."""
    from volcanopy.cli.framework.lists import show_named
    from volcanopy.cli.podgroups import VIEW

    async with cluster.client() as client:
        await show_named(client, VIEW, place.of(client), names, show)


@command(app, "describe", examples=["volcanopy podgroup describe my-group"])
async def describe(which: Chosen, cluster: Cluster, place: Place) -> None:
    """Tell all about pod groups: pods, conditions and events."""
    from volcanopy.cli import podgroups
    from volcanopy.cli.framework.lists import describe_chosen

    async with cluster.client() as client:
        await describe_chosen(client, podgroups.VIEW.kind, place.of(client), which, podgroups.description)
