"""``volcanopy queue``: commands for queues."""

from enum import StrEnum
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of_group
from volcanopy.cli.framework.options import ClusterOptions, Document, Selection, Timeout, WriteOptions
from volcanopy.cli.framework.resource import Resource, add_bus_command, add_commands
from volcanopy.cli.queues.spec_options import SpecOptions

app = typer.Typer(rich_markup_mode=None)


QUEUE = Resource(
    "queue",
    "queues",
    "volcanopy.cli.queues.views",
    details="settings, usage, users and events",
    deletion=".\n\nThe cluster rejects the deletion of queues with child queues or pods",
    namespaced=False,
    example="research",
    list_examples=("list", "list -o wide"),
)

QueueGoal = StrEnum("QueueGoal", "open closed empty deleted")
"""Goals of ``queue wait``."""


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
    cluster: ClusterOptions,
    options: SpecOptions,
    write: WriteOptions,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", hidden=True, help="Names of the queues.")],
) -> None:
    """Create queues of these names."""
    from volcanopy.cli.queues import commands

    await commands.create(cluster, write, names, options)


add_commands(app, QUEUE, "list")


@command(
    app,
    "tree",
    examples=["volcanopy queue tree", "volcanopy queue tree research --resource nvidia.com/gpu"],
)
async def tree(
    cluster: ClusterOptions,
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", show_default=False, help="Root of the tree.", autocompletion=names_of_group),
    ] = "",
    resource: Annotated[str, typer.Option(metavar="NAME", help="Resource to show; by default the scarcest.")] = "",
    output: Annotated[
        Document | None,
        typer.Option("-o", "--output", help="Output format instead of the drawing.", show_default=False),
    ] = None,
) -> None:
    """Draw the queues as a tree, with a bar for each.

    The bar shows the allocated amount of a resource, the fair share and the capability; all bars have one scale.
    """
    from volcanopy.cli.queues.tree import print_tree

    await print_tree(cluster, name, resource, output.value if output else "text")


add_commands(app, QUEUE, "get", "describe")


_COMMANDS = "volcanopy.cli.queues.commands"
add_bus_command(
    app,
    QUEUE,
    "open",
    "Open queues for new jobs.\n\nAlso opens the queues below them that were closed with them.",
    _COMMANDS,
)
add_bus_command(
    app,
    QUEUE,
    "close",
    "Close queues for new jobs.\n\nAlso closes the queues below them. Their jobs continue until they finish.",
    _COMMANDS,
)


def _add_stop_command(verb: str, text: str) -> None:
    """Add a command that sets the stop policy."""

    async def act(selection: Selection, cluster: ClusterOptions, write: WriteOptions) -> None:
        from volcanopy.cli.queues.commands import set_stop_policy

        await set_stop_policy(cluster, write, selection, verb)

    command(app, verb, examples=QUEUE.examples(f"{verb} research"), noun=QUEUE.noun, text=text)(act)


_add_stop_command("hold", "Hold queues: admit no further jobs.\n\nAlso applies to the queues below them.")
_add_stop_command(
    "drain",
    "Drain queues: admit no further jobs, and evict running pods.\n\n"
    "Also applies to the queues below them. The evicted jobs wait until the queue is resumed.",
)
_add_stop_command("resume", "Resume held or drained queues.")


@command(
    app,
    "update",
    examples=[
        "volcanopy queue update research --weight 4",
        "volcanopy queue update research --capability cpu=64,memory=256Gi --no-reclaimable",
        "volcanopy queue update research --capability ''",
    ],
    noun=QUEUE.noun,
)
async def update(selection: Selection, cluster: ClusterOptions, options: SpecOptions, write: WriteOptions) -> None:
    """Update the spec of queues.

    A resource list replaces the present one; an empty text removes the field.
    """
    from volcanopy.cli.queues import commands

    await commands.update(cluster, write, selection, options)


add_commands(app, QUEUE, "delete")


@command(app, "wait", examples=["volcanopy queue wait research --for=empty --timeout=10m"], noun=QUEUE.noun)
async def wait(
    selection: Selection,
    cluster: ClusterOptions,
    goal: Annotated[QueueGoal, typer.Option("--for", help="State to wait for.")] = QueueGoal.open,
    timeout: Timeout = "30s",
) -> None:
    """Wait until queues are open, closed, empty or deleted.

    A queue is empty when neither it nor the queues below it have unfinished jobs. Fails at the timeout.
    """
    from volcanopy.cli.queues import commands
    from volcanopy.client.durations import timeout_seconds

    await commands.wait(cluster, selection, commands.GOALS[goal.value], timeout_seconds(timeout))
