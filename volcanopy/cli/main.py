"""Entry point of ``volcanopy`` and ``kubectl volcanopy``; modules of commands are imported when they are called.

``GROUPS`` names the modules of the commands that connect to a cluster; :mod:`volcanopy.cli.framework` describes how to
add one.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from volcanopy.cli import slurm, standard_output
from volcanopy.cli.framework.command import SETTINGS, LazyGroup, Parsing, command
from volcanopy.cli.framework.options import CONTEXT, KUBECONFIG, NAMESPACE, Api, ClusterOptions, Document, SchedulerFile
from volcanopy.cli.vcctl import PROGRAMS, translated
from volcanopy.client.errors import CommandError
from volcanopy.kube.client.printable import printable
from volcanopy.version import VERSION

VARIABLE = "_VOLCANOPY_COMPLETE"
"""Environment variable with which a shell requests completions."""

_RESOURCES = "volcanopy.cli.commands.resources"
GROUPS = {
    "job": ("volcanopy.cli.commands.job", "Run, list, follow, suspend, scale and end batch jobs."),
    "explain": ("volcanopy.cli.commands.explain", "Explain why a job waits, or the state of a queue."),
    "queue": ("volcanopy.cli.commands.queue", "Create, list, draw, open, close, hold and update queues."),
    "pod": (f"{_RESOURCES}:pod", "List the pods of jobs."),
    "jobflow": (f"{_RESOURCES}:job_flow", "Create and list job flows: jobs that depend on each other."),
    "jobtemplate": (f"{_RESOURCES}:job_template", "Create and list job templates, used by job flows."),
}
"""Groups of commands that connect to a cluster: their module, with the name of the application if it is not ``app``, and their help."""
_LOCAL = ("volcanopy_local.cli.app", "Run a whole cluster on this machine.")
_SERVICES = "volcanopy.cli.commands.services"
MODULES = {
    "scheduler": _SERVICES,
    "controller": _SERVICES,
    "admission": _SERVICES,
    "agent": _SERVICES,
    "simulate": "volcanopy_lab.commands.simulate",
    "sbatch": "volcanopy.cli.commands.sbatch",
    "squeue": "volcanopy.cli.commands.slurm",
    "scancel": "volcanopy.cli.commands.slurm",
    "top": "volcanopy.cli.commands.top",
    "ui": "volcanopy.cli.commands.ui",
    "usage": "volcanopy.cli.commands.usage",
}
"""Modules of other commands. Those of other distributions are registered by their names only, and may be missing."""
_HELP = "Batch system for Kubernetes: gang scheduling, queues and fair sharing; also without a cluster."


class Commands(Parsing, TyperGroup):
    """All commands; those of ``MODULES`` are imported when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return [*(name for name in self.commands if name not in MODULES), *MODULES]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name."""
        if cmd_name in MODULES and cmd_name not in self.commands:
            self.commands.update(_imported(cmd_name))
        return self.commands.get(cmd_name)


def _imported(name: str) -> Mapping[str, Any]:
    """Return the commands of the module; one that reports what to install if it is missing."""
    try:
        return typer.main.get_group(import_module(MODULES[name]).app).commands
    except ModuleNotFoundError as fault:
        from volcanopy.cli.usage_errors import missing_part

        error = missing_part(fault)
        if error is None:
            raise
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}

    def report() -> None:
        raise error

    return {
        name: TyperCommand(
            name, callback=report, help="Not installed.", add_help_option=False, context_settings=settings
        )
    }


app = typer.Typer(
    cls=Commands,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)

Shell = StrEnum("Shell", "bash zsh fish")
"""Shells with completion."""

Output = StrEnum("Output", "text json")
"""Output formats of a plan."""


@app.command("plan")
def plan_command(
    files: Annotated[
        list[str],
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="Manifests, such as of kubectl get -o yaml; - for standard input. Repeatable.",
        ),
    ],
    config: SchedulerFile = None,
    now: Annotated[str | None, typer.Option(help="Time of the decision in RFC 3339; by default now.")] = None,
    budget: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Work for the search for remedies, as the time that it takes on an idle machine; 0: none.",
        ),
    ] = "10s",
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format.")] = Output.text,
) -> None:
    """Print the scheduler's decisions, with reasons.

    For each waiting job, also when it starts and what would let it start. Manifests may be objects of a cluster
    (volcanopy snapshot), and new ones: jobs, flows and cron jobs, Volcano's too. If admission rejects one of these, the exit
    code is 1.
    """
    from volcanopy.cli.plan import PlanOptions, plan_with
    from volcanopy.client.durations import seconds

    limit = seconds("--budget", budget)
    options = PlanOptions(config, now, output is Output.json, limit)
    plan_with(files, options)


@command(
    app,
    "snapshot",
    examples=["volcanopy snapshot > cluster.json", "volcanopy snapshot --config-map batch/scheduler > cluster.json"],
)
async def snapshot_command(
    cluster: ClusterOptions,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scheduler configuration, if it is not in a ConfigMap."),
    ] = None,
    config_map: Annotated[
        str,
        typer.Option(metavar="NAMESPACE/NAME", help="ConfigMap of the configuration; by default the chart's."),
    ] = "",
    scheduler_name: Annotated[str, typer.Option(metavar="NAME", help="Scheduler of the pods.")] = "volcanopy",
    api: Annotated[
        Api | None, typer.Option(help="API groups to read; by default those that volcanopy handles.")
    ] = None,
) -> None:
    """Print the scheduler's input as manifests.

    `volcanopy plan` reads them. They include the scheduler configuration, names, labels and annotations of objects, but no Secrets and no environment of containers.
    """
    from volcanopy.cli.snapshot import snapshot

    await snapshot(cluster, config, config_map, scheduler_name, api=api or "")


@app.command("convert")
def convert_command(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE...]", help="Volcano manifests: files, folders, or - for standard input."),
    ] = None,
    filename: Annotated[
        list[str] | None, typer.Option("-f", "--filename", metavar="FILE", help="The same as FILE. Repeatable.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; by default standard output.")] = None,
    strict: Annotated[bool, typer.Option(help="Fail when a field could not be converted.")] = False,
) -> None:
    """Convert manifests from Volcano to volcanopy.

    Fields without an equivalent are reported.
    """
    from volcanopy.cli.conversion import convert

    given = [*(files or ()), *(filename or ())]
    if not given:
        raise CommandError("give the manifests: FILE or -f FILE, - for standard input", 2)
    convert(given, output, strict=strict)


@app.command("crd")
def crd_command(
    output_dir: Annotated[
        Path | None, typer.Option(help="Folder for one file per kind; by default standard output.")
    ] = None,
    api: Annotated[Api, typer.Option(help="API groups: those of volcanopy, of Volcano, or both.")] = Api.volcanopy,
) -> None:
    """Print the custom resource definitions."""
    from volcanopy.api.crd import render_crds
    from volcanopy.api.volcano_crds import crds_of_api

    files = render_crds(crds_of_api(api.value))
    if output_dir is None:
        sys.stdout.write("---\n".join(files.values()))
        return
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (output_dir / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--output-dir: {error.filename} cannot be written: {error.strerror}", 2) from None
    print(f"{len(files)} definitions written to {output_dir}", file=sys.stderr)


@command(app, "version", examples=["volcanopy version -o json"])
def version_command(
    cluster: ClusterOptions,
    output: Annotated[
        Document | None, typer.Option("-o", "--output", help="Output format.", show_default=False)
    ] = None,
) -> None:
    """Print the versions of this program and of the cluster."""
    from volcanopy.cli.version import version

    version(cluster, output)


@command(app, "completion", examples=["source <(volcanopy completion bash)"])
def completion_command(shell: Annotated[Shell, typer.Argument(help="Shell.")]) -> None:
    """Print the completion script of a shell."""
    from volcanopy.cli.completion import script

    script(root(), VARIABLE, shell.value)


def _print_version(requested: bool) -> None:
    """Print the version of this program, and exit."""
    if requested:
        print(f"volcanopy {VERSION}")
        raise typer.Exit


@app.callback()
def check_options(
    ctx: typer.Context,
    kubeconfig: Annotated[Path | None, KUBECONFIG] = None,
    context: Annotated[str | None, CONTEXT] = None,
    namespace: Annotated[str | None, NAMESPACE] = None,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Batch system for Kubernetes: gang scheduling, queues and fair sharing; also without a cluster."""
    name = ctx.invoked_subcommand or ""
    if (kubeconfig or context or namespace) and name not in {*GROUPS, "version", "snapshot", "usage", "ui", "top"}:
        raise CommandError(f"options of `{name}` follow the command: see `volcanopy {name} --help`", 2)


def root() -> Commands:
    """Return all commands; groups that connect to a cluster come first and are imported when they are called."""
    if VARIABLE in os.environ:
        from volcanopy.cli.completion import register_shells

        register_shells()
    return _commands()


@cache
def _commands() -> Commands:
    group = typer.main.get_command(app)
    assert isinstance(group, Commands)
    groups = {name: LazyGroup(name, *place, "job" if name == "explain" else "") for name, place in GROUPS.items()}
    group.commands = {**groups, **group.commands, "local": LazyGroup("local", *_LOCAL)}
    return group


def all_commands() -> TyperGroup:
    """Return all commands with their modules imported."""
    group = root()
    group.commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    for subcommand in group.commands.values():
        if isinstance(subcommand, LazyGroup):
            subcommand.load()
    return group


def kubectl_completion() -> None:
    """Print completions of the plugin for kubectl."""
    from volcanopy.cli.completion import kubectl

    kubectl(root, VARIABLE)


def main() -> None:
    """Run the command; an error is one sentence on standard error."""
    standard_output.prepare()
    called = Path(sys.argv[0]).name
    program = "kubectl volcanopy" if called.startswith("kubectl-") else "volcanopy"
    try:
        status = _called(called, program)
        sys.stdout.flush()
    except typer.TyperException as fault:
        from volcanopy.cli.usage_errors import print_usage_error

        print_usage_error(fault)
        status = 2
    except CommandError as error:
        status = _print_error(error)
    except ModuleNotFoundError as fault:
        from volcanopy.cli.usage_errors import missing_part

        missing = missing_part(fault)
        if missing is None:
            raise
        status = missing.status if VARIABLE in os.environ else _print_error(missing)
    except BrokenPipeError:
        standard_output.discard()
        status = standard_output.BROKEN_PIPE
    except OSError as fault:
        output_error = standard_output.error_of(fault)
        if output_error is not None:
            standard_output.discard()
        elif fault.filename is None and Path().stat().st_nlink == 0:
            output_error = CommandError("the current directory was deleted: change to another one")
        else:
            raise
        status = _print_error(output_error)
    sys.exit(status)


def _called(called: str, program: str) -> int:
    """Run the command of the arguments and return its exit status; ``called`` is the name of the executable."""
    arguments = sys.argv[1:]
    if called in slurm.PROGRAMS:
        arguments = [called, "--help"] if arguments[:1] == ["--help"] else slurm.PROGRAMS[called](arguments)
    elif (ours := translated(called, arguments)) is not None:
        theirs = shlex.join([*([called] if called in PROGRAMS else ["vcctl"]), *arguments])
        print(f"{program}: `{theirs}` is now `{shlex.join([program, *ours])}`", file=sys.stderr)
        arguments = ours
    status = root().main(arguments, prog_name=program, complete_var=VARIABLE, standalone_mode=False)
    return status if isinstance(status, int) else 0


def _print_error(error: CommandError) -> int:
    print(f"volcanopy: {printable(str(error))}", file=sys.stderr)
    return error.status
