"""The naive first fit of the table: jobs start as soon as they fit, on the fullest nodes."""

from tests.scheduler.long_run.first_fit import any_fits, placed, utilisation
from tests.scheduler.long_run.workload import Single, Stream, job
from volcanopy.testing.notation import NOW


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
    assert utilisation([8000], (), singles, 20, 0, 3) == 100 * (2 * 4 + 18 * 8) / (20 * 8)


def test_streams_always_have_jobs_that_wait() -> None:
    assert utilisation([8000, 8000], [Stream("q", pods=(1,), cpu=("1",))], (), 30, 5, 3) == 100
