"""All answers about random worlds are true: starts, nevers, headlines and remedies."""

from random import Random

import pytest

from tests import nightly
from tests.whatif.worlds import check, random_world


@pytest.mark.parametrize("seeds", nightly.seeds(8, 500, 8, 25))
def test_all_answers_are_true(seeds: range) -> None:
    """Each world is checked from its manifests: what starts now does, what never starts does not even alone, and so on."""
    remedies = 0
    for seed in seeds:
        manifests, document = random_world(Random(seed))
        counts, untrue = check(manifests, document)
        assert untrue == [], f"seed {seed}"
        remedies += counts["remedies"]
    assert remedies > len(seeds) / 2
