"""Who waits how long: our configurations and textbook policies on generated workloads, with standard errors over seeds.

``python -m bench.quality.queueing [--judging] [--seeds N] [--jobs N] [--processes N] [workload ...]`` prints the table of each
workload. The tuning set is for the choice of rules and constants. The judging set has other seeds and other generators
(:mod:`bench.quality.judging`): no rule is chosen by it, it is run once for a release. Users expect 1 to 5 times the run time;
with learnt estimates, half of the jobs repeat an earlier one. Those of :mod:`bench.quality.archive_like` request round walltimes.

A workload may be a trace in the Standard Workload Format, such as those of the Parallel Workloads Archive, with the number of
processors and a load to which the times between submissions are scaled: ``trace.swf:240:0.9``.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.quality.archive_like import LOGS, Log, archive_like
from bench.quality.judging import GENERATORS
from bench.quality.policies import CONSERVATIVE, EASY, FIRST_FIT, Policy, start_times
from volcanopy.api import names, quantity
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy_lab.simulate.cluster_description import equal_nodes, queues, with_default_queue
from volcanopy_lab.simulate.engine import Options, Simulator
from volcanopy_lab.simulate.generators import ML_QUEUES, at_load, lublin, ml_mix
from volcanopy_lab.simulate.inputs.swf import read_swf
from volcanopy_lab.simulate.measures import Measures, measure
from volcanopy_lab.simulate.outcome import JobOutcome, Outcome
from volcanopy_lab.simulate.workload import Job


@dataclass(frozen=True)
class Workload:
    """A workload that follows from a seed, and its cluster of equal nodes."""

    generator: Callable[[int, int], list[Job]]
    """Returns a number of jobs that follow from a seed."""
    number: int
    """The number of jobs by default."""
    nodes: int
    allocatable: Mapping[str, str]
    resource: str
    """The resource that jobs compete for."""
    weights: Mapping[str, int]

    def objects(self) -> list[Object]:
        """Return the cluster."""
        return with_default_queue([*equal_nodes(self.nodes, self.allocatable), *queues(self.weights)])


_CPUS = {"cpu": "8", "memory": "64Gi"}
_CARDS = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}


def _lublin(load: float, cpus: int = 128) -> Callable[[int, int], list[Job]]:
    return lambda jobs, seed: lublin(jobs=jobs, cpus=cpus, load=load, recurring=0.5, seed=seed)


def _ml(jobs: int, seed: int) -> list[Job]:
    return ml_mix(jobs=jobs, days=3.0 * jobs / 979, seed=seed)


def _archive_like(log: Log) -> Callable[[int, int], list[Job]]:
    return lambda jobs, seed: archive_like(log, jobs, seed)


_CPU = {"cpu": "1", "memory": "8Gi"}
"""A node of an IBM SP2."""
TUNING: Mapping[str, Workload] = {
    "lublin-0.9": Workload(_lublin(0.9), 1500, 16, _CPUS, "cpu", {}),
    "lublin-1.1": Workload(_lublin(1.1), 1500, 16, _CPUS, "cpu", {}),
    "lublin-1.1-64": Workload(_lublin(1.1, 512), 800, 64, _CPUS, "cpu", {}),
    "ml": Workload(_ml, 979, 16, _CARDS, "nvidia.com/gpu", ML_QUEUES),
    **{name: Workload(_archive_like(log), 1500, log.processors, _CPU, "cpu", {}) for name, log in LOGS.items()},
}
"""The workloads by which rules are chosen, by name."""
TUNING_SEEDS, JUDGING_SEEDS = range(42, 242), range(5000, 5200)
JUDGING: Mapping[str, Workload] = {
    **{name: TUNING[name] for name in ("lublin-0.9", "lublin-1.1", "ml", *LOGS)},
    **{
        name: Workload(generator, 2000 if name == "serial" else 500, 16, _CPUS, "cpu", {})
        for name, generator in GENERATORS.items()
    },
}
"""The workloads by which they are judged, with other seeds."""
WORKLOADS: Mapping[str, Workload] = {**TUNING, **JUDGING}


@lru_cache
def workload_of(name: str) -> Workload:
    """Return a workload by its name, or that of a trace: the same jobs for every seed, in one queue."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    file, processors, load = name.rsplit(":", 2)
    with Path(file).open(encoding="utf-8") as lines:
        trace = [replace(job, queue=names.DEFAULT_QUEUE) for job in read_swf(lines).jobs]

    def first(jobs: int, seed: int) -> list[Job]:
        return at_load(trace[:jobs], float(load), lambda job: job.pods / int(processors))

    return Workload(first, 1500, int(processors), _CPU, "cpu", {})


BY_AGE = DEFAULT.replace("  - name: slowdown\n", "", 1).replace(
    "  - name: reservation\n", "  - name: reservation\n    arguments: {admitRunnable: false}\n", 1
)
"""The default configuration with jobs in the order of their ages, and without admission of jobs that fit into idle resources."""
WITHOUT_RESERVATIONS = DEFAULT.replace("  - name: reservation\n", "")
"""The default configuration without reservations."""
OURS = {
    "default, no estimates": ("none", DEFAULT),
    "default, users' estimates": ("users", DEFAULT),
    "default, learnt estimates": ("learnt", DEFAULT),
    "without reservations, no estimates": ("none", WITHOUT_RESERVATIONS),
    "without reservations, users' estimates": ("users", WITHOUT_RESERVATIONS),
    "without slowdown and admitRunnable, no estimates": ("none", BY_AGE),
    "without slowdown and admitRunnable, users' estimates": ("users", BY_AGE),
}
"""Our configurations, with the run times that they are given."""
REFERENCES: Mapping[str, Policy] = {
    "EASY": EASY,
    "SJF + EASY": Policy("sjf"),
    "SJF + EASY, after a day by age": Policy("aged"),
    "the default's order + EASY": Policy("due"),
    "conservative backfilling": CONSERVATIVE,
    "first fit": FIRST_FIT,
    "EASY by weighted queues": Policy(weighted=True),
    "SJF + EASY by weighted queues": Policy("sjf", weighted=True),
    "EASY, learnt estimates": Policy(learnt=True),
    "SJF + EASY, learnt estimates": Policy("sjf", learnt=True),
}
"""The textbook policies, with users' estimates where the name states nothing else."""


def ours(workload: str, jobs: Sequence[Job], seed: int, estimates: str, config: str) -> Measures:
    """Return the measures of a configuration."""
    options = Options(seed=seed, estimates=estimates)
    return measure(Simulator(workload_of(workload).objects(), jobs, parse(config, builtin()), options).run())


def reference(workload: str, jobs: Sequence[Job], policy: Policy) -> Measures:
    """Return the measures of a textbook policy."""
    given = workload_of(workload)
    per_node = quantity.amount(given.resource, given.allocatable[given.resource])
    starts = start_times(jobs, given.nodes, per_node, policy, given.resource, given.weights)
    return measured(jobs, starts, given.nodes * float(given.allocatable[given.resource]), given.resource)


def measured(jobs: Sequence[Job], starts: Mapping[str, float], cards: float, resource: str) -> Measures:
    """Return the measures of a schedule without interruptions: ``cards`` is the capacity of the resource."""
    outcomes, work = [], 0.0
    for job in jobs:
        start = starts[job.name]
        size = float(job.requests[resource]) * job.pods
        work += size * job.ends_after
        outcomes.append(
            JobOutcome(
                job.name,
                job.queue,
                job.user,
                job.pods,
                0.0,
                0.0,
                job.submit,
                start,
                start + job.ends_after,
                job.ends_after,
                0,
                0.0,
                0.0,
            )
        )
    end = max(job.end for job in outcomes)
    name = "cpu" if resource == "cpu" else "gpu"
    return measure(
        Outcome(
            configuration="",
            seed=0,
            end=end,
            main=name,
            capacity={name: cards},
            queues=(),
            jobs=tuple(outcomes),
            utilisation={name: work / (cards * end)},
        )
    )


@dataclass(frozen=True)
class Figure:
    """A column of the table: a measure in a unit, and how it compares."""

    heading: str
    of: Callable[[Measures], float]
    comparison: str
    """The reference that it is a multiple of, or from which it differs, in points."""
    ratio: bool = True


FIGURES = (
    Figure("utilisation %", lambda run: 100 * max(run.utilisation, run.gpu_utilisation), "EASY", ratio=False),
    Figure("mean wait min", lambda run: run.mean_wait / 60, "EASY"),
    Figure("longest wait h", lambda run: run.longest_wait / 3600, "EASY"),
    Figure("bounded slowdown", lambda run: run.mean_bounded_slowdown, "SJF + EASY"),
)
COMPARED = {figure.comparison for figure in FIGURES}
HEADINGS = "\n".join(
    f"| {' | '.join(cells)} |"
    for cells in (
        ["", *(text for each in FIGURES for text in (each.heading, f"to {each.comparison}")), "never started"],
        ["---"] * (2 + 2 * len(FIGURES)),
    )
)


def row(name: str, runs: Sequence[Measures], references: Mapping[str, Sequence[Measures]]) -> str:
    """Return a line of the table: means with standard errors, and ratios of means or differences of the same seeds."""
    cells = [name]
    for figure in FIGURES:
        values = np.array([figure.of(run) for run in runs])
        others = np.array([figure.of(run) for run in references[figure.comparison]])
        compared = values.mean() / max(others.mean(), 1e-9) if figure.ratio else (values - others).mean()
        rest = (values - compared * others) / max(others.mean(), 1e-9) if figure.ratio else values - others
        cells += [f"{values.mean():.1f} ± {_error(values):.1f}", f"{compared:.2f} ± {_error(rest):.2f}"]
    return f"| {' | '.join([*cells, f'{np.mean([run.never_started for run in runs]):.0f}'])} |"


def _error(values: Floats) -> float:
    """Return the standard error of the mean; 0 of one value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.queueing")
    parser.add_argument(
        "workloads", nargs="*", help=f"Traces, or of {', '.join(WORKLOADS)}. Defaults to all of the set."
    )
    parser.add_argument("--judging", action="store_true", help="The judging set instead of the tuning set.")
    parser.add_argument("--seeds", type=int, default=1, help="Number of seeds, the first of the set. Defaults to 1.")
    parser.add_argument("--jobs", type=int, default=0, help="Number of jobs. Defaults to that of the workload.")
    parser.add_argument("--processes", type=int, default=1, help="Runs at the same time. Defaults to 1.")
    parser.add_argument("--only", default="", help="Only rows whose names contain this, beside EASY.")
    options = parser.parse_args()
    for name in options.workloads:
        if name not in WORKLOADS and not (name.count(":") >= 2 and Path(name.rsplit(":", 2)[0]).is_file()):
            parser.error(f"{name}: no workload, and no FILE:PROCESSORS:LOAD of a trace")
    seeds = (JUDGING_SEEDS if options.judging else TUNING_SEEDS)[: options.seeds]
    with ProcessPoolExecutor(options.processes) as pool:
        for workload in options.workloads or (JUDGING if options.judging else TUNING):
            given = workload_of(workload)
            number = options.jobs or given.number
            print(f"\n{workload}, {number} jobs, {options.seeds} seeds from {seeds[0]}\n\n{HEADINGS}")
            jobs = {seed: given.generator(number, seed) for seed in seeds}
            runs = {
                name: [pool.submit(reference, workload, jobs[seed], policy) for seed in seeds]
                for name, policy in REFERENCES.items()
                if (given.weights or not policy.weighted) and (options.only in name or name in COMPARED)
            }
            runs |= {
                name: [pool.submit(ours, workload, jobs[seed], seed, *config) for seed in seeds]
                for name, config in OURS.items()
                if options.only in name
            }
            results = dict[str, list[Measures]]()
            for name, measures in runs.items():
                results[name] = [run.result() for run in measures]
                if set(results) >= COMPARED:
                    for done in results if len(results) == 2 else [name]:
                        print(row(done, results[done], results), flush=True)


if __name__ == "__main__":
    main()
