"""``volcanopy usage``: what jobs used, and the usage of queues and users with a half-life."""

from typing import Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import NAMESPACE_OR_ALL, ClusterOptions
from volcanopy.cli.jobs.options import By, Report, ReportFormat, UsageSince
from volcanopy.client.errors import CommandError

app = typer.Typer(rich_markup_mode=None)


@command(
    app,
    "usage",
    examples=[
        "volcanopy usage --by user --since 7d",
        "volcanopy usage --by queue --since 24h -n research -o json",
        "volcanopy usage --decayed --resource nvidia.com/gpu",
    ],
)
async def usage_command(
    cluster: ClusterOptions,
    namespace: Annotated[str | None, NAMESPACE_OR_ALL] = None,
    by: Annotated[By | None, typer.Option(help="What to sum by; by default user.", show_default=False)] = None,
    since: UsageSince = None,
    decayed: Annotated[
        bool, typer.Option("--decayed", help="Usage of queues and users with a half-life, and their shares.")
    ] = False,
    resource: Annotated[
        str,
        typer.Option(metavar="NAME", help="Resource of --decayed to show; by default the scarcest."),
    ] = "",
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", metavar="FILE", help="Snapshot or manifests of queues for --decayed. Repeatable."
        ),
    ] = None,
    output: Report = ReportFormat.table,
) -> None:
    """Print what jobs used, by user, queue or namespace.

    Counts what jobs that ended within the time used since their start. Without -n, of all namespaces.

    With --decayed, what queues and their users were allocated by seconds, running jobs included, of which half is left after a day: beside the share by weight among the queues of the same parent, the used part of their usage, and the share by the used part.
    """
    if not decayed:
        if resource or files:
            raise CommandError(f"{'--resource' if resource else '-f'} needs --decayed", 2)
        from volcanopy.cli.jobs.history import usage

        await usage(cluster, namespace, by or By.user, since or "7d", output)
        return
    for option, value in (("--by", by), ("--since", since), ("-n", namespace)):
        if value is not None:
            raise CommandError(f"{option}: not with --decayed, which lists all queues and their users", 2)
    from volcanopy.cli.queues.usage import print_usage

    await print_usage(cluster, files or [], resource, output)
