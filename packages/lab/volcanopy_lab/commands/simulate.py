"""``volcanopy simulate``: a workload on a cluster under virtual time."""

import math
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volcanopy.cli.framework.command import command
from volcanopy.client.durations import seconds
from volcanopy.client.errors import CommandError
from volcanopy.client.files import check_writable, text_of

if TYPE_CHECKING:
    from volcanopy_lab.reports.runs import SimulationRun
    from volcanopy_lab.reports.source import SimulationInput
    from volcanopy_lab.simulate.engine import Options

app = typer.Typer(rich_markup_mode=None)

MeasureFormat = StrEnum("MeasureFormat", "table json")
"""Output formats of measures."""

WorkloadFormat = StrEnum("WorkloadFormat", "swf openb philly borg jobs")
"""Formats of workloads in files."""

EstimateSource = StrEnum("EstimateSource", "none exact users learnt")
"""The run times that the scheduler is given."""


@dataclass(frozen=True)
class InputOptions:
    """The cluster and the workload."""

    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Description of the cluster in YAML, a snapshot of `volcanopy snapshot`, or a node list of openb.",
        ),
    ] = None
    kind: Annotated[
        WorkloadFormat | None,
        typer.Option("--format", help="Format of the workload; by default detected from the file."),
    ] = None
    load: Annotated[
        float,
        typer.Option(min=0, help="Scale the times between submissions to this load: work by capacity, such as 0.9."),
    ] = 0.0
    window: Annotated[
        str, typer.Option(metavar="FROM-TO", help="Simulate the jobs that are submitted then, such as 1d-3d.")
    ] = ""
    pod_cpus: Annotated[int, typer.Option(min=1, help="Processors of a pod of an SWF trace.")] = 1

    def source(self, workload: str) -> "SimulationInput":
        """Return the input. Raises CommandError."""
        from volcanopy_lab.reports.source import SimulationInput

        if not math.isfinite(self.load):
            raise CommandError(f"--load: '{self.load}' is invalid: use a number such as 0.9", 2)
        first, dash, last = self.window.partition("-")
        if self.window and not (first and dash):
            raise CommandError(f"--window: give two times such as 1d-3d, not {self.window!r}", 2)
        begin = seconds("--window", first) if first else 0.0
        end = seconds("--window", last) if last else math.inf
        if end <= begin:
            raise CommandError(f"--window: {last} is not after {first}", 2)
        cluster = str(self.cluster) if self.cluster is not None else ""
        kind = self.kind.value if self.kind is not None else ""
        return SimulationInput(workload, cluster, kind, self.load, (begin, end), self.pod_cpus)


@dataclass(frozen=True)
class RunOptions:
    """What happens in a run, and how many there are."""

    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE", help="Scheduler configuration; `default` is the built-in one. Repeat it to compare."
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="First seed of generators.")] = 42
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds: each configuration is run with each.")] = 1
    estimates: Annotated[EstimateSource, typer.Option(help="Run times that the scheduler is given.")] = (
        EstimateSource.users
    )
    period: Annotated[str, typer.Option(metavar="TIME", help="Time between two cycles.")] = "1s"
    heartbeat: Annotated[
        str, typer.Option(metavar="TIME", help="Longest time between two cycles while jobs wait; 0 for none.")
    ] = "10m"
    grace: Annotated[str, typer.Option(metavar="TIME", help="Time that evicted pods take to end.")] = "0"
    check: Annotated[bool, typer.Option("--check", help="Check each plan for violations of invariants.")] = False

    def tasks(self, source: "SimulationInput") -> "list[SimulationRun]":
        """Return the runs. Raises CommandError."""
        from dataclasses import replace

        from volcanopy_lab.reports.runs import SimulationRun

        options = self._options()
        return [
            SimulationRun(source, text, replace(options, configuration=name, seed=seed))
            for name, text in self._configurations(source.cluster)
            for seed in range(self.seed, self.seed + self.seeds)
        ]

    def _options(self) -> "Options":
        from volcanopy_lab.simulate.engine import Options

        return Options(
            estimates=self.estimates.value,
            period=seconds("--period", self.period),
            heartbeat=seconds("--heartbeat", self.heartbeat),
            grace=seconds("--grace", self.grace),
            checked=self.check,
        )

    def _configurations(self, cluster: str) -> list[tuple[str, str]]:
        from volcanopy.scheduler.policy.config import DEFAULT
        from volcanopy_lab.reports.source import configuration_of

        if not self.config:
            own = configuration_of(cluster) if cluster else ""
            return [("snapshot", own)] if own else [("default", DEFAULT)]
        result: list[tuple[str, str]] = []
        for entry in self.config:
            name, equals, file = entry.partition("=")
            file = file if equals else entry
            if entry == "default":
                result.append(("default", DEFAULT))
                continue
            result.append((name if equals else Path(file).stem, text_of(file, "--config")))
        names = [name for name, _ in result]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise CommandError(f"--config: two configurations have the name {twice!r}: give names as NAME=FILE", 2)
        return result


@command(
    app,
    "simulate",
    examples=[
        "volcanopy simulate ml --seeds 5 --report report.html",
        "volcanopy simulate trace.swf --cluster cluster.yaml --load 0.9",
        "volcanopy simulate ml:jobs=200 --config default --config new=scheduler.yaml -o json",
    ],
)
def simulate_command(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="File of a workload, or a generator: lublin, poisson or ml, with arguments as in ml:jobs=500,days=2.",
        ),
    ],
    inputs: InputOptions,
    runs: RunOptions,
    output: Annotated[
        MeasureFormat, typer.Option("--output", "-o", help="Format of the measures.")
    ] = MeasureFormat.table,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report with plots: one HTML file.")
    ] = None,
    jobs: Annotated[Path | None, typer.Option(metavar="FILE", help="Write all jobs to a CSV file.")] = None,
    processes: Annotated[int, typer.Option(min=0, help="Runs at the same time; 0: one for each processor.")] = 0,
) -> None:
    """Simulate a workload on a cluster under virtual time.

    The scheduler, the job controller and admission decide as they do live. The command prints who waited for how long and how full the cluster was, for each scheduler configuration side by side.
    """
    from volcanopy.api.quantity import counted
    from volcanopy.client.progress import progress
    from volcanopy_lab.reports import job_files
    from volcanopy_lab.reports.comparison import Comparison
    from volcanopy_lab.reports.report import write_report
    from volcanopy_lab.reports.runs import run_all

    check_writable(jobs, "--jobs")
    check_writable(report, "--report")
    tasks = runs.tasks(inputs.source(workload))
    for note in tasks[0].source.read(runs.seed).notes:
        print(f"volcanopy: {note}", file=sys.stderr)
    part = 0.0

    def take(value: float) -> None:
        nonlocal part
        part = value

    with progress(counted(len(tasks), "run"), lambda: part):
        outcomes = run_all(tasks, processes or os.cpu_count() or 1, take)
    names = dict.fromkeys(task.options.configuration for task in tasks)
    comparison = Comparison(
        {name: [outcome for outcome in outcomes if outcome.configuration == name] for name in names}
    )
    for note in comparison.notes():
        print(f"volcanopy: {note}", file=sys.stderr)
    print(comparison.document() if output is MeasureFormat.json else comparison.table())
    if jobs is not None:
        job_files.write(jobs, outcomes)
    if report is not None:
        write_report(report, comparison, workload, {task.options.configuration: task.config for task in tasks})
