"""Workloads like three logs of the Parallel Workloads Archive, generated from published figures: the logs are not in the source tree.

Of a log: its processors, jobs, duration and users, the part of the processors that was used, and the limit of run times (pages
of the logs in the archive). Of all:

1. Sizes are those of Lublin and Feitelson (JPDC 2003), 24.4 % serial and more than half of the others powers of two: of a part
   of the jobs for the whole machine, of the others for 16 processors, so that the mean run times are near those of the logs
   (188, 123 and 148 minutes, Tsafrir, Etsion and Feitelson, TPDS 2007).
2. Run times are log-normal, larger for larger jobs, cut at the limit, and scaled so that the load is the used part of the log.
3. Users request round times: about 20 values are the estimates of 90 % of the jobs, the limit is one of the most frequent
   (Tsafrir, Etsion and Feitelson, JSSPP 2005). The used part of an estimate is uniform (Mu'alem and Feitelson, TPDS 2001).
4. Few users submit most jobs, and repeat them. Jobs arrive in working hours more often than at night and on weekends.

Chosen here: the deviation of run times, how often jobs repeat, and the depth of the daily and weekly cycle.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from volcanopy_lab.simulate.generators import DAY, HOUR, lublin_size
from volcanopy_lab.simulate.workload import Job

_ESTIMATES = (
    60,
    120,
    300,
    600,
    900,
    1200,
    1800,
    2700,
    *(hours * 3600 for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 24, 36, 48, 60)),
)
"""Times that users request, in seconds, up to the limit."""
_DEVIATION = 1.8
"""Of the natural logarithm of run times: two thirds of the jobs run for a seventh to seven times the median."""
_SMALL = 16
"""Processors for which the sizes of the other jobs are drawn."""
_REPEATED = 0.6
"""Part of the jobs that repeat an earlier one of their user."""
_AT_LIMIT = 0.1
"""Part of the new programs whose users request the limit, whatever the run time."""
_NIGHT, _WEEKEND = 0.35, 0.5
"""Arrivals at night relative to the day, and on weekends relative to working days."""


@dataclass(frozen=True)
class Log:
    """Figures of a log."""

    processors: int
    jobs: int
    days: float
    users: int
    load: float
    """The used part of the processors."""
    limit: float
    """The longest run time, in seconds."""
    whole: float
    """Part of the jobs whose sizes are drawn for the whole machine."""


LOGS: Mapping[str, Log] = {
    "kth-sp2": Log(100, 28_490, 334, 214, 0.704, 60 * HOUR, 0.5),
    "ctc-sp2": Log(338, 79_302, 334, 679, 0.852, 18 * HOUR, 0.2),
    "sdsc-sp2": Log(128, 73_496, 730, 437, 0.835, 18 * HOUR, 0.5),
}
"""The logs by name. Limits of KTH: 4 hours by day, 15 at night, 60 on weekends; the longest is taken."""


@dataclass(frozen=True)
class _Program:
    """What a user runs again and again."""

    number: int
    processors: int
    run_time: float
    used: float
    """The used part of the estimate."""


def archive_like(log: Log, jobs: int, seed: int) -> list[Job]:
    """Return jobs of one processor a pod, with the estimates of their users, which are their walltimes, too."""
    dice = Random(f"archive {log} {seed}")
    users = [1 / (number + 1) for number in range(log.users)]
    programs: dict[int, list[_Program]] = {}
    result: list[tuple[float, int, _Program]] = []
    time, rate = 0.0, log.jobs / log.days / DAY
    while len(result) < jobs:
        time += dice.expovariate(rate * _PEAK)
        if dice.random() * _PEAK > _rate(time):
            continue
        user = dice.choices(range(log.users), users)[0]
        known = programs.setdefault(user, [])
        if known and dice.random() < _REPEATED:
            program = dice.choice(known[-5:])
        else:
            largest = log.processors if dice.random() < log.whole else _SMALL
            size = min(lublin_size(dice, math.log2(largest)), log.processors)
            run_time = dice.lognormvariate(math.log(size**0.2), _DEVIATION)
            used = 0.0 if dice.random() < _AT_LIMIT else dice.uniform(0.02, 1.0)
            program = _Program(len(known), size, run_time, used)
            known.append(program)
        again = replace(program, run_time=program.run_time * dice.lognormvariate(0.0, 0.25))
        result.append((time, user, again))
    factor = _factor(result, log)
    return [_job(number, log, factor, *entry) for number, entry in enumerate(result)]


def _rate(time: float) -> float:
    """Return arrivals relative to their mean: more from 8 to 18 on working days."""
    day, hour = int(time / DAY) % 7, time / HOUR % 24
    relative = (1.0 if 8 <= hour < 18 else _NIGHT) * (1.0 if day < 5 else _WEEKEND)
    return relative * _PEAK


_PEAK = 1 / ((10 + 14 * _NIGHT) / 24 * (5 + 2 * _WEEKEND) / 7)
"""Arrivals by day on a working day relative to their mean."""


def _factor(entries: Sequence[tuple[float, int, _Program]], log: Log) -> float:
    """Return the seconds of a unit of the run times with which the load is that of the log."""
    target = log.load * log.processors * (entries[-1][0] - entries[0][0])
    low, high = 1.0, 1e6
    for _ in range(60):
        factor = math.sqrt(low * high)
        work = sum(each.processors * min(each.run_time * factor, log.limit) for _, _, each in entries)
        low, high = (factor, high) if work < target else (low, factor)
    return low


def _job(number: int, log: Log, factor: float, time: float, user: int, program: _Program) -> Job:
    run_time = min(max(program.run_time * factor, 1.0), log.limit)
    least = run_time / program.used if program.used else log.limit
    estimate = min((value for value in _ESTIMATES if least <= value <= log.limit), default=log.limit)
    return Job(
        name=f"user-{user}-program{program.number}x-{number}",
        submit=time,
        run_time=run_time,
        pods=program.processors,
        user=f"user-{user}",
        estimate=estimate,
        walltime=estimate,
    )
