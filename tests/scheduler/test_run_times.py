"""Expected run times of jobs: what they follow from, and how an overdue estimate is extended."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcanopy.api import names
from volcanopy.scheduler.model.run_times import Basis, RunTime, extended
from volcanopy_testing.notation import snapshot


@pytest.mark.parametrize(
    ("elapsed", "expected"), [(0, 60), (59, 60), (60, 120), (119, 120), (120, 240), (500, 960), (3600, 3840)]
)
def test_an_overdue_estimate_doubles_until_it_is_longer_than_the_job_has_run(elapsed: float, expected: float) -> None:
    assert extended(np.array([60.0]), np.array([elapsed])).tolist() == [expected]


@settings(deadline=None)
@given(st.floats(1, 1e7), st.floats(0, 1e9))
def test_an_extended_estimate_is_a_doubling_and_exceeds_the_time(estimate: float, elapsed: float) -> None:
    (total,) = extended(np.array([estimate]), np.array([elapsed]))
    assert total > elapsed
    assert total == estimate or total / 2 <= elapsed * (1 + 1e-9)


@pytest.mark.parametrize(
    ("run_time", "elapsed", "expected"),
    [
        (RunTime(), 0, None),
        (RunTime(walltime=100), 0, (100, Basis.WALLTIME)),
        (RunTime(walltime=100), 500, (100, Basis.WALLTIME)),
        (RunTime(100, 30), 0, (30, Basis.ESTIMATE)),
        (RunTime(100, 30), 70, (100, Basis.WALLTIME)),
        (RunTime(100, 300), 0, (100, Basis.WALLTIME)),
        (RunTime(0, 30, learnt=True), 40, (60, Basis.OVERDUE)),
    ],
)
def test_the_end_of_a_job_is_its_estimate_and_at_most_its_walltime(
    run_time: RunTime, elapsed: float, expected: tuple[float, Basis] | None
) -> None:
    assert run_time.expected(elapsed) == expected


def test_the_snapshot_has_the_run_times_of_jobs() -> None:
    jobs = snapshot(
        f"""
        node n1 cpu=4
        job a note.{names.WALLTIME}=1h note.{names.RUNNING_ESTIMATE}=20m note.{names.LEARNT_ESTIMATE}=5m: 1 x cpu=1
        job b note.{names.LEARNT_ESTIMATE}=5m: 1 x cpu=1
        job c note.{names.WALLTIME}=soon: 1 x cpu=1
        """
    ).jobs
    rows = [list(jobs.keys).index(f"default/{name}") for name in "abc"]
    assert jobs.walltime[rows].tolist() == [3600, 0, 0]
    assert jobs.estimate[rows].tolist() == [1200, 300, 0]
    assert jobs.learnt[rows].tolist() == [False, True, False]
    assert jobs.past_run_time[rows].tolist() == [300, 300, 0]
