"""What an order for prime time changes: ``python -m bench.quality.prime_time [--seeds N] [--jobs N]``.

Mean waits in minutes on gangs of 1 to 64 cards of four queues over three working days, with the default configuration and with
`primetime` in place of `slowdown`: of jobs of up to 8 cards submitted from 08:00 to 18:00, of those submitted at other times,
and of larger jobs.
"""

import argparse
from statistics import fmean

from bench.quality.queueing import WORKLOADS
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy_lab.simulate.engine import Options, Simulator
from volcanopy_lab.simulate.workload import Job
from volcanopy_testing.notation import all_policies

CONFIGURATIONS = {"slowdown": DEFAULT, "primetime": DEFAULT.replace("  - name: slowdown\n", "  - name: primetime\n", 1)}
SMALL = 8
"""Cards."""


def group(job: Job) -> str:
    """Return the group of jobs whose waits are compared."""
    if int(job.requests["nvidia.com/gpu"]) * job.pods > SMALL:
        return "large"
    return "small, prime time" if 8 <= job.submit / 3600 % 24 < 18 else "small, other times"


def waits(configuration: str, seeds: int, number: int) -> dict[str, float]:
    """Return the mean wait of each group in minutes."""
    minutes: dict[str, list[float]] = {"small, prime time": [], "small, other times": [], "large": []}
    workload = WORKLOADS["ml"]
    for seed in range(42, 42 + seeds):
        jobs = workload.generator(number, seed)
        config = parse(CONFIGURATIONS[configuration], all_policies())
        outcome = Simulator(workload.objects(), jobs, config, Options(seed=seed)).run()
        groups = {job.name: group(job) for job in jobs}
        for job in outcome.jobs:
            minutes[groups[job.name]].append((job.start - job.submit) / 60)
    return {name: fmean(values) for name, values in minutes.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=979)
    given = parser.parse_args()
    for configuration in CONFIGURATIONS:
        figures = waits(configuration, given.seeds, given.jobs)
        print(configuration, *(f"{name}: {minutes:.1f} min" for name, minutes in figures.items()), sep="  ")


if __name__ == "__main__":
    main()
