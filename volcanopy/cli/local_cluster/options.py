"""Options of ``volcanopy local`` that several of its commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Isolation(StrEnum):
    """What runs the containers of process nodes."""

    auto = "auto"
    engine = "engine"
    machine = "machine"
    plain = "plain"


SchedulerFile = Annotated[Path | None, typer.Option(help="Scheduler configuration; by default the built-in one.")]
Nodes = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        show_default=False,
        help="Number of nodes whose pods run as processes of this machine; they share its cpus, memory and GPUs. "
        "Default: 1, or 0 with --simulate or --cluster.",
    ),
]
Simulate = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", show_default=False, help="Number of simulated nodes of 8 cpu; their pods run no programs."
    ),
]
AllowRoot = Annotated[bool, typer.Option("--allow-root", help="Run the processes of pods as root if you are root.")]
IsolationOption = Annotated[
    Isolation,
    typer.Option(
        "--isolation",
        help="What runs containers: engine (podman or Docker, with their images), machine (programs of this machine, "
        "with bubblewrap where it works), plain (without it), auto (an engine if one works, else machine).",
    ),
]
Rootfs = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        show_default=False,
        exists=True,
        file_okay=False,
        help="Folder with the files that programs see instead of those of this machine; needs bubblewrap.",
    ),
]
NodeFile = Annotated[Path | None, typer.Option(help="File with Node manifests to simulate instead.")]
