"""The reference policies of the queueing table, and the simulator beside them."""

from bench.quality import queueing
from bench.quality.policies import start_times
from volcanopy.lab.simulate.workload import Job


def test_backfilling_does_not_delay_the_head() -> None:
    jobs = [
        Job("runs", 0, 100, pods=6, estimate=100),
        Job("head", 1, 50, pods=8, estimate=50),
        Job("long", 2, 200, pods=2, estimate=200),
        Job("short", 3, 50, pods=2, estimate=50),
    ]
    assert start_times(jobs, 1, 8000, backfill=False) == {"runs": 0, "long": 2, "short": 100, "head": 202}
    assert start_times(jobs, 1, 8000) == {"runs": 0, "short": 3, "head": 100, "long": 150}


def test_measures_of_a_schedule() -> None:
    jobs = [Job("a", 0, 100, requests={"cpu": "2"}), Job("b", 0, 100, requests={"cpu": "2"})]
    measures = queueing.measured(jobs, {"a": 0.0, "b": 100.0}, 2.0, "cpu")
    assert (measures.mean_wait, measures.longest_wait, measures.makespan) == (50, 100, 200)
    assert measures.mean_bounded_slowdown == 1.5
    assert measures.utilisation == 1.0
