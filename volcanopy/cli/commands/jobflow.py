"""``volcanopy jobflow``: jobs that run after one another."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of_group
from volcanopy.cli.framework.options import Chosen, Cluster, Deletion, Place, Scope, Show, Written

app = typer.Typer(rich_markup_mode=None)

Files = Annotated[
    list[str],
    typer.Option("-f", "--filename", metavar="FILE", help="Manifests: a file, a folder, or - for standard input."),
]


@command(app, "create", examples=["volcanopy jobflow create -f flow.yaml"])
async def create(files: Files, cluster: Cluster, place: Place, written: Written) -> None:
    """Create the flows of manifests, and the templates beside them."""
    from volcanopy.cli.framework.apply import put

    await put(cluster, place.namespace, files, written, about="JobFlow", apply=False)


@command(app, "run", examples=["volcanopy jobflow run -f flow.yaml"])
async def run(files: Files, cluster: Cluster, place: Place, written: Written) -> None:
    """Create flows, where their templates may exist already."""
    from volcanopy.cli.framework.apply import put

    await put(cluster, place.namespace, files, written, about="JobFlow", apply=True)


@command(app, "list", examples=["volcanopy jobflow list -A", "volcanopy jobflow list --watch"])
async def list_flows(cluster: Cluster, scope: Scope, show: Show) -> None:
    """List flows: their phase, and how many of their jobs are done."""
    from volcanopy.cli.flows import VIEW
    from volcanopy.cli.framework.lists import Wanted, show_list

    async with cluster.client() as client:
        await show_list(client, VIEW, Wanted(scope.of(client), scope.selector), show)


@command(app, "get", examples=["volcanopy jobflow get pipeline -o yaml"])
async def get(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", hidden=True, help="Names of flows.", autocompletion=names_of_group)
    ],
    cluster: Cluster,
    place: Place,
    show: Show,
) -> None:
    """Show flows by name, as a table or as whole objects."""
    from volcanopy.cli.flows import VIEW
    from volcanopy.cli.framework.lists import show_named

    async with cluster.client() as client:
        await show_named(client, VIEW, place.of(client), names, show)


@command(app, "describe", examples=["volcanopy jobflow describe pipeline"])
async def describe(which: Chosen, cluster: Cluster, place: Place) -> None:
    """Tell all about flows: where each of their jobs stands."""
    from volcanopy.cli.flows import VIEW, description
    from volcanopy.cli.framework.lists import describe_chosen

    async with cluster.client() as client:
        await describe_chosen(client, VIEW.kind, place.of(client), which, description)


@command(app, "delete", examples=["volcanopy jobflow delete pipeline", "volcanopy jobflow delete -f flow.yaml"])
async def delete(which: Chosen, cluster: Cluster, place: Place, written: Written, how: Deletion) -> None:
    """Delete flows and their jobs."""
    from volcanopy.cli.flows import VIEW
    from volcanopy.cli.framework import delete as deletion

    async with cluster.client() as client:
        await deletion.delete(client, VIEW.kind, place.of(client), written, which, how)
