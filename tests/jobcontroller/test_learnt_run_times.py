"""Run times learnt from finished jobs: robust, forgetting, bounded; and how they come to the PodGroups of waiting jobs."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobcontroller.world import World, job, task
from volcanopy.api import names
from volcanopy.jobcontroller.job_podgroup import annotation_changes, run_times
from volcanopy.jobcontroller.learnt_run_times import JOBS, SIZE, LearntRunTimes, key_of, quantile, run_of

KEY = key_of("q", "ana", "train-1")


def learnt(*minutes: float) -> LearntRunTimes:
    """A table with the runs of one job."""
    table = LearntRunTimes()
    for run in minutes:
        table.learn(KEY, timedelta(minutes=run))
    return table


@pytest.mark.parametrize(
    ("name", "stem"),
    [("train-17", "train"), ("train17", "train"), ("a.3", "a"), ("train", "train"), ("7", "7"), ("a-1-2", "a-1")],
)
def test_jobs_that_differ_in_their_number_are_learnt_together(name: str, stem: str) -> None:
    assert key_of("q", "ana", name) == ("q", "ana", stem)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), None),
        ((10,), 10),
        ((10, 10), 10),
        ((10, 12, 11, 10), 11),
        ((10,) * 8 + (600,), 10),
        ((600,) * 6 + (5,) * 12, 5),
    ],
)
def test_the_estimate_is_robust_and_follows_the_last_runs(runs: tuple[int, ...], expected: int | None) -> None:
    estimate = learnt(*runs).estimate(KEY)
    assert estimate == (None if expected is None else timedelta(minutes=expected))


def test_a_job_that_was_never_run_counts_with_the_last_two_jobs_of_its_user_in_the_queue() -> None:
    table = LearntRunTimes()
    for name, minutes in (("a", 600), ("b", 10), ("c", 20)):
        table.learn(key_of("q", "ana", name), timedelta(minutes=minutes))
    new = key_of("q", "ana", "new")
    assert (table.estimate(new), table.of_others(new)) == (None, timedelta(minutes=15))
    assert table.of_others(key_of("other", "ana", "new")) is None


def test_the_first_jobs_of_a_user_count_with_the_last_jobs_of_the_queue() -> None:
    table = LearntRunTimes()
    for user, minutes in (("ana", 10), ("bo", 20), ("cy", 60)):
        table.learn(key_of("q", user, "a"), timedelta(minutes=minutes))
    for user in ("ana", "new", ""):
        assert table.of_others(key_of("q", user, "new")) == timedelta(minutes=30)


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=16))
def test_the_quantile_is_one_of_the_runs(runs: list[int]) -> None:
    assert quantile(runs) in runs
    assert quantile([runs[0]] * len(runs)) == runs[0]


def test_the_table_is_bounded_and_forgets_the_oldest() -> None:
    table = LearntRunTimes()
    for number in range(JOBS + 10):
        for _ in range(2):
            table.learn(("q" * 250, "u" * 1000, f"job-{number:05}-x"), timedelta(seconds=number + 1))
    assert len(table) == JOBS
    text = table.dump()
    assert len(text.encode()) <= SIZE
    loaded = LearntRunTimes.load(text)
    newest = ("q" * 250, "u" * 1000, f"job-{JOBS + 9:05}-x")
    assert loaded.estimate(newest) == table.estimate(newest) == timedelta(seconds=JOBS + 10)


def test_a_table_is_read_back() -> None:
    table = learnt(10, 20, 30)
    table.learn(key_of("größe", "", "b"), timedelta(seconds=1))
    assert LearntRunTimes.load(table.dump()).dump() == table.dump()
    assert LearntRunTimes.load("[]").dump() == "[]"


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[["a", "b", "c", [0]]]', '[["a", "b", "c", ["1"]]]', "nonsense"])
def test_a_malformed_table_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json and the table raise it
        LearntRunTimes.load(text)


def test_only_jobs_that_came_to_their_end_are_learnt_from() -> None:
    world = World(job()).started().wait(minutes=5).succeed().settle()
    assert run_of(world.read().status) == timedelta(minutes=5)
    failed = World(job()).started().wait(minutes=5).fail().settle()
    assert run_of(failed.read().status) is None
    late = World(job(activeDeadlineSeconds=60)).started().wait(minutes=1).settle()
    assert run_of(late.read().status) == timedelta(minutes=1)
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    again = World(job(policies=policy)).started().wait(minutes=4).fail().settle().again()
    again.wait(minutes=6).succeed().settle()
    assert run_of(again.read().status) == timedelta(minutes=5)


def test_the_pod_group_carries_the_run_times_of_its_job() -> None:
    given = {names.WALLTIME: "1s", names.LEARNT_ESTIMATE: "1s"}
    world = World(job(task(), activeDeadlineSeconds=3600, runningEstimate="20m", annotations=given)).settle()
    assert world.pod_group is not None
    annotations = world.pod_group["metadata"]["annotations"]
    assert (annotations[names.WALLTIME], annotations[names.RUNNING_ESTIMATE]) == ("1h0m0s", "20m0s")
    assert names.LEARNT_ESTIMATE not in annotations
    world.edit(activeDeadlineSeconds=60).settle()
    assert world.pod_group["metadata"]["annotations"][names.WALLTIME] == "1m0s"
    world.edit(activeDeadlineSeconds=None).settle()
    assert names.WALLTIME not in world.pod_group["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("known", "changes"), [(None, True), (100, False), (110, False), (84, False), (60, True), (200, True)]
)
def test_a_learnt_estimate_is_written_again_when_it_changed_by_more_than_a_fifth(
    known: int | None, changes: bool
) -> None:
    world = World(job()).settle()
    seen, group = world.read(), world.observed().pod_group
    assert group is not None
    if known is not None:
        group.metadata.annotations[names.LEARNT_ESTIMATE] = f"{known}s"
    new = timedelta(seconds=100)
    patch = annotation_changes(seen, new, group, rejected=False)
    assert patch == ({"metadata": {"annotations": run_times(seen, new)}} if changes else {})


@pytest.mark.parametrize(
    ("spec", "own", "expected"),
    [({}, None, "10s"), ({}, 30, "30s"), ({"activeDeadlineSeconds": 600}, None, None)],
)
def test_a_job_that_was_never_run_gets_the_run_time_of_others_when_its_pod_group_is_created(
    spec: dict[str, Any], own: int | None, expected: str | None
) -> None:
    """A walltime is better than that. Later ends of other jobs do not change it."""
    world = World(job(**spec))
    world.learnt_of_others = timedelta(seconds=10)
    world.learnt = None if own is None else timedelta(seconds=own)
    world.settle()
    world.learnt_of_others = timedelta(seconds=100)
    world.settle()
    assert world.pod_group is not None
    assert world.pod_group["metadata"]["annotations"].get(names.LEARNT_ESTIMATE) == expected
