"""What alternatives change: ``python -m bench.quality.alternatives [--seeds N] [--jobs N] [--load LOAD]``.

Jobs run on a GPU or on 16 cpus, 2 to 30 times as long; a node with 4 GPUs and 32 cpus stands beside three with 64 cpus, four times.
Rows: all jobs on GPUs, each job on GPUs or cpus by chance, on GPUs if its ratio is above the median (which is known only
afterwards), and with alternatives, selected by actual run times, by those that users guess (up to five times too long) and
without run times. The load is the work with GPUs, as a part of all GPUs.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from random import Random
from statistics import fmean, median

from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy_lab.simulate.cluster_description import equal_nodes, queues
from volcanopy_lab.simulate.engine import Options, Simulator
from volcanopy_lab.simulate.outcome import Outcome
from volcanopy_lab.simulate.workload import Job, JobAlternative

GROUPS, CARDS = 4, 4
GPU = {"cpu": "4", "nvidia.com/gpu": "1"}
CPU = {"cpu": "16"}


def drawn(count: int, load: float, seed: int) -> list[Job]:
    """Return jobs with both alternatives, the GPU first."""
    rng = Random(seed)
    mean = 1200.0 * math.exp(0.5)
    gap = mean / (load * GROUPS * CARDS)
    jobs, time = [], 0.0
    for number in range(count):
        time += rng.expovariate(1 / gap)
        run_time, ratio = 1200.0 * rng.lognormvariate(0, 1), 2.0 * 15.0 ** rng.random()
        guessed = [each * rng.uniform(1, 5) for each in (run_time, run_time * ratio)]
        alternatives = (
            JobAlternative("gpu", GPU, run_time, guessed[0]),
            JobAlternative("cpu", CPU, run_time * ratio, guessed[1]),
        )
        jobs.append(Job(f"job-{number:05}", time, run_time, requests=GPU, alternatives=alternatives))
    return jobs


def fixed(jobs: Sequence[Job], on_gpu: Callable[[Job], bool]) -> list[Job]:
    """Return the jobs, each with one of its alternatives only."""
    names = ["gpu" if on_gpu(job) else "cpu" for job in jobs]
    return [
        Job(job.name, job.submit, each.run_time, requests=each.requests, estimate=each.estimate)
        for job, name in zip(jobs, names, strict=True)
        for each in job.alternatives
        if each.name == name
    ]


def ratio(job: Job) -> float:
    """Return how many times as long a job runs on cpus."""
    return job.alternatives[1].run_time / job.alternatives[0].run_time


def run(jobs: Sequence[Job], estimates: str, seed: int) -> Outcome:
    """Simulate jobs with the default configuration."""
    objects: list[Object] = [
        *queues({"default": 1}),
        *equal_nodes(GROUPS, {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": str(CARDS), "pods": "110"}, "gpu"),
        *equal_nodes(3 * GROUPS, {"cpu": "64", "memory": "256Gi", "pods": "110"}, "cpu"),
    ]
    return Simulator(objects, jobs, parse(DEFAULT, builtin()), Options(seed=seed, estimates=estimates)).run()


def rows(count: int, load: float, seed: int) -> dict[str, tuple[Sequence[Job], str]]:
    """Return the jobs of each row, and the estimates that the scheduler is given."""
    jobs, rng = drawn(count, load, seed), Random(-seed)
    middle = median(map(ratio, jobs))
    return {
        "all on GPUs": (fixed(jobs, lambda _: True), "exact"),
        "by chance": (fixed(jobs, lambda _: rng.random() < 0.5), "exact"),
        "by the median": (fixed(jobs, lambda job: ratio(job) >= middle), "exact"),
        "alternatives": (jobs, "exact"),
        "alternatives, guessed": (jobs, "users"),
        "alternatives, no run times": (jobs, "none"),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--load", type=float, default=1.2)
    given = parser.parse_args()
    figures: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(42, 42 + given.seeds):
        for name, (jobs, estimates) in rows(given.jobs, given.load, seed).items():
            outcome = run(jobs, estimates, seed)
            times = sorted(job.end - job.submit for job in outcome.jobs)
            waits = [job.start - job.submit for job in outcome.jobs]
            tail = times[int(0.95 * len(times))]
            figures.setdefault(name, []).append((fmean(times) / 60, tail / 60, fmean(waits) / 60))
    print(f"{'':28} mean completion  95 % complete  mean wait, minutes")
    for name, results in figures.items():
        means = [fmean(column) for column in zip(*results, strict=True)]
        print(f"{name:28} {means[0]:15.1f} {means[1]:14.1f} {means[2]:10.1f}")


if __name__ == "__main__":
    main()
