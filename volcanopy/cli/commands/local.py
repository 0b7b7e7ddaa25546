"""``volcanopy local``: a whole cluster on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from volcanopy.cli.framework.command import SETTINGS
from volcanopy.cli.framework.options import Api
from volcanopy.cli.local_cluster.options import (
    Isolation,
    IsolationOption,
    NodeFile,
    Nodes,
    Rootfs,
    RunAsRoot,
    SchedulerFile,
    Simulate,
)

app = typer.Typer(rich_markup_mode=None, context_settings=SETTINGS)


@app.command("up")
def local_up(
    nodes: Nodes = None,
    simulate: Simulate = None,
    run_as_root: RunAsRoot = False,
    isolation: IsolationOption = Isolation.machine,
    rootfs: Rootfs = None,
    cluster: NodeFile = None,
    kubeconfig: Annotated[Path, typer.Option(help="Kubeconfig file to write.")] = Path("volcanopy.kubeconfig"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the API server; 0: a free one.")] = 0,
    scheduler_config: SchedulerFile = None,
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
    from volcanopy.cli.local_cluster.commands import Persistence, up
    from volcanopy.cli.local_cluster.process_nodes import size_of

    size = size_of(
        nodes, simulate, from_file=cluster is not None, run_as_root=run_as_root, isolation=isolation, rootfs=rootfs
    )
    up(
        size=size,
        cluster=cluster,
        kubeconfig=kubeconfig,
        port=port,
        persist=Persistence(persist, repair, fsync),
        config=scheduler_config,
        rbac=rbac,
        api=api.value,
    )


@app.command("run")
def local_run(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Manifests: files, folders, or - for standard input.")
    ],
    nodes: Nodes = None,
    simulate: Simulate = None,
    run_as_root: RunAsRoot = False,
    isolation: IsolationOption = Isolation.machine,
    rootfs: Rootfs = None,
    cluster: NodeFile = None,
    scheduler_config: SchedulerFile = None,
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
    from volcanopy.cli.local_cluster.commands import run
    from volcanopy.cli.local_cluster.process_nodes import size_of
    from volcanopy.client.durations import positive_seconds

    size = size_of(
        nodes, simulate, from_file=cluster is not None, run_as_root=run_as_root, isolation=isolation, rootfs=rootfs
    )
    run(
        files=files,
        size=size,
        cluster=cluster,
        timeout=positive_seconds("--timeout", timeout),
        config=scheduler_config,
        tail=tail,
        allow_waiting=allow_waiting,
    )
