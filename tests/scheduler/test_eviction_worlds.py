"""Invariants of plans in random full clusters whose gangs have roles and members without requests."""

from random import Random

from tests.scheduler import eviction_worlds
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.framework.enforced_invariants import enforced_invariants
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Evict
from volcanopy.testing.notation import snapshot

WORLDS = 200


def test_plans_are_valid_and_no_eviction_is_needless() -> None:
    """In particular gangs are broken whole or not at all, and a preemptor's whole minimum starts."""
    evicting = 0
    for seed in range(WORLDS):
        dice = Random(seed)
        text, config = eviction_worlds.world(dice), eviction_worlds.config(dice)
        seen = snapshot(text)
        plan = schedule(seen, config)
        evicting += bool(plan.of(Evict))
        assert violations(seen, plan, enforced_invariants(config) | {"evictions:needed"}) == [], f"seed {seed}\n{text}"
    assert evicting > WORLDS / 10
