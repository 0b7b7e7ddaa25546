"""Which jobs are preempted for a stream of jobs of high priority: no job again and again while others could be."""

from collections import Counter
from random import Random

import pytest

from tests.nightly import nightly
from tests.scheduler.long_run.cases import CASES, EVICT, config
from tests.scheduler.long_run.measures import EIGHT_NODES
from tests.scheduler.long_run.simulation import LongRun
from tests.scheduler.long_run.workload import Single, Stream
from volcanopy.scheduler.model.eviction_record import COOLDOWN

WORLDS = 3
COOLDOWN_CYCLES = COOLDOWN.total_seconds() / 60


def _run(seed: int) -> LongRun:
    """Two to five nodes full of equal jobs with a pod each, and jobs of high priority that come at random."""
    dice = Random(seed)
    nodes = "\n".join(f"node n{number} cpu=8" for number in range(dice.randint(2, 5)))
    arrivals = sorted(dice.sample(range(10, 90), dice.randint(6, 16)))
    singles = [Single(f"urgent-{at}", "default", at, 1, "8", dice.randint(2, 15), priority=9) for at in arrivals]
    stream = Stream("default", pods=(1,), cpu=("8",), minutes=(40, 300), backlog=0.4)
    return LongRun(f"{nodes}\nqueue default", config(EVICT), [stream], singles, seed)


def test_no_equal_job_has_lost_and_run_less_than_one_that_is_preempted() -> None:
    """What they lost counts with half an hour more for each series of evictions, so that the next victim is another."""
    evicted_again = 0
    for seed in range(WORLDS):
        run, lost, last = _run(seed), Counter[str](), dict[str, int]()
        for _ in range(100):
            began = {
                name: job.started for name, job in run.jobs.items() if job.started is not None and not job.priority
            }
            before = len(run.evictions)
            run.cycle()
            victims = {pod.partition("/")[2].rpartition("-")[0] for _, pod, _, _ in run.evictions[before:]}
            spent = {name: lost[name] + run.cycle_number - at for name, at in began.items() if name in run.jobs}
            for name in victims:
                evicted_again += lost[name] > 0
                assert spent[name] <= min(spent[other] for other in spent.keys() - victims | {name}), (seed, name)
            for name in victims:
                is_first = run.cycle_number - last.get(name, -1000) >= COOLDOWN_CYCLES
                lost[name], last[name] = int(spent[name] + COOLDOWN_CYCLES * is_first), run.cycle_number
    assert evicted_again > WORLDS


@pytest.mark.parametrize("seed", [3, pytest.param(14, marks=nightly)])
def test_gangs_that_are_preempted_in_turn_come_to_their_ends(seed: int) -> None:
    """Jobs of high priority need most of the cluster, a new one every three minutes; the others run for up to 90."""
    case = CASES["gangs of several sizes, preempt"]
    run = LongRun(f"{EIGHT_NODES}\n{case.queues}", case.config, case.streams, case.singles, seed)
    for _ in range(180):
        run.cycle()
    assert [name for name in run.waits if name.startswith("default") and name not in run.jobs]
