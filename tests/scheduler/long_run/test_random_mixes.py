"""Shares, evictions and plans of random mixes of work."""

import pytest

from tests import nightly
from tests.scheduler.long_run.measures import measure
from tests.scheduler.long_run.random_mixes import granularity, random_case


@pytest.mark.parametrize("seeds", nightly.seeds(0, 20, 1))
def test_shares_of_random_mixes_are_within_two_points_and_the_size_of_a_job(seeds: range) -> None:
    """Each plan is checked as well."""
    for seed in seeds:
        case = random_case(seed)
        measures = measure(case, seed=seed, checked=True)
        assert measures.shares == pytest.approx(measures.expected, abs=2.0 + granularity(case)), case
        assert (measures.thrash, measures.partly_evicted) == (0, 0), case
