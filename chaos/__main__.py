"""``python -m chaos``: faults in a test cluster, and a judgement of what happens."""

import contextlib
import json
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chaos.fault import Fault
from chaos.faults import FAULTS
from chaos.run import Outcome, RunSettings, run
from chaos.stage import StageError, StageSettings, embedded_server, site_of
from volcanopy.cli.framework.command import command
from volcanopy.cli.framework.options import KUBECONFIG
from volcanopy.cli.logs import configure
from volcanopy.cli.usage_errors import print_usage_error
from volcanopy.client.durations import positive_seconds
from volcanopy.client.errors import CommandError
from volcanopy.kube.client.kubeconfig import load_connection

app = typer.Typer(rich_markup_mode=None)

OutcomeFormat = StrEnum("OutcomeFormat", "text json")
"""Output formats of an outcome."""


@dataclass(frozen=True)
class TargetOptions:
    """The cluster, and what the run adds to it."""

    context: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Context of the test cluster; the current one is not used."),
    ] = None
    kubeconfig: Annotated[Path | None, KUBECONFIG] = None
    test_cluster: Annotated[
        bool,
        typer.Option("--test-cluster", help="Confirm that pods, nodes and services of the cluster may be lost."),
    ] = False
    embedded: Annotated[
        bool,
        typer.Option("--embedded", help="Use a new embedded API server of this machine instead, with all faults."),
    ] = False
    run_services: Annotated[
        bool,
        typer.Option("--run-services", help="Run the services here, behind proxies; the cluster must have none."),
    ] = False
    other_python: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Python with another release of volcanopy: it runs one scheduler and one controller.",
        ),
    ] = None
    nodes: Annotated[int, typer.Option(min=0, metavar="N", help="Simulated nodes of 8 cpu to add.")] = 0
    pause_process: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PID", help="Process of the API server on this machine to pause, such as etcd=123. Repeatable."
        ),
    ] = None
    etcd: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of etcd without TLS, for the faults of etcd."),
    ] = None
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace to create for the jobs.")
    ] = "volcanopy-chaos"

    def check(self) -> None:
        """Reject a cluster that is not named, or not confirmed as a test cluster. Raises CommandError."""
        if self.other_python and not (self.embedded or self.run_services):
            raise CommandError("--other-python: needs services that run here: add --run-services or --embedded", 2)
        if self.embedded:
            if self.context or self.kubeconfig or self.pause_process or self.etcd:
                raise CommandError(
                    "--embedded: uses no other cluster: omit --context, --kubeconfig, --pause-process, --etcd", 2
                )
            return
        if not self.context:
            raise CommandError("--context: required: name the test cluster, or specify --embedded", 2)
        if not self.test_cluster:
            raise CommandError(
                f"--test-cluster: required: pods, nodes and services of context {self.context} may be lost", 2
            )

    def pids(self) -> Mapping[str, int]:
        """Return the processes to pause by name. Raises CommandError."""
        pids = {}
        for text in self.pause_process or ():
            name, _, pid = text.partition("=")
            if not name or not pid.isdecimal():
                raise CommandError(f"--pause-process: {text!r} must be NAME=PID, such as etcd=123", 2)
            pids[name] = int(pid)
        return pids


@command(
    app,
    "chaos",
    examples=[
        "python -m chaos --embedded",
        "python -m chaos --context test --test-cluster --nodes 6 --seconds 600 --jobs 100",
    ],
)
async def chaos_command(
    target: TargetOptions,
    seconds: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Time for which jobs arrive and faults begin, at least 1s."),
    ] = "60s",
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Number of gangs.")] = 20,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Inject this fault, such as 'busy machine'. Repeatable; default: all."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random jobs and faults.")] = 1,
    logs: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for logs of the processes started here.")
    ] = None,
    output: Annotated[OutcomeFormat, typer.Option("-o", "--output", help="Output format.")] = OutcomeFormat.text,
) -> None:
    """Inject faults into a test cluster and check the outcome.

    Gangs run meanwhile. A separate watcher checks that no pod is bound twice, no job has more pods than replicas, no node is overcommitted, no gang runs in part for long, every job ends, and nothing is left after jobs are deleted. The exit code is 1 if not.
    """
    target.check()
    time = positive_seconds("--seconds", seconds, minimum=1)
    faults = _selected(fault or ())
    stage = StageSettings(
        nodes=target.nodes or (6 if target.embedded else 0),
        run_services=target.run_services or target.embedded,
        other_python=target.other_python,
        pids=target.pids(),
        etcd=target.etcd or "",
        namespace=target.namespace,
        seed=seed,
        folder=logs,
    )
    try:
        outcome = await _run(target, stage, RunSettings(seconds=time, jobs=jobs, seed=seed, faults=faults))
    except* StageError as errors:
        raise CommandError(str(errors.exceptions[0])) from None
    print(json.dumps(outcome.document(), indent=2) if output is OutcomeFormat.json else _text(outcome))
    if outcome.faults:
        raise CommandError(f"{len(outcome.faults)} rules were broken")


def _selected(names: Sequence[str]) -> tuple[Fault, ...]:
    """Return the faults with these names, all if there are none. Raises CommandError."""
    faults = {fault.name: fault for fault in FAULTS}
    for name in names:
        if name not in faults:
            raise CommandError(f"--fault: {name!r} is no fault: use one of {', '.join(faults)}", 2)
    return tuple(faults[name] for name in names) or FAULTS


async def _run(target: TargetOptions, stage: StageSettings, settings: RunSettings) -> Outcome:
    configure(level=logging.ERROR)  # what our own simulated nodes do not reach is no news
    async with contextlib.AsyncExitStack() as stack:
        if target.embedded:
            folder = stage.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="volcanopy-chaos-")))
            folder.mkdir(parents=True, exist_ok=True)
            connection, server = await stack.enter_async_context(embedded_server(folder))
        else:
            connection, server = load_connection(target.kubeconfig, target.context), None
            await connection.check()
        site = await stack.enter_async_context(site_of(connection, stage, server))
        return await run(site, settings)


def _text(outcome: Outcome) -> str:
    """Return the outcome for people."""
    names = sorted(outcome.injected.keys() | outcome.rejected.keys())
    width = max(map(len, [*names, *outcome.missing, "FAULT"]))
    lines = [f"{'FAULT':{width}}  INJECTED  REJECTED"]
    lines += [f"{name:{width}}  {outcome.injected[name]:8}  {outcome.rejected[name]:8}" for name in names]
    lines += [f"{name:{width}}  impossible here: {why}" for name, why in outcome.missing.items()]
    ends = ", ".join(f"{count} {phase}" for phase, count in sorted(outcome.ends.items()))
    starts = ", ".join(f"{name} {count}" for name, count in sorted(outcome.starts.items()))
    lines += [
        "",
        f"Faults: {outcome.injected.total()} injected, {outcome.spoiled.total()} requests answered with an error",
        f"Jobs: {outcome.submitted} submitted, {outcome.pods} pods seen; {ends}",
        *([f"Starts of processes: {starts}; {outcome.probe_kills} killed by liveness probes"] if starts else []),
        f"All ended {outcome.settled_after:.1f} s after the last fault; longest part of a gang {outcome.longest_part:.1f} s",
        *(f"Broken rule: {text}" for text in outcome.faults),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run the command; an error is one sentence on standard error."""
    try:
        typer.main.get_command(app).main(list(arguments), prog_name="python -m chaos", standalone_mode=False)
    except typer.TyperException as fault:
        print_usage_error(fault)
        return 2
    except CommandError as error:
        print(f"chaos: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
