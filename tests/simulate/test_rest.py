"""Without events the scheduler comes to rest, also where jobs are admitted although others that are admitted wait for more."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.scheduler.properties import STABLE_AFTER
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import DEFAULT, parse
from volcanopy_lab.simulate.cluster_description import equal_nodes, queues, with_default_queue
from volcanopy_lab.simulate.engine import Options, Simulator
from volcanopy_lab.simulate.workload import Job

CHAINS = ("enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill")


def cluster(nodes: int, cpus: int, **weights: int) -> list[Object]:
    """Return equal nodes and queues."""
    allocatable = {"cpu": str(cpus), "memory": "1000Gi", "pods": "2000"}
    return with_default_queue([*equal_nodes(nodes, allocatable), *queues(weights)])


def admitted_and_cycles(objects: list[Object], jobs: list[Job], chain: str = CHAINS[0]) -> tuple[int, int]:
    """Return the most pods of admitted jobs that waited, and the most cycles in a row without an event."""
    config = parse(DEFAULT.replace(CHAINS[0], chain), builtin())
    simulator = Simulator(objects, jobs, config, Options(until=20_000))
    pods, row, longest, events, time = 0, 0, 0, -1, 0.0
    for _ in simulator.steps():
        row = row + 1 if simulator.events == events and simulator.time - time <= simulator.options.period else 0
        events, time, longest = simulator.events, simulator.time, max(row, longest)
        waiting = (job for job in simulator.records.waiting.values() if job.created)
        pods = max(pods, sum(entry.job.pods for entry in waiting))
    return pods, longest


def batch(number: int, job: Job) -> list[Job]:
    """Return equal jobs."""
    return [replace(job, name=f"job-{job.submit:.0f}-{job.queue}-{job.pods}-{index}") for index in range(number)]


def test_jobs_that_could_not_use_what_is_reserved_are_not_admitted_one_after_another() -> None:
    """A job of the whole cluster waits for one that uses half of it. What is idle is lent to none of the others."""
    amounts = [(1, 0, 14_400, 50), (1, 10, 3600, 100), (45, 700, 36_000, 26), (45, 701, 36_000, 20)]
    jobs = [
        job
        for count, submit, time, pods in amounts
        for job in batch(count, Job("", submit, time, pods=pods, walltime=time, estimate=time))
    ]
    pods, cycles = admitted_and_cycles(cluster(1, 100), jobs)
    assert pods <= 100 + (120 - 50), "the job of the whole cluster, and what overcommit admits beside the pods that run"
    assert cycles <= STABLE_AFTER


def test_jobs_for_which_nothing_can_be_evicted_are_not_admitted_one_after_another() -> None:
    """Both queues have what they deserve, and a cpu is idle."""
    first, second = Job("", 0, 36_000, queue="a"), Job("", 1, 36_000, queue="b", priority=9)
    pods, cycles = admitted_and_cycles(cluster(1, 8, a=1, b=2), [*batch(45, first), *batch(20, second)], CHAINS[1])
    assert cycles <= STABLE_AFTER
    assert pods <= 24


def random_jobs(dice: Random, cpus: int, priorities: Sequence[int]) -> list[Job]:
    """Return batches of equal jobs of up to the cluster, some with run times."""
    jobs: list[Job] = []
    for number in range(dice.randint(2, 4)):
        size, run_time = (
            max(1, int(cpus * dice.choice((0.01, 0.2, 0.26, 0.5, 0.6, 1)))),
            dice.choice((30, 3600, 36_000)),
        )
        times = run_time * dice.choice((0, 1, 3))
        job = Job("", dice.choice((0, 10, 700, 5000)) + number, run_time, size, walltime=times, estimate=times)
        job = replace(job, queue=dice.choice("ab"), priority=dice.choice(priorities))
        jobs += batch(dice.choice((1, 3, 12)), job)
    return jobs


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 200), marks=pytest.mark.nightly)], ids=str)
def test_without_events_no_cycle_but_the_first_five_changes_anything(seeds: range, chain: str) -> None:
    for seed in seeds:
        dice = Random(seed)
        nodes, cpus = dice.choice((1, 2, 4)), dice.choice((4, 8, 16))
        jobs = random_jobs(dice, nodes * cpus, (0, 0, 9) if "preempt" in chain else (0,))
        _, cycles = admitted_and_cycles(cluster(nodes, cpus, a=1, b=dice.randint(1, 4)), jobs, chain)
        assert cycles <= STABLE_AFTER, seed
