"""The command ``volcanopy``: every subcommand with its options; what it does is imported when it is called."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from volcanopy import __version__
from volcanopy.cli.errors import Stop

app = typer.Typer(
    help="A batch system for Kubernetes: gangs, queues and fair shares; also without a cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
local = typer.Typer(help="A whole cluster on this machine: API server, nodes, scheduler.", no_args_is_help=True)
app.add_typer(local, name="local")


class Output(StrEnum):
    """How a plan is printed."""

    text = "text"
    json = "json"


Kubeconfig = Annotated[
    Path | None, typer.Option(help="The kubeconfig file; KUBECONFIG, the usual place, or in-cluster otherwise.")
]
SchedulerFile = Annotated[Path | None, typer.Option(help="The scheduler configuration; the default one otherwise.")]
Context = Annotated[str | None, typer.Option(help="The context of the kubeconfig file.")]


@local.command("up")
def local_up(
    nodes: Annotated[int, typer.Option(min=0, help="How many nodes to simulate.")] = 3,
    cluster: Annotated[Path | None, typer.Option(help="A file with the Node manifests to simulate instead.")] = None,
    kubeconfig: Annotated[Path, typer.Option(help="Where to write the kubeconfig.")] = Path("volcanopy.kubeconfig"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The API server's port; 0 takes a free one.")] = 0,
    scheduler_config: SchedulerFile = None,
    persist: Annotated[
        Path | None, typer.Option(help="A file that keeps the cluster's objects from one start to the next.")
    ] = None,
) -> None:
    """Start a cluster on this machine and keep it until Ctrl-C."""
    from volcanopy.cli.local import up

    up(nodes=nodes, cluster=cluster, kubeconfig=kubeconfig, port=port, persist=persist, config=scheduler_config)


@local.command("run")
def local_run(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Manifests: files, folders, or - for standard input.")
    ],
    nodes: Annotated[int, typer.Option(min=0, help="How many nodes to simulate.")] = 3,
    cluster: Annotated[Path | None, typer.Option(help="A file with the Node manifests to simulate instead.")] = None,
    scheduler_config: SchedulerFile = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds after which to give up.")] = 300.0,
) -> None:
    """Start a cluster, apply the files, show every job's progress, and end when all are done."""
    from volcanopy.cli.local import run

    run(files=files, nodes=nodes, cluster=cluster, timeout=timeout, config=scheduler_config)


@app.command("plan")
def plan_command(
    files: Annotated[
        list[str],
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="Manifests, such as kubectl get -o yaml prints; - for standard input. Repeatable.",
        ),
    ],
    config: Annotated[Path | None, typer.Option(help="The scheduler configuration; the default one otherwise.")] = None,
    now: Annotated[str | None, typer.Option(help="The moment to decide for, in RFC 3339.")] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print it.")] = Output.text,
) -> None:
    """Tell what the scheduler would decide on these objects, and why the others wait."""
    from volcanopy.cli.plan import plan

    plan(files, config, now, as_json=output is Output.json)


@app.command("scheduler")
def scheduler_command(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Annotated[
        Path | None, typer.Option(help="The scheduler configuration; read again when it changes.")
    ] = None,
    scheduler_name: Annotated[str, typer.Option(help="Pods that give this spec.schedulerName are ours.")] = "volcanopy",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every decision.")] = False,
) -> None:
    """Run the scheduler against a cluster."""
    from volcanopy.cli.serve import scheduler

    scheduler(kubeconfig, context, config, scheduler_name, verbose=verbose)


@app.command("controller")
def controller_command(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: Annotated[
        str, typer.Option(help="Pods that give this spec.schedulerName and are no job's get a PodGroup.")
    ] = "volcanopy",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every step.")] = False,
) -> None:
    """Run the job controller against a cluster."""
    from volcanopy.cli.serve import controller

    controller(kubeconfig, context, scheduler_name, verbose=verbose)


@app.command("admission")
def admission_command(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 0,
    url: Annotated[str, typer.Option(help="How the API server reaches us, if not by that address.")] = "",
    service: Annotated[str, typer.Option(help="The Service in front of us, as namespace/name.")] = "",
    config: Annotated[
        Path | None, typer.Option(help="The admission configuration; read again when it changes.")
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log every review.")] = False,
) -> None:
    """Run the admission webhook and register it with a cluster."""
    from volcanopy.cli.serve import admission

    admission(kubeconfig, context, host, port, url, service, config, verbose=verbose)


@app.command("convert")
def convert_command(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Volcano's manifests: files, folders, or - for standard input."),
    ],
    output: Annotated[Path | None, typer.Option(help="The file to write to; standard output otherwise.")] = None,
    strict: Annotated[bool, typer.Option(help="End with an error when something was not carried over.")] = False,
) -> None:
    """Turn Volcano's manifests into ours, and say what could not be carried over."""
    from volcanopy.cli.convert import convert

    convert(files, output, strict=strict)


@app.command("crd")
def crd_command(
    output_dir: Annotated[
        Path | None, typer.Option(help="The folder to write to, a file for each kind; standard output otherwise.")
    ] = None,
) -> None:
    """Write the custom resource definitions."""
    from volcanopy.cli.crd import crd

    crd(output_dir)


@app.command("version")
def version_command() -> None:
    """Print the version."""
    print(f"volcanopy {__version__}")


def main() -> None:
    """Run the command; whatever goes wrong is one sentence on standard error."""
    try:
        app()
    except Stop as stop:
        print(f"volcanopy: {stop}", file=sys.stderr)
        sys.exit(stop.status)
    except BrokenPipeError:
        sys.exit(141)
