"""All answers about random worlds are true: starts, nevers, headlines and remedies."""

from random import Random

import pytest

from tests.whatif.worlds import check, random_world

WORLDS, PART = 60, 15


@pytest.mark.slow("plans each of 60 worlds again with every remedy")
@pytest.mark.parametrize("first", range(0, WORLDS, PART))
def test_all_answers_are_true(first: int) -> None:
    """Each world is checked from its manifests: what starts now does, what never starts does not even alone, and so on."""
    remedies = 0
    for seed in range(first, first + PART):
        manifests, document = random_world(Random(seed))
        counts, untrue = check(manifests, document)
        assert untrue == [], f"seed {seed}"
        remedies += counts["remedies"]
    assert remedies > PART / 2
