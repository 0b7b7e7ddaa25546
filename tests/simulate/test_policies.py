"""The textbook policies that the scheduler is compared with."""

from bench.quality.policies import CONSERVATIVE, EASY, FIRST_FIT, Policy, start_times
from volcanopy_lab.simulate.workload import Job


def job(name: str, submit: float, run_time: float, pods: int, estimate: float = 0.0) -> Job:
    return Job(name, submit, run_time, pods=pods, estimate=estimate)


JOBS = [job("first", 0, 100, 3), job("wide", 1, 50, 4), job("short", 2, 90, 1), job("long", 3, 500, 1)]


def starts(jobs: list[Job], policy: Policy = EASY) -> dict[str, float]:
    return start_times(jobs, 1, 4000, policy)


def test_first_fit_delays_a_wide_job() -> None:
    assert starts(JOBS, FIRST_FIT) == {"first": 0, "short": 2, "long": 92, "wide": 592}


def test_backfilled_jobs_end_before_the_first_job_starts() -> None:
    assert starts(JOBS) == {"first": 0, "short": 2, "wide": 100, "long": 150}


def test_a_job_that_leaves_enough_may_run_longer_than_the_first_job_waits() -> None:
    jobs = [job("first", 0, 100, 2), job("wide", 1, 50, 3), job("long", 3, 500, 1)]
    assert starts(jobs) == {"first": 0, "long": 3, "wide": 100}


def test_all_that_ends_in_the_same_second_counts_as_free_then() -> None:
    jobs = [job("a", 0, 100, 2), job("b", 0, 100, 1), job("wide", 1, 50, 3), job("long", 3, 500, 1)]
    assert starts(jobs) == {"a": 0, "b": 0, "long": 3, "wide": 100}


def test_the_shortest_estimate_is_first() -> None:
    jobs = [job("first", 0, 100, 4), job("a", 1, 10, 4, 60), job("b", 2, 40, 4, 50)]
    assert starts(jobs, Policy("sjf")) == {"first": 0, "b": 100, "a": 140}


def test_a_job_that_has_waited_for_a_day_precedes_shorter_ones() -> None:
    day = 86_400
    jobs = [job("first", 0, day, 4), job("old", 1, 80, 4), job("new", day - 10, 20, 4), job("last", day + 50, 10, 4)]
    assert starts(jobs, Policy("sjf")) == {"first": 0, "new": day, "old": day + 20, "last": day + 100}
    waits = [job("first", 0, day + 2, 4), *jobs[1:3]]
    assert starts(waits, Policy("aged")) == {"first": 0, "old": day + 2, "new": day + 82}


def test_conservative_backfilling_delays_no_job_that_waits() -> None:
    """Until the second wide job starts, a place is free beside it: EASY gives it to a long job."""
    jobs = [job("runs", 0, 100, 3), job("first", 1, 50, 4), job("second", 2, 50, 3), job("third", 3, 60, 2)]
    jobs += [job("long", 4, 1000, 1)]
    assert starts(jobs)["long"] <= starts(jobs, CONSERVATIVE)["long"]
    assert starts(jobs, CONSERVATIVE)["second"] <= starts(jobs)["second"]


def test_pods_do_not_span_nodes() -> None:
    jobs = [job("a", 0, 100, 1), job("b", 0, 100, 1)]
    assert start_times(jobs, 2, 1000) == {"a": 0, "b": 0}
    assert start_times([*jobs, job("c", 1, 10, 2)], 2, 1500) == {"a": 0, "b": 0, "c": 100}


def test_the_queue_with_the_least_for_its_weight_is_first() -> None:
    runs = [Job("runs", 0, 100, pods=2, queue="light"), Job("more", 0, 100, pods=2, queue="heavy")]
    later = [Job("light", 1, 50, pods=2, queue="light"), Job("heavy", 2, 50, pods=2, queue="heavy")]
    weighted = start_times([*runs, *later], 1, 4000, Policy(weighted=True), weights={"light": 1, "heavy": 3})
    assert weighted == {"runs": 0, "more": 0, "light": 100, "heavy": 100}
    full = [Job("runs", 0, 100, pods=3, queue="light"), Job("more", 0, 50, pods=1, queue="heavy")]
    jobs = [*full, Job("light", 1, 50, pods=1, queue="light"), Job("heavy", 2, 50, pods=1, queue="heavy")]
    assert start_times(jobs, 1, 4000) == {"more": 0, "runs": 0, "light": 50, "heavy": 100}
    assert start_times(jobs, 1, 4000, Policy(weighted=True), weights={"light": 1, "heavy": 3}) == {
        "more": 0,
        "runs": 0,
        "heavy": 50,
        "light": 100,
    }
