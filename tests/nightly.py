"""The marker `nightly`: cases that `make nightly` runs, and `make test` does not.

Each of them repeats a check that `make test` makes with other cases: of the first seeds, or of a row of a table for each rule.
They take ten times its processor time, and seldom find what the others miss.
"""

import pytest
from _pytest.mark import ParameterSet

nightly = pytest.mark.nightly


def seeds(tested: int, last: int, size: int, later: int = 0) -> list[ParameterSet]:
    """Return ranges of seeds: below ``tested`` for `make test`, in groups of ``size``, and up to ``last`` for the night.

    Those are in groups of ``later`` seeds, by default as many.
    """
    groups = [range(first, min(first + size, tested)) for first in range(0, tested, size)]
    step = later or size
    at_night = [range(first, min(first + step, last)) for first in range(tested, last, step)]
    return [
        *(pytest.param(group, id=str(group.start)) for group in groups),
        *(pytest.param(group, id=str(group.start), marks=nightly) for group in at_night),
    ]
