"""Gangs with minima of tasks, and with pods that request nothing: what is placed first, and when a gang is there."""

import pytest

from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, decide, world

PLUGINS = "priority, gang | predicates, binpack"
TWO_ROLES = "5 x cpu=1 role=a min=1, 3 x cpu=1 role=b min=3"


def bound(text: str, plugins: str = PLUGINS, actions: str = "enqueue, allocate, backfill") -> list[str]:
    return sorted(effect.pod.removeprefix("default/") for effect in decide(text, plugins, actions).of(Bind))


def test_a_gang_gets_no_more_than_its_minimum_while_an_equal_one_waits() -> None:
    """In the order of their names five pods of the first task would precede the three that the gang needs."""
    text = f"node n1 cpu=8\njob j min=4: {TWO_ROLES}\njob k min=4: {TWO_ROLES}"
    needed = ["a-0", "b-0", "b-1", "b-2"]
    assert bound(text) == [f"{job}-{pod}" for job in "jk" for pod in needed]


def test_pods_above_the_minimum_follow_when_every_gang_has_its_own() -> None:
    text = f"node n1 cpu=9\njob j min=4: {TWO_ROLES}\njob k min=4: {TWO_ROLES}"
    assert bound(text) == ["j-a-0", "j-a-1", "j-b-0", "j-b-1", "j-b-2", "k-a-0", "k-b-0", "k-b-1", "k-b-2"]


@pytest.mark.parametrize("topology", ["", " topology=hard:1"])
@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "backfill, allocate", "allocate"])
def test_a_gang_does_not_start_without_a_pod_that_requests_nothing(actions: str, topology: str) -> None:
    text = f"node n1 cpu=8\nhypernode h tier=1: n1\njob j{topology}: 2 x cpu=1 role=w, 1 x role=m selector.disk=ssd"
    assert bound(text, actions=actions) == []


@pytest.mark.parametrize("topology", ["", " topology=hard:1"])
def test_a_pod_that_requests_nothing_is_bound_with_its_gang(topology: str) -> None:
    text = f"node n1 cpu=8\nhypernode h tier=1: n1\njob j{topology}: 2 x cpu=1 role=w, 1 x role=m"
    assert bound(text, actions="allocate") == ["j-m-0", "j-w-0", "j-w-1"]


def test_another_pod_may_take_the_place_of_one_that_requests_nothing() -> None:
    text = "node n1 cpu=8\njob j min=2: 2 x cpu=1 role=w, 1 x role=m selector.disk=ssd"
    assert bound(text) == ["j-w-0", "j-w-1"]


def test_a_gang_of_unequal_tasks_is_repacked_with_its_pod_that_requests_nothing() -> None:
    text = "node n1 cpu=4\nnode n2 cpu=4\njob a: 2 x cpu=1 role=s, 1 x cpu=4 role=b, 1 x role=m"
    assert bound(text, "gang, predicates, nodeorder", "allocate") == ["a-b-0", "a-m-0", "a-s-0", "a-s-1"]


def test_a_gang_of_pods_that_request_nothing_starts_whole_or_not_at_all() -> None:
    text = "node n1 cpu=8\njob j: 2 x role=w, 1 x role=m{}"
    assert bound(text.format(" selector.disk=ssd")) == []
    assert bound(text.format("")) == ["j-m-0", "j-w-0", "j-w-1"]


def test_nothing_is_evicted_for_a_gang_whose_pod_without_requests_has_no_node() -> None:
    text = """
        class high value=9
        class low value=1
        node n1 cpu=2
        job low priority=low min=0: 2 x cpu=1 on=n1
        job j priority=high: 2 x cpu=1 role=w, 1 x role=m{}
        """
    for action in ("preempt", "gangpreempt"):
        chosen = config(PLUGINS, f"enqueue, allocate, {action}")
        assert decide(text.format(" selector.disk=ssd"), chosen).of(Evict) == []
        simulation = Simulation(world(text.format("")), chosen)
        assert len(simulation.cycle().of(Evict)) == 2
        assert sorted(bind.pod for bind in simulation.cycle().of(Bind)) == [
            "default/j-m-0",
            "default/j-w-0",
            "default/j-w-1",
        ]
