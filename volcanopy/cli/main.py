"""The command ``volcanopy``, as ``kubectl volcanopy`` too; what a command does is imported when it is called.

``GROUPS`` names the modules of the commands that speak to a cluster; how to write one stands in
:mod:`volcanopy.cli.framework`.
"""

import difflib
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from volcanopy.cli.commands import services
from volcanopy.cli.errors import CommandError
from volcanopy.cli.framework.command import SETTINGS, LazyGroup, command
from volcanopy.cli.framework.options import CONTEXT, KUBECONFIG, NAMESPACE, Cluster, Document

VARIABLE = "_VOLCANOPY_COMPLETE"
"""The variable of the environment through which a shell asks how a word goes on."""

GROUPS = {
    "job": ("volcanopy.cli.commands.job", "Run, list, follow, suspend, scale and end batch jobs."),
    "explain": ("volcanopy.cli.commands.explain", "Say why a job waits, and how a queue stands."),
    "queue": ("volcanopy.cli.commands.queue", "Make, list, draw, open, close, hold and change queues."),
    "pod": ("volcanopy.cli.commands.pod", "List the pods of jobs."),
    "podgroup": ("volcanopy.cli.commands.podgroup", "Look at pod groups: what the scheduler places as a whole."),
    "jobflow": ("volcanopy.cli.commands.jobflow", "Run and look at flows: jobs that run after one another."),
    "jobtemplate": ("volcanopy.cli.commands.jobtemplate", "Keep the templates that flows make jobs from."),
}
"""The groups of commands: their modules, and what they are for."""

app = typer.Typer(
    help="A batch system for Kubernetes: gangs, queues and fair shares; also without a cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)
local = typer.Typer(
    help="A whole cluster on this machine, with simulated nodes.", no_args_is_help=True, context_settings=SETTINGS
)
app.add_typer(local, name="local")
app.add_typer(services.app)


class Shell(StrEnum):
    """The shells whose language we write."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


class Output(StrEnum):
    """How a plan is printed."""

    text = "text"
    json = "json"


SchedulerFile = Annotated[Path | None, typer.Option(help="The scheduler configuration; the default one otherwise.")]


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
    """Start a cluster, run the jobs of files on it, and end with them."""
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
    """Tell what the scheduler would decide, and why others wait."""
    from volcanopy.cli.plan import plan

    plan(files, config, now, as_json=output is Output.json)


@command(
    app,
    "snapshot",
    examples=["volcanopy snapshot > cluster.json", "volcanopy snapshot --config-map batch/scheduler > cluster.json"],
)
async def snapshot_command(
    cluster: Cluster,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The scheduler configuration, if not in a ConfigMap."),
    ] = None,
    config_map: Annotated[
        str,
        typer.Option("--config-map", metavar="NAMESPACE/NAME", help="The ConfigMap with it, if not the chart's own."),
    ] = "",
    scheduler_name: Annotated[
        str, typer.Option("--scheduler-name", metavar="NAME", help="The scheduler whose pods are waiting.")
    ] = "volcanopy",
    default_queue: Annotated[
        str, typer.Option("--default-queue", metavar="NAME", help="The queue of pod groups that name none.")
    ] = "default",
) -> None:
    """Print all that the scheduler sees, to plan again elsewhere.

    How the scheduler is configured is part of it. It holds no secrets and no environment of containers, but the names, labels and annotations of what there is.
    """
    from volcanopy.cli.snapshot import snapshot

    await snapshot(cluster, config, config_map, scheduler_name, default_queue)


@app.command("convert")
def convert_command(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Volcano's manifests: files, folders, or - for standard input."),
    ],
    output: Annotated[Path | None, typer.Option(help="The file to write to; standard output otherwise.")] = None,
    strict: Annotated[bool, typer.Option(help="End with an error when something was not carried over.")] = False,
) -> None:
    """Turn Volcano's manifests into ours; say what was lost."""
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


@command(app, "version", examples=["volcanopy version --client"])
def version_command(
    cluster: Cluster,
    client: Annotated[bool, typer.Option("--client", help="This program's version only.")] = False,
    output: Annotated[
        Document | None, typer.Option("-o", "--output", help="As a document.", show_default=False)
    ] = None,
) -> None:
    """Print the versions of this program and of the cluster."""
    from volcanopy.cli.version import version

    version(cluster, output, alone=client)


@command(app, "completion", examples=["source <(volcanopy completion bash)"])
def completion_command(
    shell: Annotated[Shell, typer.Argument(help="Whose language to write it in.")],
) -> None:
    """Print the script that completes words in a shell."""
    from volcanopy.cli.completion import script

    script(shell.value)


@app.callback()
def everywhere(
    ctx: typer.Context,
    kubeconfig: Annotated[Path | None, KUBECONFIG] = None,
    context: Annotated[str | None, CONTEXT] = None,
    namespace: Annotated[str | None, NAMESPACE] = None,
) -> None:
    """A batch system for Kubernetes: gangs, queues and fair shares; also without a cluster."""
    asked = ctx.invoked_subcommand or ""
    if (kubeconfig or context or namespace) and asked not in {*GROUPS, "version", "snapshot"}:
        raise CommandError(f"options of `{asked}` are given after it: volcanopy {asked} --help", 2)


def root() -> TyperGroup:
    """All commands as one: those that speak to a cluster first, each group imported when it is wanted."""
    if VARIABLE in os.environ:
        from volcanopy.cli.completion import register_shells

        register_shells()
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    lazy = {name: LazyGroup(name, module, said) for name, (module, said) in GROUPS.items()}
    group.commands = {**lazy, **group.commands}
    return group


def everything() -> TyperGroup:
    """The same with all groups imported: for those who want to see every command."""
    group = root()
    for one in group.commands.values():
        if isinstance(one, LazyGroup):
            one.load()
    return group


def main() -> None:
    """Run the command; whatever goes wrong is one sentence on standard error."""
    called = Path(sys.argv[0]).name
    program = "kubectl volcanopy" if called.startswith("kubectl-") else "volcanopy"
    try:
        status = root().main(prog_name=program, complete_var=VARIABLE, standalone_mode=False)
    except typer.TyperException as fault:
        status = _misused(fault)
    except CommandError as stop:
        print(f"volcanopy: {stop}", file=sys.stderr)
        status = stop.status
    except BrokenPipeError:
        # Whoever read our output has gone; nothing is left to be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    sys.exit(status if isinstance(status, int) else 0)


def _misused(fault: typer.TyperException) -> int:
    """What was wrong with the command line, as a sentence with the way to the help."""
    context = getattr(fault, "ctx", None)
    text = " ".join(fault.format_message().split()).rstrip(".").replace("Value error, ", "")
    if type(fault).__name__ == "NoArgsIsHelpError":
        print(fault.format_message())
        return 2
    if context is not None and (option := getattr(fault, "option_name", "")) and text.startswith("No such option"):
        text = f"No such option: {option}{_near(option, context.command)}"
    where = f"{context.command_path} --help" if context is not None else "volcanopy --help"
    print(f"volcanopy: {text}; see `{where}`", file=sys.stderr)
    return 2


def _near(option: str, asked: TyperCommand) -> str:
    """What may have been meant by an option that a command does not have, as a clause."""
    every = [name for one in asked.params for name in one.opts if name.startswith("--")]
    near = [name for name in every if name.startswith(option)] or difflib.get_close_matches(option, every, n=2)
    return f", did you mean {' or '.join(near)}?" if near else ""
