"""``volcanopy local``: a whole cluster on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from volcanopy.cli.framework.command import SETTINGS, command
from volcanopy.cli.framework.options import Api
from volcanopy_local.cli.options import NodeOptions

app = typer.Typer(rich_markup_mode=None, context_settings=SETTINGS)


@command(app, "up")
def local_up(
    options: NodeOptions,
    kubeconfig: Annotated[Path, typer.Option(help="Kubeconfig file to write.")] = Path("volcanopy.kubeconfig"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the API server; 0: a free one.")] = 0,
    api: Annotated[Api, typer.Option(help="API groups that are served.")] = Api.both,
    persist: Annotated[Path | None, typer.Option(help="File that keeps the cluster's objects between starts.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Keep what precedes a damaged record of the file.")] = False,
    fsync: Annotated[
        bool, typer.Option("--fsync", help="Force every change to the disk: slower, but survives a power cut.")
    ] = False,
    rbac: Annotated[
        bool, typer.Option("--rbac", help="Enforce the rights that roles and bindings give to users; uses HTTPS.")
    ] = False,
) -> None:
    """Start a cluster on this machine until Ctrl-C."""
    from volcanopy_local.cli.commands import Persistence, Serving, up

    up(options, kubeconfig, Serving(port, rbac, api.value), Persistence(persist, repair, fsync))


@command(app, "run")
def local_run(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Manifests: files, folders, or - for standard input.")
    ],
    options: NodeOptions,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Maximum time for the jobs, such as 40s or 5m.")
    ] = "5m",
    tail: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of last lines of each pod's log to print at the end.")
    ] = 0,
    allow_waiting: Annotated[
        bool, typer.Option("--allow-waiting", help="Succeed although jobs wait that only a change lets start.")
    ] = False,
) -> None:
    """Start a cluster, run the jobs of manifests, and stop it.

    Ends when all jobs have ended. Jobs that only a change lets start are not waited for: the reason and the changes are printed, and the exit status is 1.
    """
    from volcanopy.client.durations import positive_seconds
    from volcanopy_local.cli.commands import run

    run(options, files, positive_seconds("--timeout", timeout), tail, allow_waiting=allow_waiting)
