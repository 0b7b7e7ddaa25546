"""``volcanopy explain``: why a job waits, and how a queue stands."""

from enum import StrEnum
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of
from volcanopy.cli.framework.options import Cluster, Place

app = typer.Typer(rich_markup_mode=None)


class Told(StrEnum):
    """How an explanation is printed."""

    text = "text"
    json = "json"
    yaml = "yaml"


Output = Annotated[Told, typer.Option("-o", "--output", help="How to print it.")]
SystemNamespace = Annotated[
    str, typer.Option("--system-namespace", metavar="NAME", help="Where the scheduler runs, to see that it does.")
]


@command(app, "job", examples=["volcanopy explain job train", "volcanopy explain job train -n research -o json"])
async def explain_job(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job's name.", autocompletion=names_of("job"))],
    cluster: Cluster,
    place: Place,
    output: Output = Told.text,
    system_namespace: SystemNamespace = "volcanopy-system",
) -> None:
    """Say why a job waits, and what would let it start.

    At which gate, for whom, and which nodes refuse it. It needs no rights but to read the job and its pod group; with more, it says more.
    """
    from volcanopy.cli.explaining.job import account_of
    from volcanopy.cli.explaining.printing import show
    from volcanopy.cli.explaining.reading import job_facts
    from volcanopy.cli.explaining.text import job_lines

    async with cluster.client() as client:
        account = account_of(await job_facts(client, place.of(client), name, system_namespace))
    show(account.document(), job_lines(account), output.value)


@command(app, "queue", examples=["volcanopy explain queue research", "volcanopy explain queue research -o yaml"])
async def explain_queue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.", autocompletion=names_of("queue"))],
    cluster: Cluster,
    output: Output = Told.text,
) -> None:
    """Say how a queue stands, and who waits in it.

    What it holds, deserves and may still take, which queue above it ends that, and who waits at which gate.
    """
    from volcanopy.cli.explaining.printing import show
    from volcanopy.cli.explaining.queue import account_of
    from volcanopy.cli.explaining.reading import queue_facts
    from volcanopy.cli.explaining.text import queue_lines

    async with cluster.client() as client:
        account = account_of(await queue_facts(client, name))
    show(account.document(), queue_lines(account), output.value)
