"""Shares, evictions and plans of random mixes of work."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.scheduler.long_run.measures import measure
from tests.scheduler.long_run.random_mixes import granularity, random_case


@pytest.mark.slow("checks every plan of four long runs")
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # a smaller seed is no simpler
    suppress_health_check=list(HealthCheck),
)
@given(st.integers(0, 999))
def test_shares_of_random_mixes_are_within_two_points_and_the_size_of_a_job(seed: int) -> None:
    case = random_case(seed)
    measures = measure(case, seed=seed, checked=True)
    assert measures.shares == pytest.approx(measures.expected, abs=2.0 + granularity(case)), case
    assert (measures.thrash, measures.partly_evicted) == (0, 0), case
