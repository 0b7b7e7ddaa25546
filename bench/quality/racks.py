"""What topology constraints cost gangs of whole nodes: ``python -m bench.quality.racks [--seeds N] [--jobs N] [--only ROW]``.

The mix of machine learning jobs on 16 nodes with 8 GPUs. A gang of 16 to 64 GPUs takes all GPUs of 2 to 8 nodes. Four nodes are
a rack (tier 1), two racks a hall (tier 2): gangs of up to a rack run in one rack, larger ones in one hall. EASY and first fit
know neither racks nor queues.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, stdev

from bench.quality.policies import EASY, FIRST_FIT, Policy, start_times
from bench.quality.queueing import WORKLOADS
from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy_lab.simulate.engine import Options, Simulator
from volcanopy_lab.simulate.measures import THRESHOLD
from volcanopy_lab.simulate.workload import Job
from volcanopy_testing.topology_notation import hypernode

GPUS = 8
"""Of a node."""
RACK, RACKS = 4, 4
"""Nodes of a rack, and racks."""
WORKLOAD = WORKLOADS["ml"]
GROUPS: Mapping[str, Callable[[Job], bool]] = {
    "up to 8 GPUs": lambda job: job.pods == 1,
    "2 or 4 nodes": lambda job: 1 < job.pods <= RACK,
    "8 nodes": lambda job: job.pods > RACK,
}


def tier(job: Job) -> int:
    """Return the highest tier of hypernodes within which a gang of whole nodes runs."""
    return 1 if job.pods <= RACK else 2


def constrained(jobs: Sequence[Job], mode: str) -> list[Job]:
    """Return the jobs; gangs have a constraint of this mode."""
    return [
        replace(job, topology=core.NetworkTopology(mode=mode, highest_tier_allowed=tier(job))) if job.pods > 1 else job
        for job in jobs
    ]


def simulated(mode: str, jobs: Sequence[Job], seed: int) -> dict[str, float]:
    """Return the starts of the jobs with the default configuration; ``mode`` is hard, soft, or empty for no constraint."""
    nodes = [item.metadata.name for item in WORKLOAD.objects() if isinstance(item, core.Node)]
    racks = {f"rack-{number}": nodes[RACK * number : RACK * (number + 1)] for number in range(RACKS)}
    halls = {f"hall-{number}": list(racks)[2 * number : 2 * number + 2] for number in range(RACKS // 2)}
    objects = [
        *WORKLOAD.objects(),
        *(hypernode(name, {"tier": "1"}, members, racks) for name, members in racks.items()),
        *(hypernode(name, {"tier": "2"}, members, racks) for name, members in halls.items()),
    ]
    given = constrained(jobs, mode) if mode else jobs
    outcome = Simulator(objects, given, parse(DEFAULT, builtin()), Options(seed=seed)).run()
    return {job.name: job.start for job in outcome.jobs}


def textbook(policy: Policy, jobs: Sequence[Job], _: int) -> dict[str, float]:
    """Return the starts of the jobs with a textbook policy."""
    return start_times(jobs, WORKLOAD.nodes, GPUS, policy, WORKLOAD.resource)


ROWS: Mapping[str, Callable[[Sequence[Job], int], dict[str, float]]] = {
    "first fit, without racks": partial(textbook, FIRST_FIT),
    "EASY, without racks": partial(textbook, EASY),
    "default, without racks": partial(simulated, ""),
    "default, racks preferred": partial(simulated, "soft"),
    "default, racks required": partial(simulated, "hard"),
}


def figures(jobs: Sequence[Job], starts: Mapping[str, float]) -> list[float]:
    """Return percent of the GPUs allocated, the mean wait of each group in minutes, the longest in hours, and the slowdown."""
    assert min(starts.values()) >= 0
    waits = {job.name: starts[job.name] - job.submit for job in jobs}
    work = sum(gpus_of(job) * job.ends_after for job in jobs)
    end = max(starts[job.name] + job.ends_after for job in jobs)
    slowdowns = [max((waits[job.name] + job.ends_after) / max(job.ends_after, THRESHOLD), 1.0) for job in jobs]
    groups = [fmean(waits[job.name] / 60 for job in jobs if belongs(job)) for belongs in GROUPS.values()]
    return [100 * work / (GPUS * WORKLOAD.nodes * end), *groups, max(waits.values()) / 3600, fmean(slowdowns)]


def gpus_of(job: Job) -> int:
    """Return the GPUs of all pods of a job."""
    return int(job.requests[WORKLOAD.resource]) * job.pods


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.racks")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=330)
    parser.add_argument("--only", default="", help="Only rows whose names contain this.")
    given = parser.parse_args()
    headings = ["", "GPUs %", *(f"wait min, {name}" for name in GROUPS), "longest wait h", "slowdown"]
    print(f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
    workloads = {seed: WORKLOAD.generator(given.jobs, seed) for seed in range(42, 42 + given.seeds)}
    for name, starts in ROWS.items():
        if given.only in name:
            runs = [figures(jobs, starts(jobs, seed)) for seed, jobs in workloads.items()]
            cells = [_cell(column) for column in zip(*runs, strict=True)]
            print(f"| {' | '.join([name, *cells])} |", flush=True)


def _cell(values: Sequence[float]) -> str:
    """Return the mean, with the standard error if there are several values."""
    error = f" ± {stdev(values) / len(values) ** 0.5:.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{error}"


if __name__ == "__main__":
    main()
