"""Property tests over random worlds and configurations."""

import gc
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import nightly
from tests.nightly import examples
from tests.scheduler.properties import LATE, PROPERTIES
from tests.scheduler.random_cases import ARGUMENTS, EXCLUDED, case
from tests.scheduler.strategies import worlds as random_worlds
from tests.scheduler.worlds import problems, shrunk
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.snapshot import Snapshot, TaskTable
from volcanopy_testing.notation import all_policies, config, snapshot

WORLDS, PART = 15, 30
"""The number of worlds per property by day, and that of which one may become stable later; ``python -m tests.scheduler.worlds`` accepts any number."""


@pytest.mark.parametrize("worlds", nightly.seeds(WORLDS, 2500, WORLDS, 497))
@pytest.mark.parametrize("name", list(PROPERTIES))
def test_properties_of_random_worlds(name: str, worlds: range) -> None:
    """All properties hold in random worlds.

    One of ``PART`` worlds may become stable later; that all become stable is checked as well.
    """
    first = 1_000_000 + 10_000 * list(PROPERTIES).index(name)
    late = 0
    for seed in (first + number for number in worlds):
        item = case(Random(seed))
        wrong = problems(name, item, seed)
        late += bool(wrong) and wrong[0].startswith(LATE)
        if wrong and (late > len(worlds) / PART or not wrong[0].startswith(LATE)):
            small = shrunk(name, item, seed)
            pytest.fail(f"world {seed}, made smaller:\n{small}\n" + "\n".join(problems(name, small, seed)))


@settings(examples(30), suppress_health_check=list(HealthCheck))
@given(random_worlds(), st.sampled_from(["gang, predicates", "priority, gang | predicates, proportion, nodeorder"]))
def test_the_same_snapshot_gives_the_same_plan(text: str, plugins: str) -> None:
    seen = snapshot(text)
    assert schedule(seen, config(plugins)) == schedule(seen, config(plugins))


def test_a_cycle_leaves_no_tables_to_the_garbage_collector() -> None:
    def tables() -> set[int]:
        found = [each for each in gc.get_objects() if isinstance(each, Snapshot | TaskTable | Ledger)]
        return {id(each) for each in found if not isinstance(each, Ledger) or vars(each)}

    gc.collect()
    gc.disable()
    try:
        before = tables()
        for seed in range(30):
            item = case(Random(seed))
            schedule(snapshot(item.world), item.config())
        assert tables() <= before
    finally:
        gc.enable()


def test_every_plugin_is_in_random_configurations_or_excluded_with_a_reason() -> None:
    registered = set(all_policies().plugins)
    assert registered == ARGUMENTS.keys() | EXCLUDED.keys()
    assert not ARGUMENTS.keys() & EXCLUDED.keys()
    assert all(EXCLUDED.values())


def test_random_configurations_name_every_plugin_and_every_action() -> None:
    configs = [case(Random(seed)).config() for seed in range(60)]
    assert {name for config in configs for name in config.plugins} == ARGUMENTS.keys()
    assert {name for config in configs for name in config.actions} == all_policies().actions.keys()


def test_tables_grow_while_they_are_written() -> None:
    """More jobs and roles than the initial size of the tables, so that each table grows during a change."""
    lines = ["node n1 cpu=500 pods=500"] + [
        f"job j{number}: 1 x cpu=1 role=a min=1, 1 x cpu=1 role=b min=1" for number in range(70)
    ]
    seen = snapshot("\n".join(lines))
    assert int(seen.roles.minimum.sum()) == 140
    assert len(schedule(seen, config("gang, predicates")).of(Bind)) == 140
