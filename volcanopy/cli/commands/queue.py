"""``volcanopy queue``: the commands for queues, with their options."""

from enum import StrEnum
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of, names_of_group
from volcanopy.cli.framework.options import Chosen, Cluster, Deletion, Document, Place, Show, Written
from volcanopy.cli.queues.spec_options import Fields

app = typer.Typer(rich_markup_mode=None)

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="A sentence that is told with it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is carried out.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait, such as 30s or 5m.")]
Selector = Annotated[
    str, typer.Option("-l", "--selector", metavar="LABELS", help="Only those with labels such as a=b,c!=d,e.")
]


class State(StrEnum):
    """What can be waited for."""

    open = "open"
    closed = "closed"
    empty = "empty"
    deleted = "deleted"


@command(
    app,
    "create",
    examples=[
        "volcanopy queue create research --weight 2",
        "volcanopy queue create vision --parent research --deserved cpu=32,memory=128Gi --capability cpu=64",
        "volcanopy queue create research --weight 2 --dry-run=client -o yaml > queue.yaml",
    ],
)
async def create(
    cluster: Cluster,
    asked: Fields,
    written: Written,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", show_default=False, help="New names.")
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("-f", "--filename", metavar="FILE", help="Manifests instead. Repeatable.")
    ] = None,
) -> None:
    """Make queues from options, or from the manifests of files."""
    from volcanopy.cli.errors import CommandError
    from volcanopy.cli.queues import changes

    if bool(names) == bool(files):
        raise CommandError("give the NAME of a queue, or -f FILE" + (", not both" if names else ""), 2)
    if names:
        await changes.create(cluster, written, names, asked)
        return
    from volcanopy.cli.framework.apply import put

    if asked.spec():
        raise CommandError("with -f the files say what the queues are: no other option does", 2)
    await put(cluster, None, files or [], written, about="Queue", apply=False)


@command(app, "list", examples=["volcanopy queue list", "volcanopy queue list -o wide --watch"])
async def list_queues(
    cluster: Cluster,
    show: Show,
    selector: Selector = "",
    below: Annotated[
        str,
        typer.Option(
            "--below",
            metavar="NAME",
            help="Only those below this queue, at any depth.",
            autocompletion=names_of("queue"),
        ),
    ] = "",
) -> None:
    """List queues: what they hold, and how many wait and run."""
    from volcanopy.cli.queues import lists

    await lists.list_queues(cluster, show, selector, below)


@command(
    app,
    "tree",
    examples=["volcanopy queue tree", "volcanopy queue tree research --resource nvidia.com/gpu"],
)
async def tree(
    cluster: Cluster,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", show_default=False, help="The queue to begin with.", autocompletion=names_of_group
        ),
    ] = "",
    resource: Annotated[
        str, typer.Option("--resource", metavar="NAME", help="What to draw; the scarcest resource if not given.")
    ] = "",
    output: Annotated[
        Document | None, typer.Option("-o", "--output", help="Print the tree as a document.", show_default=False)
    ] = None,
) -> None:
    """Draw the queues as a tree, with a bar for each.

    The bar shows what it holds, deserves and may hold of a resource, all to one scale.
    """
    from volcanopy.cli.queues import lists

    await lists.draw(cluster, name, resource, output.value if output else "text")


@command(app, "get", examples=["volcanopy queue get research -o yaml", "volcanopy queue get research --watch"])
async def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of queues.", autocompletion=names_of_group)],
    cluster: Cluster,
    show: Show,
) -> None:
    """Show queues by name, as a table or as whole objects."""
    from volcanopy.cli.framework.lists import show_named
    from volcanopy.cli.queues.columns import VIEW

    async with cluster.client() as client:
        await show_named(client, VIEW, None, names, show)


@command(app, "describe", examples=["volcanopy queue describe research"])
async def describe(which: Chosen, cluster: Cluster) -> None:
    """Tell all about queues: what they claim, and who waits."""
    from volcanopy.cli.framework.kinds import QUEUES
    from volcanopy.cli.framework.lists import describe_chosen
    from volcanopy.cli.queues.description import description

    async with cluster.client() as client:
        await describe_chosen(client, QUEUES, None, which, description)


def _wish_command(verb: str, said: str, example: str) -> None:
    """A command that leaves a wish for the controller."""

    async def act(
        which: Chosen,
        cluster: Cluster,
        place: Place,
        written: Written,
        reason: Reason = "",
        wait_for_it: Wait = False,
        timeout: Timeout = "60s",
    ) -> None:
        from volcanopy.cli.framework.durations import seconds
        from volcanopy.cli.queues.commands import wish

        limit = seconds("--timeout", timeout) if wait_for_it else None
        await wish(cluster, place, written, which, verb, reason, limit)

    act.__doc__ = said
    command(app, verb, examples=[example])(act)


_wish_command("open", "Let queues take jobs again, with those that closed with them.", "volcanopy queue open research")
_wish_command(
    "close",
    "Let queues take no more jobs, nor those below them.\n\nWhat is in them runs to its end.",
    'volcanopy queue close research --reason "holidays" --wait',
)


def _stop_command(verb: str, said: str, example: str) -> None:
    """A command that sets what stops a queue."""

    async def act(which: Chosen, cluster: Cluster, written: Written) -> None:
        from volcanopy.cli.queues.changes import stop

        await stop(cluster, written, which, verb)

    act.__doc__ = said
    command(app, verb, examples=[example])(act)


_stop_command("hold", "Start nothing new in queues and below them for a while.", "volcanopy queue hold research")
_stop_command(
    "drain",
    "Start nothing new in queues, and evict what runs there.\n\nIt waits again, and goes on when the queue is resumed.",
    "volcanopy queue drain research",
)
_stop_command("resume", "Let queues that were held or drained go on.", "volcanopy queue resume research")


@command(
    app,
    "update",
    examples=[
        "volcanopy queue update research --weight 4",
        "volcanopy queue update research --capability cpu=64,memory=256Gi --no-reclaimable",
        "volcanopy queue update research --capability ''",
    ],
)
async def update(which: Chosen, cluster: Cluster, asked: Fields, written: Written) -> None:
    """Change the claims of queues.

    What is given takes the place of what was there, an empty text takes it away.
    """
    from volcanopy.cli.queues import changes

    await changes.update(cluster, written, which, asked)


@command(app, "delete", examples=["volcanopy queue delete research", "volcanopy queue delete -l team=blue"])
async def delete(which: Chosen, cluster: Cluster, written: Written, how: Deletion) -> None:
    """Delete queues that nobody needs any more.

    The cluster refuses those that others are below, or pods run in.
    """
    from volcanopy.cli.framework import delete as deletion
    from volcanopy.cli.framework.kinds import QUEUES

    async with cluster.client() as client:
        await deletion.delete(client, QUEUES, None, written, which, how)


@command(app, "wait", examples=["volcanopy queue wait research --for=empty --timeout=10m"])
async def wait(
    which: Chosen,
    cluster: Cluster,
    wanted: Annotated[State, typer.Option("--for", help="What to wait for.")] = State.open,
    timeout: Timeout = "30s",
) -> None:
    """Wait until queues are open, closed, empty or deleted.

    Empty are those in which, and below which, nothing unfinished is. It fails when the time is up.
    """
    from volcanopy.cli.framework.durations import seconds
    from volcanopy.cli.queues import commands

    limit = -1.0 if timeout.startswith("-") else seconds("--timeout", timeout)
    await commands.wait(cluster, which, commands.GOALS[wanted.value], limit)
