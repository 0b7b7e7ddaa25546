"""A gang of pods without requests that cannot start keeps no places on nodes."""

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.model.plan import Nominate
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, world

PARTNERS = ["selector.disk=ssd", "cpu=1 selector.disk=ssd", "cpu=9", "memory=1Ti"]
NODE = "node n1 cpu=4 pods=2\n"


def simulation(text: str) -> Simulation:
    return Simulation(
        world(text), config("priority, gang | predicates, proportion, nodeorder", actions="enqueue, allocate, backfill")
    )


@pytest.mark.parametrize("partner", PARTNERS)
def test_a_member_whose_partner_fits_nowhere_is_not_nominated(partner: str) -> None:
    cycles = simulation(NODE + f"job gang: 1 x {partner} role=x, 1 x role=w\njob runs: 1 x role=w")
    for _ in range(3):
        assert not cycles.cycle().of(Nominate)
    cycles.add(world("job later: 1 x role=w")[1:])
    cycles.cycle()
    pod = cycles.pod("default/later-w-0")
    assert pod is not None
    assert pod.spec.node_name == "n1"


def test_an_old_nomination_of_such_a_member_is_removed() -> None:
    objects = [
        replace(obj, status=replace(obj.status, nominated_node_name="n1"))
        if isinstance(obj, core.Pod) and obj.metadata.name == "gang-w-0"
        else obj
        for obj in world(NODE + "job gang: 1 x selector.disk=ssd role=x, 1 x role=w")
    ]
    cycles = Simulation(objects, config("priority, gang | predicates", actions="enqueue, allocate, backfill"))
    assert cycles.cycle().of(Nominate) == [Nominate("default/gang-w-0", "", "default/gang")]


def test_more_members_than_places_start_together_or_not_at_all() -> None:
    cycles = simulation("node n1 cpu=4 pods=3\njob large: 4 x role=w\njob small: 3 x role=w")
    bound = {bind for plan in cycles.cycles(5) for bind in map(str, plan.effects) if bind.startswith("bind")}
    assert bound == {f"bind small-w-{number} -> n1" for number in range(3)}
