"""The reference policies of the queueing table, and the simulator beside them."""

import pytest

from bench.quality import queueing
from bench.quality.judging import CPUS, GENERATORS
from bench.quality.policies import FIRST_FIT, start_times
from volcanopy_lab.simulate.workload import Job


def test_backfilling_does_not_delay_the_head() -> None:
    jobs = [
        Job("runs", 0, 100, pods=6, estimate=100),
        Job("head", 1, 50, pods=8, estimate=50),
        Job("long", 2, 200, pods=2, estimate=200),
        Job("short", 3, 50, pods=2, estimate=50),
    ]
    assert start_times(jobs, 1, 8000, FIRST_FIT) == {"runs": 0, "long": 2, "short": 100, "head": 202}
    assert start_times(jobs, 1, 8000) == {"runs": 0, "short": 3, "head": 100, "long": 150}


def test_measures_of_a_schedule() -> None:
    jobs = [Job("a", 0, 100, requests={"cpu": "2"}), Job("b", 0, 100, requests={"cpu": "2"})]
    measures = queueing.measured(jobs, {"a": 0.0, "b": 100.0}, 2.0, "cpu")
    assert (measures.mean_wait, measures.longest_wait, measures.makespan) == (50, 100, 200)
    assert measures.mean_bounded_slowdown == 1.5
    assert measures.utilisation == 1.0


def test_the_judging_set_shares_no_seed_with_the_tuning_set() -> None:
    assert not set(queueing.TUNING_SEEDS) & set(queueing.JUDGING_SEEDS)
    assert not set(GENERATORS) & set(queueing.TUNING)


@pytest.mark.parametrize("name", GENERATORS)
def test_generated_jobs_fit_on_the_cluster_and_follow_from_their_seed(name: str) -> None:
    jobs = GENERATORS[name](50, 7)
    assert jobs == GENERATORS[name](50, 7) != GENERATORS[name](50, 8)
    assert all(1 <= job.pods <= CPUS and job.run_time >= 1 and job.estimate > 0 for job in jobs)


def test_a_line_of_the_table_compares_the_means_of_the_same_seeds() -> None:
    jobs = [Job("a", 0, 100, requests={"cpu": "2"}), Job("b", 0, 100, requests={"cpu": "2"})]
    first, second = (queueing.measured(jobs, {"a": 0.0, "b": start}, 2.0, "cpu") for start in (100.0, 300.0))
    line = queueing.row("late", [second, second], {"EASY": [first, first], "SJF + EASY": [first, first]})
    assert line == (
        "| late | 50.0 ± 0.0 | -50.00 ± 0.00 | 2.5 ± 0.0 | 3.00 ± 0.00 | 0.1 ± 0.0 | 3.00 ± 0.00 | 2.5 ± 0.0 "
        "| 1.67 ± 0.00 | 0 |"
    )
