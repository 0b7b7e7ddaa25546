"""Priority offsets and fences: order of queues, and victims of reclaim."""

import json

import pytest

from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Plan
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy.testing.cycles import Simulation
from volcanopy.testing.notation import config, snapshot, world

CLASSES = "class low value=1\nclass mid value=5\nclass high value=9\n"
CHAIN = "enqueue, allocate, reclaim"


def setting(plugin: str, actions: str = CHAIN) -> SchedulerConfig:
    """Return the configuration of a queue plugin for trees."""
    entry = {"name": plugin, "enableHierarchy": plugin != "proportion"}
    tiers = [{"plugins": [{"name": "gang"}, {"name": "priority"}, entry]}, {"plugins": [{"name": "predicates"}]}]
    return parse(json.dumps({"actions": actions, "tiers": tiers}), builtin())


def made(text: str, conf: SchedulerConfig) -> Plan:
    """Return the plan, and check that it is valid."""
    seen = snapshot(CLASSES + text)
    plan = schedule(seen, conf)
    assert violations(seen, plan, enforced_invariants(conf)) == []
    return plan


def order(plan: Plan) -> list[str]:
    return [effect.pod.removeprefix("default/") for effect in plan.of(Bind)]


def leaving(plan: Plan) -> list[str]:
    return sorted(effect.pod.removeprefix("default/") for effect in plan.of(Evict))


PLUGINS = pytest.mark.parametrize("plugin", ["proportion", "capacity", "drf"])


@PLUGINS
@pytest.mark.parametrize(
    ("q", "r", "first"),
    [
        ("", "", "a-0"),
        ("", "offset=1", "b-0"),
        ("offset=1", "", "a-0"),
        ("offset=-1", "", "b-0"),
        ("", "fence=no", "b-0"),
        ("fence=no", "fence=no", "b-0"),
        ("fence=no offset=5", "fence=no", "a-0"),
        ("offset=9", "fence=no", "a-0"),
        ("offset=8", "fence=no", "b-0"),
    ],
)
def test_queues_are_ordered_by_the_effective_priority_of_their_jobs(plugin: str, q: str, r: str, first: str) -> None:
    """One job fits, beyond the share by weight of its queue; a has priority 5, b has 9; the queue of a is older."""
    text = f"""
        node n1 cpu=2
        queue root
        queue q {q} deserved.cpu=2
        queue r {r} deserved.cpu=2
        job a queue=q priority=mid: 1 x cpu=2
        job b queue=r priority=high: 1 x cpu=2
    """
    assert order(made(text, setting(plugin)))[0] == first


@PLUGINS
def test_only_waiting_jobs_count_for_the_priority_of_a_queue(plugin: str) -> None:
    """The first job of r has a high effective priority and is placed; its second comes after q, because r has more allocated."""
    text = """
        node n1 cpu=8
        queue root
        queue q fence=no deserved.cpu=4
        queue r fence=no deserved.cpu=4
        job a min=1 queue=q priority=mid: 1 x cpu=1
        job b min=1 queue=r priority=high: 1 x cpu=1
        job c min=1 queue=r priority=low: 1 x cpu=1
        job d queue=r priority=high: 1 x cpu=9
    """
    assert order(made(text, setting(plugin))) == ["b-0", "a-0", "c-0"]


@PLUGINS
def test_priorities_are_compared_below_the_common_ancestor(plugin: str) -> None:
    """The offset of x applies towards y and, because its parent is fenced, to no other queue."""
    text = """
        node n1 cpu=12
        queue root
        queue team parent=root deserved.cpu=8
        queue y parent=team deserved.cpu=4
        queue x parent=team deserved.cpu=4 fence=no
        queue z parent=root deserved.cpu=4 offset=1
        job a min=1 queue=y priority=mid: 1 x cpu=1
        job b min=1 queue=x priority=high: 1 x cpu=1
        job c min=1 queue=z priority=low: 1 x cpu=1
    """
    assert order(made(text, setting(plugin))) == ["c-0", "b-0", "a-0"]


def test_without_a_queue_plugin_effective_priority_orders_queues() -> None:
    text = "node n1 cpu=1\nqueue q\nqueue r offset=3\njob a queue=q: 1 x cpu=1\njob b queue=r: 1 x cpu=1"
    assert order(made(text, config("gang, predicates"))) == ["b-0"]


# Taking back

TAKEN = """
    node n1 cpu=4
    queue root
    queue q deserved.cpu=2 {q}
    queue r deserved.cpu=2 {r}
    job a min=0 queue=q priority=high: 2 x cpu=1 on=n1
    job b min=0 queue=q priority=low: 2 x cpu=1 on=n1
    job c queue=r priority=mid: 1 x cpu=1
"""


@PLUGINS
@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(
    ("q", "r", "gone"),
    [
        ("", "", 1),
        ("offset=1", "", 0),
        ("offset=1", "offset=1", 1),
        ("fence=no", "fence=no", 1),
        ("fence=no", "", 0),
        ("fence=no offset=4", "fence=no", 1),
        ("fence=no offset=5", "fence=no", 0),
        ("", "fence=no offset=-6", 0),
    ],
)
def test_jobs_of_higher_effective_priority_are_not_reclaimed(
    plugin: str, action: str, q: str, r: str, gone: int
) -> None:
    plan = made(TAKEN.format(q=q, r=r), setting(plugin, f"enqueue, allocate, {action}"))
    assert [pod[0] for pod in leaving(plan)] == ["b"] * gone


def test_of_equal_queues_the_lowest_effective_priority_is_reclaimed() -> None:
    """By age the newest queue would be reclaimed from first; q has a lower effective priority."""
    text = """
        node n1 cpu=6
        queue root
        queue q deserved.cpu=1 offset=-1
        queue s deserved.cpu=1
        queue r deserved.cpu=4
        job a min=0 queue=q: 3 x cpu=1 on=n1
        job b min=0 queue=s: 3 x cpu=1 on=n1
        job c queue=r: 1 x cpu=1
    """
    assert [pod[0] for pod in leaving(made(text, setting("capacity")))] == ["a"]
    assert [pod[0] for pod in leaving(made(text.replace("offset=-1", ""), setting("capacity")))] == ["b"]


def test_siblings_are_reclaimed_before_others_despite_priority() -> None:
    text = """
        node n1 cpu=8
        queue root
        queue team parent=root deserved.cpu=4
        queue x parent=team deserved.cpu=2
        queue y parent=team deserved.cpu=2
        queue z parent=root deserved.cpu=4 offset=-9
        job b min=0 queue=y: 4 x cpu=1 on=n1
        job c min=0 queue=z: 4 x cpu=1 on=n1
        job a queue=x: 1 x cpu=1
    """
    assert [pod[0] for pod in leaving(made(text, setting("capacity")))] == ["b"]


@PLUGINS
def test_cycles_with_priority_offsets_become_stable(plugin: str) -> None:
    simulation = Simulation(world(CLASSES + TAKEN.format(q="fence=no", r="fence=no")), setting(plugin))
    plans = list(simulation.cycles(6))
    assert sum(len(plan.of(Evict)) for plan in plans) == 1
    assert len(plans) < 6


def test_invariants_detect_reclaim_by_lower_priority() -> None:
    seen = snapshot(CLASSES + TAKEN.format(q="offset=1", r=""))
    plan = Plan((Evict("default/b-0", "reclaim", "default/b", "", "default/c"), Bind("default/c-0", "n1", "default/c")))
    assert "pod default/b-0, seen with priority 1, is reclaimed for default/c with 0" in violations(seen, plan, ())
