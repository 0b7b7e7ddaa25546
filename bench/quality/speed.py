"""Speed of the simulator: arrivals and ends per second of processor time on a busy cluster.

The cluster is nine tenths full with gangs of 8 pods, a node of 64 cpus each in sum; jobs arrive as others end.
"""

import gc
import time
from random import Random

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import default
from volcanopy_lab.simulate.cluster_description import equal_nodes, with_default_queue
from volcanopy_lab.simulate.engine import Options, Simulator
from volcanopy_lab.simulate.workload import Job

MEAN = 3600.0
"""Mean run time in seconds."""


def busy_jobs(nodes: int, arrivals: int, load: float = 0.9, seed: int = 42) -> list[Job]:
    """Return jobs that fill the cluster at the beginning, and others that keep it so."""
    dice = Random(seed)
    full = round(load * nodes)
    jobs = [_job(dice, number, 0.0) for number in range(full)]
    at = 10.0
    for number in range(arrivals):
        at += dice.expovariate(full / MEAN)
        jobs.append(_job(dice, full + number, at))
    return jobs


def _job(dice: Random, number: int, submit: float) -> Job:
    run_time = max(dice.expovariate(1 / MEAN), 1.0)
    return Job(f"job-{number}", submit, run_time, 8, {"cpu": "8", "memory": "8Gi"}, estimate=2 * run_time)


def events_per_second(nodes: int, events: int, load: float = 0.9, period: float = 1.0) -> float:
    """Return the events per second of processor time, once the cluster is filled; ``period`` is the time between two cycles in seconds."""
    gc.set_threshold(50_000, 20, 50)  # as the command sets it
    jobs = busy_jobs(nodes, events, load)
    objects = with_default_queue(equal_nodes(nodes, {"cpu": "64", "memory": "256Gi"}))
    simulator = Simulator(objects, jobs, default(builtin()), Options(samples=10, period=period))
    begin, first = 0.0, 0
    for _ in simulator.steps():
        if not begin and simulator.time > 5 * period:
            begin, first = time.process_time(), simulator.events
        if begin and simulator.events - first >= events:
            break
    return (simulator.events - first) / (time.process_time() - begin)
