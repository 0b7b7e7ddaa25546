"""Workloads on which nothing was tuned: other generators than those of the tuning set, and other errors of requested times.

All are jobs of one cpu a pod for a cluster of 128 cpus, at a load of 0.9 while jobs arrive (1.2 for feitelson and serial). Users request 1 to 5 times the run
time unless the name states otherwise.

- Feitelson 1996 (JSSPP): sizes are harmonic of order 1.5, powers of two more often; run times are hyperexponential, longer for
  larger jobs; jobs are repeated by a harmonic distribution of order 2.5. Weights and means are chosen here.
- Downey 1997 (IPPS): the work and the average parallelism of a job are log-uniform; its processors are the latter.
- bimodal: nine of ten jobs run about a minute on few cpus, the others about six hours on many. bursty: up to 60 jobs at once.
  wide: each seventh job needs half of the cluster. serial: jobs of one cpu.
- exact, tenfold and short: jobs of Lublin's model that request their run time, ten times that, or 30 % too little.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

from volcanopy_lab.simulate.generators import HOUR, at_load, lublin, lublin_size
from volcanopy_lab.simulate.workload import Job

CPUS, LOAD = 128, 0.9
_HARMONIC = [(size & (size - 1) == 0 or 0.1) / size**1.5 for size in range(1, CPUS + 1)]
"""Weights of the sizes: one that is no power of two is ten times as rare."""
_REPEATS = [1 / count**2.5 for count in range(1, 101)]

Requests = Iterator[tuple[int, float, float]]
"""Processors, run time and time since the previous arrival of each job: without end."""


def _feitelson(dice: Random) -> Requests:
    while True:
        size = dice.choices(range(1, CPUS + 1), _HARMONIC)[0]
        long = dice.random() < 0.05 + 0.3 * size / CPUS
        run_time = dice.expovariate(1 / (HOUR if long else 120.0))
        for _ in range(dice.choices(range(1, 101), _REPEATS)[0]):
            yield size, run_time, dice.expovariate(1.0)


def _downey(dice: Random) -> Requests:
    while True:
        work, parallelism = math.exp(dice.uniform(2.16, 11.17)), math.exp(dice.uniform(0.0, math.log(CPUS)))
        yield round(parallelism), work / parallelism, dice.expovariate(1.0)


def _bimodal(dice: Random) -> Requests:
    while True:
        if dice.random() < 0.9:
            yield dice.choice((1, 2, 4)), dice.lognormvariate(math.log(60.0), 0.5), dice.expovariate(1.0)
        else:
            yield dice.choice((16, 32, 64)), dice.lognormvariate(math.log(6 * HOUR), 0.5), dice.expovariate(1.0)


def _bursty(dice: Random) -> Requests:
    while True:
        size, run_time, number = lublin_size(dice, 5.0), dice.lognormvariate(math.log(900.0), 1.2), dice.randint(1, 60)
        for index in range(number):
            gap = 0.0 if index else dice.expovariate(1 / 30)
            yield size, run_time * dice.lognormvariate(0.0, 0.3), gap


def _wide(dice: Random) -> Requests:
    while True:
        size = CPUS // 2 if dice.random() < 1 / 7 else dice.choice((1, 2, 4, 8))
        yield size, dice.lognormvariate(math.log(1200.0), 1.2), dice.expovariate(1.0)


def _serial(dice: Random) -> Requests:
    while True:
        yield 1, dice.lognormvariate(math.log(1800.0), 1.0), dice.expovariate(1.0)


def _generated(name: str, sizes: Callable[[Random], Requests], load: float = LOAD) -> Callable[[int, int], list[Job]]:
    """Return a generator of so many jobs of a seed."""

    def jobs(number: int, seed: int) -> list[Job]:
        dice, time, result = Random(f"{name} {seed}"), 0.0, list[Job]()
        for index, (size, seconds, gap) in zip(range(number), sizes(dice), strict=False):
            time, user, run_time = time + gap, f"user-{dice.randrange(20)}", max(seconds, 1.0)
            estimate = run_time * dice.uniform(1.0, 5.0)
            result.append(Job(f"{user}-{index}", time, run_time, size, user=user, estimate=estimate))
        return at_load(result, load, lambda job: job.pods / CPUS)

    return jobs


def _requested(part: float) -> Callable[[int, int], list[Job]]:
    """Return a generator of jobs of Lublin's model that request a part of their run time."""

    def jobs(number: int, seed: int) -> list[Job]:
        generated = lublin(jobs=number, cpus=CPUS, load=LOAD, recurring=0.5, seed=seed)
        return [replace(job, estimate=part * job.run_time) for job in generated]

    return jobs


GENERATORS: Mapping[str, Callable[[int, int], list[Job]]] = {
    "feitelson": _generated("feitelson", _feitelson, 1.2),
    "downey": _generated("downey", _downey),
    "bimodal": _generated("bimodal", _bimodal),
    "bursty": _generated("bursty", _bursty),
    "wide": _generated("wide", _wide),
    "serial": _generated("serial", _serial, 1.2),
    "exact": _requested(1.0),
    "tenfold": _requested(10.0),
    "short": _requested(0.7),
}
"""The generators by name."""
