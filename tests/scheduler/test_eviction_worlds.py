"""Invariants of plans in random full clusters whose gangs have roles and members without requests."""

from random import Random

import pytest

from tests import nightly
from tests.scheduler.needless_evictions import violations
from tests.scheduler.random_cases import evicting_config
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Nominate
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing import eviction_worlds
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import snapshot, world

TWO_SEARCHES = 773
"""In this world the evictions for a second job suffice for the first one."""
CYCLES = 5
"""Within so many cycles nothing changes any more, if nothing arrives and nothing ends."""


@pytest.mark.parametrize("seeds", nightly.seeds(20, 1200, 20, 295))
def test_plans_are_valid_and_no_eviction_is_needless(seeds: range) -> None:
    """In particular gangs are broken whole or not at all, and a preemptor's whole minimum starts."""
    evicting = 0
    for seed in (*seeds, TWO_SEARCHES):
        dice = Random(seed)
        text, config = eviction_worlds.world(dice), evicting_config(dice)
        seen = snapshot(text)
        plan = schedule(seen, config)
        evicting += bool(plan.of(Evict))
        assert violations(seen, plan, enforced_invariants(config)) == [], f"seed {seed}\n{text}"
    assert evicting > len(seeds) / 10


@pytest.mark.parametrize("seeds", nightly.seeds(20, 600, 20, 145))
def test_cycles_come_to_rest(seeds: range) -> None:
    """Plans are applied until nothing changes. A pod that was bound in a cycle can only be evicted in a later one."""
    most, evicted_again = 0, 0
    for seed in seeds:
        dice = Random(seed)
        text, config = eviction_worlds.world(dice), evicting_config(dice)
        simulation = Simulation(world(text), config)
        plans = list(simulation.cycles(CYCLES + 1))
        changes = [plan.of(Bind, Evict, Nominate) for plan in plans]
        assert not changes[-1], f"seed {seed}\n{text}"
        most = max(most, sum(bool(effects) for effects in changes))
        victims = [effect.pod for plan in plans for effect in plan.of(Evict)]
        evicted_again += len(victims) - len(set(victims))
    assert most >= 2
    assert evicted_again == 0


@pytest.mark.parametrize("seeds", nightly.seeds(4, 150, 4, 73))
def test_pods_are_evicted_only_for_jobs_that_start_then_however_slowly_victims_terminate(seeds: range) -> None:
    """Victims terminate after one to three cycles; a pod that starts meanwhile does not take the place of the preemptor."""
    evictions = 0
    for seed in seeds:
        dice = Random(seed)
        text, config = eviction_worlds.world(dice), evicting_config(dice)
        simulation, slowness = Simulation(world(text), config, graceful=True), dice.randint(1, 3)
        preemptors = set[str]()
        for number in range(CYCLES * slowness):
            plan = simulation.cycle()
            evictions += len(plan.of(Evict))
            preemptors |= {effect.preemptor for effect in plan.of(Evict)}
            preemptors -= {effect.group for effect in plan.of(Bind)}
            if number % slowness == slowness - 1:
                simulation.end_terminating()
        assert not preemptors, f"seed {seed}\n{text}"
    assert evictions
