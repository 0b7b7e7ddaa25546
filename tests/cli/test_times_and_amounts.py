"""Times and amounts for people: local times with their zone, estimates as far as they are known, cores instead of millicores."""

from datetime import UTC, datetime, timedelta

import pytest

from volcanopy.api import quantity
from volcanopy.api.core import EstimatedStart
from volcanopy.cli.framework.description import amounts
from volcanopy.client.durations import local_times
from volcanopy.client.jobs.status import estimated_start

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (20, "in less than a minute"),
        (300, "in about 5 min"),
        (3 * 3600, "in about 3 h"),
        (3 * 86400, "in about 3 days"),
    ],
)
def test_an_estimated_start_is_relative_with_local_time_and_basis(seconds: float, text: str) -> None:
    time = NOW + timedelta(seconds=seconds)
    estimate = EstimatedStart(time=time, basis="walltime")
    assert estimated_start(estimate, NOW) == f"{text}, {time:%Y-%m-%d %H:%M:%S} UTC (walltime)"
    assert estimated_start(estimate) == f"{time:%Y-%m-%dT%H:%M:%SZ} (walltime)"
    doubled = EstimatedStart(time=time, basis="overdue")
    assert estimated_start(doubled, NOW).endswith(" UTC (a job runs longer than estimated)")


def test_times_in_sentences_of_the_api_are_local() -> None:
    sentence = '"small" starts 2030-01-01T12:00:00Z, finishes 2030-01-01T13:30:00Z'
    assert local_times(sentence) == '"small" starts 2030-01-01 12:00:00 UTC, finishes 2030-01-01 13:30:00 UTC'
    assert local_times("job 2030-01-01T12 declares no run time") == "job 2030-01-01T12 declares no run time"


def test_an_estimate_that_has_passed_says_so() -> None:
    assert estimated_start(EstimatedStart(time=NOW - timedelta(hours=1), basis="learnt"), NOW).startswith(
        "later than estimated, "
    )


@pytest.mark.parametrize(
    ("units", "text"),
    [(19200, "19.2"), (14450, "14.45"), (2000, "2"), (1000, "1"), (500, "500m"), (0, "0"), (1001, "1.001")],
)
def test_cpus_are_cores_from_one_core_on_and_exact(units: int, text: str) -> None:
    assert quantity.shown("cpu", units) == text
    assert quantity.amount("cpu", text) == units


def test_amounts_in_one_cell() -> None:
    assert (
        amounts({"cpu": "19200m", "memory": "8Gi", "example.com/odd": "3"}) == "cpu=19.2,example.com/odd=3,memory=8Gi"
    )
