"""``volcanopy squeue``: the jobs of batch scripts for tools that call Slurm's programs."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption

app = typer.Typer(rich_markup_mode=None)


@command(app, "squeue", hidden=True)
async def squeue(
    cluster: ClusterOptions,
    place: NamespaceOption,
    noheader: Annotated[bool, typer.Option("--noheader", help="Leave out the heads of columns.")] = False,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="Columns, as %i %t.")] = "",
    states: Annotated[str, typer.Option("--states", help="Also jobs that have ended.")] = "",
    jobs: Annotated[str, typer.Option("--jobs", metavar="NUMBERS", help="These jobs.")] = "",
    partition: Annotated[str, typer.Option("--partition", metavar="QUEUE", help="Jobs of this queue.")] = "",
) -> None:
    """List the jobs of batch scripts as Slurm does."""
    from volcanopy.api import names
    from volcanopy.api.batch_read import BatchJob
    from volcanopy.client.durations import current_time
    from volcanopy.client.jobs import slurm, status
    from volcanopy.client.kinds import read
    from volcanopy.kube.client.printable import printable
    from volcanopy.kube.client.raw_kinds import JOBS

    async with cluster.client() as client:
        listing = await client.list(JOBS, place.of(client), label_selector=names.SLURM_ID)
    rows = [
        job
        for job in (read(BatchJob, body) for body in listing.items)
        if (states or jobs or status.phase(job) not in status.FINISHED)
        and partition in {"", status.queue(job)}
        and (not jobs or job.metadata.labels[names.SLURM_ID] in jobs.split(","))
    ]
    for line in slurm.table(rows, form or slurm.USUAL_FORMAT, current_time(), heads=not noheader):
        typer.echo(printable(line))
