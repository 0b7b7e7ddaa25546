"""``volcanopy explain``: why a job waits, and the state of a queue."""

from enum import StrEnum
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of
from volcanopy.cli.framework.options import Cluster, Place

app = typer.Typer(rich_markup_mode=None)


class OutputFormat(StrEnum):
    """Output formats of an explanation."""

    text = "text"
    json = "json"
    yaml = "yaml"


Output = Annotated[OutputFormat, typer.Option("-o", "--output", help="Output format.")]
SystemNamespace = Annotated[
    str,
    typer.Option("--system-namespace", metavar="NAME", help="Namespace of the scheduler, to read its lease."),
]


@command(app, "job", examples=["volcanopy explain job train", "volcanopy explain job train -n research -o json"])
async def explain_job(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.", autocompletion=names_of("job"))],
    cluster: Cluster,
    place: Place,
    output: Output = OutputFormat.text,
    system_namespace: SystemNamespace = "volcanopy-system",
) -> None:
    """Explain why a job waits, and what unblocks it.

    Shows the gates that the job passes, what blocks it, and why nodes are filtered. Requires only read access to the job and its pod group; more access gives more details.
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.", autocompletion=names_of("queue"))],
    cluster: Cluster,
    output: Output = OutputFormat.text,
) -> None:
    """Explain the state of a queue and the jobs that wait in it.

    Shows what is allocated, deserved and available, which parent queue limits it, and the gates of waiting jobs.
    """
    from volcanopy.cli.explaining.printing import show
    from volcanopy.cli.explaining.queue import account_of
    from volcanopy.cli.explaining.reading import queue_facts
    from volcanopy.cli.explaining.text import queue_lines

    async with cluster.client() as client:
        account = account_of(await queue_facts(client, name))
    show(account.document(), queue_lines(account), output.value)
