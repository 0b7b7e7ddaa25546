"""Objects of every kind that are deleted while pods run and wait: plans stay valid."""

from random import Random

import pytest

from tests.scheduler import random_cases
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, world

WORLDS, CYCLES = 30, 4


@pytest.mark.parametrize("actions", ["allocate, consolidate", "allocate, shuffle", "allocate, preempt, reclaim"])
def test_running_pods_whose_pod_group_is_deleted_stay_where_they_are(actions: str) -> None:
    text = """
        class high value=9
        node n1 cpu=4
        node n2 cpu=4
        job lost: 2 x cpu=2 on=n1,n2
        job wide priority=high: 1 x cpu=4
    """
    simulation = Simulation(world(text), config("priority, gang | predicates, proportion, rescheduling", actions))
    simulation.cluster.remove("PodGroup", "default/lost")
    plan = simulation.cycle()
    assert not plan.of(Bind)
    assert {simulation.cluster.objects["Pod", f"default/lost-{number}"].spec.node_name for number in (0, 1)} == {
        "n1",
        "n2",
    }


def test_plans_are_valid_whatever_is_deleted() -> None:
    for seed in range(WORLDS):
        dice = Random(f"deleted {seed}")
        case = random_cases.case(dice)
        chosen = case.config()
        simulation = Simulation(world(case.world), chosen)
        for _ in range(CYCLES):
            objects = sorted(simulation.cluster.objects)
            for kind, key in dice.sample(objects, min(len(objects), dice.randint(1, 3))):
                simulation.cluster.remove(kind, key)
            snapshot = simulation.snapshot()
            plan = schedule(snapshot, chosen)
            assert not violations(snapshot, plan, enforced_invariants(chosen)), f"seed {seed}\n{case}"
            simulation.apply(plan.effects)
