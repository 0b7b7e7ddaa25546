"""What a soak counts as growth."""

import pytest

from bench.soak import LOOK, RESTING, Soak


def soak(minutes: float) -> Soak:
    """Memory that grows by 30 MiB an hour until as many Events expire as are created, and not at all after that."""
    samples = [
        {"at": number * LOOK, "memory": 100 + min(number * LOOK, RESTING) / 120, "cpu": 0.0}
        for number in range(int(minutes * 60 / LOOK))
    ]
    return Soak(samples={"server": samples})


def test_events_that_fill_their_hour_count_as_growth_in_a_short_run_only() -> None:
    assert soak(40).figures()["most MiB more per hour"] == pytest.approx(30)
    assert soak(92).figures()["most MiB more per hour"] == pytest.approx(0, abs=0.5)
