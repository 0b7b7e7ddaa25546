"""Generated workloads. Each is a function of its arguments and its seed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from volcanopy_lab.simulate.workload import Job, WorkloadError

HOUR, DAY = 3600.0, 86400.0
_BUCKETS = 48
"""Half hours of a day in the daily cycle."""


def lublin(
    jobs: int = 1500,
    cpus: int = 128,
    load: float = 0.9,
    seed: int = 42,
    *,
    recurring: float = 0.0,
    queues: Sequence[str] = ("default",),
    pod_cpus: int = 1,
) -> list[Job]:
    """Return parallel jobs after the model of Lublin and Feitelson (JPDC 2003), all jobs without distinction.

    1. Sizes: 24.4 % are serial; the logarithm of the others is two-stage uniform, and 57.6 % are powers of two.
    2. Run times: the logarithm is hyper-gamma, and larger jobs are more often long.
    3. Arrivals: the logarithm of the time between them is gamma, and a day has a cycle with its peak before noon.

    The times between arrivals are scaled to the load. Users expect 1 to 5 times the run time. With ``recurring``, that part of
    the jobs repeats an earlier job of its user with the same size and about the same run time.
    """
    dice = Random(f"lublin {seed}")
    weights = _daily_gamma(8.1737, 3.9631)
    mean = sum(weights) / len(weights)
    times: list[float] = []
    time = 0.0
    for _ in range(jobs):
        gap = math.exp(min(dice.gammavariate(10.2303, 0.4871), 13.0)) / 1.0225
        time += gap * mean / weights[int(time % DAY / (DAY / _BUCKETS))]
        times.append(time)
    largest = math.log2(cpus)
    result: list[Job] = []
    for number, time in enumerate(times):
        size = lublin_size(dice, largest)
        run_time = _lublin_run_time(dice, size)
        result.append(
            _cpu_job(dice, number, time, run_time, size // pod_cpus or 1, queues[number % len(queues)], pod_cpus)
        )
    return at_load(_recurring(result, recurring, dice), load, lambda job: job.pods * pod_cpus / cpus)


def lublin_size(dice: Random, largest: float) -> int:
    """Return the processors of a job of :func:`lublin`; ``largest`` is the binary logarithm of those of the cluster."""
    if dice.random() < 0.244:
        return 1
    middle = max(largest - 2.5, 0.8)
    exponent = dice.uniform(0.8, middle) if dice.random() < 0.86 else dice.uniform(middle, largest)
    return 2 ** round(exponent) if dice.random() < 0.576 else max(round(2**exponent), 1)


def _lublin_run_time(dice: Random, size: int) -> float:
    first = min(max(-0.0054 * size + 0.78, 0.0), 1.0)
    while True:
        shape, scale = (4.2, 0.94) if dice.random() < first else (312.0, 0.03)
        logarithm = dice.gammavariate(shape, scale)
        if logarithm <= 12.0:
            return max(math.exp(logarithm), 1.0)


def _daily_gamma(shape: float, scale: float) -> list[float]:
    """Return the rates of the half hours of a day: a gamma density over their numbers. A tenth of the peak is always there."""
    densities = [number ** (shape - 1) * math.exp(-number / scale) for number in range(1, _BUCKETS + 1)]
    return [0.1 + density / max(densities) for density in densities]


def poisson(
    jobs: int = 1000,
    cpus: int = 128,
    load: float = 0.9,
    seed: int = 42,
    *,
    run_time: float = 1800.0,
    sizes: Sequence[int] = (1, 1, 2, 4, 8),
    cycle: float = 0.5,
    queues: Sequence[str] = ("default",),
    recurring: float = 0.0,
) -> list[Job]:
    """Return jobs that arrive as a Poisson process with a daily cycle, with exponential run times.

    The rate is ``1 + cycle * sin`` of the time of day. The times between arrivals are scaled to the load.
    """
    dice = Random(f"poisson {seed}")
    time, result = 0.0, list[Job]()
    mean_work = run_time * sum(sizes) / len(sizes)
    rate = load * cpus / mean_work
    while len(result) < jobs:
        time += dice.expovariate(rate * (1 + cycle))
        if dice.random() * (1 + cycle) <= 1 + cycle * math.sin(2 * math.pi * time / DAY):
            size = dice.choice(sizes)
            length = max(dice.expovariate(1 / run_time), 1.0)
            result.append(_cpu_job(dice, len(result), time, length, size, dice.choice(queues)))
    return at_load(_recurring(result, recurring, dice), load, lambda job: job.pods / cpus)


ML_QUEUES: Mapping[str, int] = {"research": 4, "product": 3, "teaching": 2, "guests": 1}
"""Queues of :func:`ml_mix` with their weights."""
_ML_SIZES = ((1, 0.42), (2, 0.16), (4, 0.14), (8, 0.15), (16, 0.07), (32, 0.04), (64, 0.02))
"""Cards of a job and the part of the jobs."""


def ml_mix(
    jobs: int = 979,
    gpus: int = 128,
    load: float = 0.9,
    seed: int = 42,
    *,
    days: float = 3.0,
    recurring: float = 0.5,
    queues: Mapping[str, int] = ML_QUEUES,
) -> list[Job]:
    """Return gangs of 1 to 64 cards of four weighted queues over some days, with a daily cycle.

    Jobs of 8 or fewer cards have one pod, larger ones pods of 8. Run times are log-normal, longer for larger jobs, and scaled to
    the load. Users expect 1 to 5 times the run time. Queues submit in proportion to their weights.
    """
    dice = Random(f"ml {seed}")
    names, weights = list(queues), list(queues.values())
    times: list[float] = []
    while len(times) < jobs:
        time = dice.uniform(0.0, days * DAY)
        if dice.random() * 1.6 <= 1 + 0.6 * math.sin(2 * math.pi * (time / DAY - 0.25)):
            times.append(time)
    result: list[Job] = []
    for number, time in enumerate(sorted(times)):
        cards = min(dice.choices([size for size, _ in _ML_SIZES], [part for _, part in _ML_SIZES])[0], gpus)
        run_time = min(dice.lognormvariate(math.log(900.0 * cards**0.3), 1.2), 16 * HOUR)
        of_pod = min(cards, 8)
        job = _cpu_job(dice, number, time, run_time, cards // of_pod, dice.choices(names, weights)[0])
        requests = {"cpu": str(4 * of_pod), "memory": f"{32 * of_pod}Gi", "nvidia.com/gpu": str(of_pod)}
        result.append(replace(job, requests=requests))
    result = _recurring(result, recurring, dice)
    work = sum(int(job.requests["nvidia.com/gpu"]) * job.pods * job.run_time for job in result)
    factor = load * gpus * days * DAY / work
    return [replace(job, run_time=job.run_time * factor, estimate=job.estimate * factor) for job in result]


def _cpu_job(dice: Random, number: int, time: float, run_time: float, pods: int, queue: str, cpus: int = 1) -> Job:
    user = f"user-{dice.randrange(40)}"
    return Job(
        name=f"{user}-{number}",
        submit=time,
        run_time=run_time,
        pods=pods,
        requests={"cpu": str(cpus)},
        queue=queue,
        user=user,
        estimate=run_time * dice.uniform(1.0, 5.0),
    )


def _recurring(jobs: list[Job], part: float, dice: Random) -> list[Job]:
    """Return the jobs, of which a part repeats an earlier job of the same user and queue, under its name with a number."""
    if not part:
        return jobs
    known: dict[tuple[str, str], list[Job]] = {}
    result: list[Job] = []
    for number, job in enumerate(jobs):
        programs = known.setdefault((job.user, job.queue), [])
        if programs and dice.random() < part:
            program = programs[dice.randrange(len(programs))]
            run_time = max(program.run_time * dice.lognormvariate(0.0, 0.25), 1.0)
            again = replace(job, pods=program.pods, requests=program.requests, run_time=run_time)
            name, estimate = program.name.rpartition("-")[0], run_time * dice.uniform(1.0, 5.0)
            result.append(replace(again, name=f"{name}-{number}", estimate=estimate))
        else:
            program = replace(job, name=f"{job.user}-program{len(programs)}x-{number}")
            programs.append(program)
            result.append(program)
    return result


def at_load(jobs: Sequence[Job], load: float, size: Callable[[Job], float]) -> list[Job]:
    """Return the jobs with times of submission scaled to a load; ``size`` is the part of the cluster of a job."""
    if load <= 0:
        raise WorkloadError(f"the load must be greater than 0, not {load:g}")
    span = max(job.submit for job in jobs) - min(job.submit for job in jobs) if jobs else 0.0
    if not span:
        return list(jobs)
    factor = sum(size(job) * job.run_time for job in jobs) / (load * span)
    return [replace(job, submit=job.submit * factor) for job in jobs]
