"""What `make nightly` runs and `make test` does not: the cases with the marker `nightly`, and three quarters of the examples of properties.

Each of them repeats a check that `make test` makes with other cases: of the first seeds, or of a row of a table for each rule.
They take ten times its processor time, and seldom find what the others miss.
"""

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

nightly = pytest.mark.nightly


def seeds(first_nightly: int, end: int, size: int, nightly_size: int = 0) -> list[ParameterSet]:
    """Return the seeds before ``end`` as ranges of ``size``, and from ``first_nightly`` on, for the night, of ``nightly_size``.

    That is by default ``size`` too.
    """
    step = nightly_size or size
    ranges = [range(start, min(start + size, first_nightly)) for start in range(0, first_nightly, size)]
    nightly_ranges = [range(start, min(start + step, end)) for start in range(first_nightly, end, step)]
    return [
        *(pytest.param(group, id=str(group.start)) for group in ranges),
        *(pytest.param(group, id=str(group.start), marks=nightly) for group in nightly_ranges),
    ]


def examples(count: int) -> settings:
    """Return the settings of a property with ``count`` examples at night, new ones, and a quarter as many by day, the same in each run."""
    return settings(max_examples=count if settings.get_current_profile_name() == "explore" else count // 4)
