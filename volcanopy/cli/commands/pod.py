"""``volcanopy pod``: the pods of jobs."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.name_completion import names_of
from volcanopy.cli.framework.options import QUEUE, Cluster, Scope, Show

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "list",
    examples=["volcanopy pod list --job training", "volcanopy pod list -A --queue research -o wide --watch"],
)
async def list_pods(
    cluster: Cluster,
    scope: Scope,
    show: Show,
    job: Annotated[
        str, typer.Option("-j", "--job", metavar="NAME", help="Only those of this job.", autocompletion=names_of("job"))
    ] = "",
    task: Annotated[str, typer.Option("-t", "--task", metavar="NAME", help="Only those of tasks of this name.")] = "",
    queue: Annotated[str, QUEUE] = "",
    phase: Annotated[str, typer.Option("--phase", metavar="PHASE", help="Only those in this phase.")] = "",
) -> None:
    """List the pods of jobs: job, task, status and node."""
    from volcanopy.cli import pods

    await pods.list_pods(cluster, scope, show, pods.Which(job, task, queue, phase))
