"""``volcanopy plan`` with manifests that were changed at random: an answer or one sentence, never a traceback."""

import random

import pytest
import yaml

from tests import nightly
from tests.changed_manifests import NODE, changed, manifests
from tests.cli.run_commands import run_in_process


@pytest.mark.parametrize("seeds", nightly.seeds(40, 160, 40))
def test_a_changed_manifest_has_an_answer_or_one_sentence(seeds: range) -> None:
    known = manifests()
    for seed in seeds:
        rng = random.Random(seed)
        others = rng.sample(known, rng.choice((0, 1, 3)))
        text = NODE + "---\n" + yaml.safe_dump_all([*others, changed(rng.choice(known), rng)])
        outcome = run_in_process("plan", "-f", "-", stdin=text)
        assert outcome.status in {0, 1, 2}, f"seed {seed}"
        assert outcome.status == 0 or outcome.err.splitlines()[-1].startswith("volcanopy: "), f"seed {seed}"
