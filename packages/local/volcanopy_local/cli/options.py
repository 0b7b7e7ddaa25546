"""Options of ``volcanopy local`` that several of its commands have."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from volcanopy.cli.framework.options import SchedulerFile

Isolation = StrEnum("Isolation", "machine bubblewrap namespaces plain")
"""What isolates the containers of process nodes."""


@dataclass(frozen=True)
class NodeOptions:
    """The nodes of a cluster on this machine, what isolates their containers, and the scheduler configuration."""

    nodes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            show_default=False,
            help="Number of nodes whose pods run as processes of this machine; they share its cpus, memory and GPUs. "
            "Default: 1, or 0 with --simulate or --cluster.",
        ),
    ] = None
    simulate: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            show_default=False,
            help="Number of simulated nodes of 8 cpu; their pods run no programs.",
        ),
    ] = None
    run_as_root: Annotated[
        bool,
        typer.Option(
            "--run-as-root",
            help="As root, run the programs of pods as root too: they can read and change everything on this machine. Without it they run as "
            "the user who called sudo, else the owner of the source folder, else as uid 65534.",
        ),
    ] = False
    isolation: Annotated[
        Isolation,
        typer.Option(
            help="What isolates the programs of pods: bubblewrap, namespaces (of the kernel), plain (processes without isolation), or "
            "machine (the first of these three that works).",
        ),
    ] = Isolation.machine
    rootfs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default=False,
            exists=True,
            file_okay=False,
            help="Folder with the files that programs see instead of those of this machine; not with plain processes.",
        ),
    ] = None
    cluster: Annotated[Path | None, typer.Option(help="File with Node manifests to simulate instead.")] = None
    scheduler_config: SchedulerFile = None
