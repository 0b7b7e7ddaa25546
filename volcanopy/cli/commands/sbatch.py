"""``volcanopy sbatch``: submit a batch script of Slurm."""

import secrets
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import ClusterOptions, NamespaceOption, WriteOptions

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "sbatch",
    examples=[
        "volcanopy sbatch train.sh",
        "volcanopy sbatch --image python:3.12 --queue research train.sh data.csv",
        "volcanopy sbatch --options '--wrap=\"make -j 4\" -c 4'",
        "volcanopy sbatch --dry-run=client -o yaml train.sh > job.yaml",
    ],
)
async def sbatch(
    cluster: ClusterOptions,
    place: NamespaceOption,
    write: WriteOptions,
    script: Annotated[
        Path | None,
        typer.Argument(metavar="[SCRIPT]", help="Batch script with lines #SBATCH, by default the standard input."),
    ] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGS...]", help="Arguments of the script.")] = None,
    image: Annotated[
        str,
        typer.Option(
            metavar="IMAGE", help="Image of the pods. Without it they run here, on process nodes, in this directory."
        ),
    ] = "",
    queue: Annotated[str, typer.Option(metavar="QUEUE", help="Queue, instead of --partition.")] = "",
    options: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Options of sbatch, instead of those of the script: -n 4 --mem=8G."),
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Print the logs until the job has finished.")] = False,
) -> None:
    """Submit a batch script of Slurm.

    Options of sbatch in the script are those of a job: see docs/from-sbatch.md. One that a job cannot have is an error.
    """
    from volcanopy.cli.jobs.run import run
    from volcanopy.client.errors import CommandError
    from volcanopy.client.jobs.sbatch import read_script
    from volcanopy.kube.client.printable import printable

    instead = (("partition", queue), ("container-image", image))
    try:
        given = [*shlex.split(options), *(f"--{name}={value}" for name, value in instead if value)]
    except ValueError as error:
        raise CommandError(f"--options: {error}", 2) from None
    identifier = 10_000_000 + secrets.randbelow(90_000_000)
    read = read_script(script, arguments or [], identifier, given)
    width = max((len(directive.option) for directive in read.directives), default=0)
    for directive in read.directives:
        typer.echo(printable(f"{directive.option:{width}}  {directive.result}"), err=True)
    for note in read.notes:
        typer.echo(printable(note), err=True)
    job = replace(read.options, here=not read.options.image, follow=follow or read.follow)
    await run(cluster, place, write, job, str(identifier) if read.parsable else f"Submitted batch job {identifier}")
