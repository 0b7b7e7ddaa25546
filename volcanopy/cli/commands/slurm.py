"""``volcanopy squeue`` and ``scancel``: the jobs of batch scripts for tools that call Slurm's programs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from volcanopy.api import names
from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption, Selection, WriteOptions
from volcanopy.client.errors import CommandError

if TYPE_CHECKING:
    from volcanopy.api.batch_read import BatchJob

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
    from volcanopy.client.durations import current_time
    from volcanopy.client.jobs import slurm, status
    from volcanopy.kube.client.printable import printable

    numbers = [number.strip() for number in jobs.split(",") if number.strip()]
    listing = await _jobs(cluster, place, numbers)
    if numbers and not listing:
        raise _unknown(numbers)
    rows = [
        job
        for job in listing
        if (states or jobs or status.phase(job) not in status.FINISHED) and partition in {"", status.queue(job)}
    ]
    for line in slurm.table(rows, form or slurm.USUAL_FORMAT, current_time(), heads=not noheader):
        typer.echo(printable(line))


@command(app, "scancel", hidden=True)
async def scancel(
    cluster: ClusterOptions,
    place: NamespaceOption,
    write: WriteOptions,
    numbers: Annotated[list[str], typer.Argument(metavar="NUMBER...", help="Numbers that sbatch printed.")],
) -> None:
    """Terminate jobs of batch scripts; numbers without a job are an error."""
    from volcanopy.cli.jobs import commands
    from volcanopy.client.commands import CommandRequest

    unknown = set(numbers) - {_number(job) for job in await _jobs(cluster, place, numbers)}
    if unknown != set(numbers):
        await commands.send(
            cluster, place, write, Selection(selector=_selector(numbers)), CommandRequest("terminate", "", None)
        )
    if unknown:
        raise _unknown(unknown)


async def _jobs(cluster: ClusterOptions, place: NamespaceOption, numbers: Sequence[str]) -> "list[BatchJob]":
    """Return the jobs of batch scripts with these numbers; all without numbers."""
    from volcanopy.api.batch_read import BatchJob
    from volcanopy.client.kinds import read
    from volcanopy.kube.client.raw_kinds import JOBS

    async with cluster.client() as client:
        listing = await client.list(JOBS, place.of(client), label_selector=_selector(numbers))
    return [read(BatchJob, body) for body in listing.items]


def _selector(numbers: Sequence[str]) -> str:
    if not all(number.isdecimal() for number in numbers):
        raise CommandError(f"{', '.join(numbers)}: name jobs by the numbers that sbatch printed", 2)
    return f"{names.SLURM_ID} in ({','.join(numbers)})" if numbers else names.SLURM_ID


def _number(job: "BatchJob") -> str:
    return job.metadata.labels[names.SLURM_ID]


def _unknown(numbers: Iterable[str]) -> CommandError:
    return CommandError(f"no job of a batch script has the number {', '.join(sorted(numbers))}: see `squeue -t all`")
