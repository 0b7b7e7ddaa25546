"""``volcanopy jobtemplate``: what flows make jobs from."""

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


@command(app, "create", examples=["volcanopy jobtemplate create -f template.yaml"])
async def create(files: Files, cluster: Cluster, place: Place, written: Written) -> None:
    """Create the templates of manifests."""
    from volcanopy.cli.framework.apply import put

    await put(cluster, place.namespace, files, written, about="JobTemplate", apply=False)


@command(app, "list", examples=["volcanopy jobtemplate list -A"])
async def list_templates(cluster: Cluster, scope: Scope, show: Show) -> None:
    """List templates: tasks, queue, and how many jobs they made."""
    from volcanopy.cli.flows import TEMPLATE_VIEW
    from volcanopy.cli.framework.lists import Wanted, show_list

    async with cluster.client() as client:
        await show_list(client, TEMPLATE_VIEW, Wanted(scope.of(client), scope.selector), show)


@command(app, "get", examples=["volcanopy jobtemplate get fetch -o yaml"])
async def get(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME", hidden=True, help="Names of templates.", autocompletion=names_of_group),
    ],
    cluster: Cluster,
    place: Place,
    show: Show,
) -> None:
    """Show templates by name, as a table or as whole objects."""
    from volcanopy.cli.flows import TEMPLATE_VIEW
    from volcanopy.cli.framework.lists import show_named

    async with cluster.client() as client:
        await show_named(client, TEMPLATE_VIEW, place.of(client), names, show)


@command(app, "describe", examples=["volcanopy jobtemplate describe fetch"])
async def describe(which: Chosen, cluster: Cluster, place: Place) -> None:
    """Tell all about templates."""
    from volcanopy.cli.flows import TEMPLATE_VIEW, template_description
    from volcanopy.cli.framework.lists import describe_chosen

    async with cluster.client() as client:
        await describe_chosen(client, TEMPLATE_VIEW.kind, place.of(client), which, template_description)


@command(app, "delete", examples=["volcanopy jobtemplate delete fetch"])
async def delete(which: Chosen, cluster: Cluster, place: Place, written: Written, how: Deletion) -> None:
    """Delete templates; the jobs that were made from them stay."""
    from volcanopy.cli.flows import TEMPLATE_VIEW
    from volcanopy.cli.framework import delete as deletion

    async with cluster.client() as client:
        await deletion.delete(client, TEMPLATE_VIEW.kind, place.of(client), written, which, how)
