"""The plans of a sample of the corpus are the recorded ones; at night all are."""

from collections import Counter

import pytest

from tests.nightly import nightly
from tests.scheduler.plan_corpus import __main__, configurations, corpus_worlds, hashes
from tests.scheduler.random_cases import EXCLUDED
from volcanopy_testing.notation import all_policies

STEP, PARTS = 99, 2
"""Every 99th world is in the sample: as many of each generator, with and without a second cycle."""
SAMPLE = [range(part * STEP, hashes.WORLDS, PARTS * STEP) for part in range(PARTS)]
OTHERS = [range(part, hashes.WORLDS, STEP) for part in range(1, STEP)]


@pytest.mark.parametrize("worlds", [*SAMPLE, *(pytest.param(worlds, marks=nightly) for worlds in OTHERS)], ids=str)
def test_plans_are_the_recorded_ones(worlds: range, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = hashes.RECORDED.read_text().splitlines()
    assert len(recorded) == hashes.WORLDS
    differing = __main__.compare(recorded, worlds)
    assert not differing, capsys.readouterr().out


def test_every_plugin_and_every_action_is_in_a_fixed_configuration() -> None:
    configs = [configurations.config(name, 0) for name in ("default", *configurations.FIXED)]
    assert {name for config in configs for name in config.plugins} | EXCLUDED.keys() == all_policies().plugins.keys()
    assert {name for config in configs for name in config.actions} == all_policies().actions.keys()


def test_worlds_have_all_kinds_of_objects_that_decisions_depend_on() -> None:
    kinds = Counter(
        type(obj).__name__ for seed in range(100) for obj in corpus_worlds.objects(corpus_worlds.text(seed))
    )
    expected = """
        Node Queue PriorityClass PodGroup Pod PodDisruptionBudget ResourceQuota HyperNode NumaTopology DeviceClass
        ResourceSlice ResourceClaim StorageClass PersistentVolume PersistentVolumeClaim
    """
    assert not set(expected.split()) - kinds.keys()


def test_a_start_that_one_action_cancels_is_not_restored_by_the_next() -> None:
    assert hashes.plans(648, "gang-evictions")
