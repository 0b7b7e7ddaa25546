"""The naive first fit of the table: jobs start as soon as they fit, on the fullest nodes; and the one that keeps to shares."""

from tests.scheduler.long_run.cases import CASES
from tests.scheduler.long_run.first_fit import FirstFit, any_fits, placed
from tests.scheduler.long_run.workload import Single, Stream, job
from volcanopy_testing.notation import NOW


def test_pods_go_to_the_fullest_nodes_and_all_of_a_gang_must_fit() -> None:
    gang = job(Single("gang", "q", 1, 3, "2"), NOW)
    assert placed(gang, [8000, 3000]) == [4000, 1000]
    assert placed(gang, [3000, 3000]) is None
    assert not any_fits([gang], [3000, 3000])


def test_a_job_that_fits_passes_one_that_does_not() -> None:
    """Half of the cluster is used for ten minutes, then all of it, then nothing."""
    singles = [
        Single("half", "q", 1, 4, "1", 10),
        Single("all", "q", 2, 8, "1", 10),
        Single("other", "q", 3, 4, "1", 8),
    ]
    result = FirstFit([8000], (), singles, 3, {}).run(20, 0)
    assert result.utilisation == 100 * (2 * 4 + 18 * 8) / (20 * 8)


def test_streams_always_have_jobs_that_wait() -> None:
    assert FirstFit([8000, 8000], [Stream("q", pods=(1,), cpu=("1",))], (), 3, {}).run(30, 5).utilisation == 100


def test_shares_and_an_end_of_waits_cost_the_first_fit_two_points() -> None:
    """Without them it uses the cluster for the queues whose jobs fit, 25 points beside their shares."""
    first_fit, fair = (CASES["flat queues"].first_fit(None, 4, keeps_shares) for keeps_shares in (False, True))
    assert first_fit.utilisation > 99.5
    assert first_fit.error > 15
    assert 97 < fair.utilisation < 98.5
    assert fair.error < 2
    assert fair.slowest < first_fit.slowest
