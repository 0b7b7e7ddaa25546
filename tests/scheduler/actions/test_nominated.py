"""Nominations: resources freed by evictions are reserved by the pod status alone, until the pod is placed or deleted."""

import msgspec

from volcanopy.api import core
from volcanopy.scheduler.model.plan import Bind, Explain, Nominate, Plan
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, decide, world

RULES = config("priority, gang | predicates, binpack", "enqueue, allocate, preempt")
LEAVING = """
node n1 cpu=4
node n2 cpu=4 unschedulable
class high value=9
job old: 1 x cpu=4 on=n1 releasing
job owner: 1 x cpu=4 nominated=n1
"""
"""The room of node n1 is being freed for job owner."""
NEWCOMER = "job urgent priority=high: 1 x cpu=4"


def lines(plan: Plan) -> list[str]:
    return [str(effect) for effect in plan.effects if isinstance(effect, Bind | Nominate)]


def simulation(text: str = LEAVING) -> Simulation:
    return Simulation(world(text), RULES, replaced=False, graceful=True)


def test_a_nomination_survives_a_restart_in_the_pod_status() -> None:
    """After a restart only the nomination is known: a new pod of higher priority waits."""
    scene = simulation(f"{LEAVING}\n{NEWCOMER}")
    assert lines(scene.cycle()) == []
    scene.end_terminating()
    assert lines(scene.cycle()) == ["bind owner-0 -> n1"]


def test_without_a_nomination_a_new_pod_takes_the_node() -> None:
    scene = simulation(f"{LEAVING.replace(' nominated=n1', '')}\n{NEWCOMER}")
    scene.end_terminating()
    assert lines(scene.cycle())[0] == "bind urgent-0 -> n1"


def test_a_waiting_job_names_the_nominated_one() -> None:
    plan = decide(f"{LEAVING}\n{NEWCOMER}", RULES)
    reasons = {effect.job: effect for effect in plan.of(Explain)}
    assert reasons["default/urgent"].blocked_by == ("job default/owner",)
    assert reasons["default/owner"].message == "waiting for 1 evicted pod to terminate"
    assert reasons["default/owner"].unblocked_by == 'termination of 1 pod on node "n1"'


def test_a_nomination_ends_with_its_pod() -> None:
    scene = simulation(f"{LEAVING}\n{NEWCOMER}")
    scene.cluster.remove("Pod", "default/owner-0")
    assert lines(scene.cycle()) == []
    scene.end_terminating()
    assert lines(scene.cycle()) == ["bind urgent-0 -> n1"]


def test_a_nomination_ends_when_the_pod_is_placed_elsewhere() -> None:
    """The nominated node is cordoned: the pod is placed elsewhere, and its nomination is released."""
    scene = simulation(f"{LEAVING}\njob next: 1 x cpu=4")
    _schedulable(scene, "n1", False)
    _schedulable(scene, "n2", True)
    assert lines(scene.cycle()) == ["bind owner-0 -> n2"]
    _schedulable(scene, "n1", True)
    scene.end_terminating()
    assert lines(scene.cycle()) == ["bind next-0 -> n1"]


def test_a_nomination_is_removed_when_no_node_is_feasible() -> None:
    scene = simulation(LEAVING)
    _schedulable(scene, "n1", False)
    assert lines(scene.cycle()) == ["nominate owner-0 -> nowhere"]
    assert lines(scene.cycle()) == []


def test_a_pod_is_not_nominated_behind_a_pod_that_ends_by_itself() -> None:
    """Nothing was evicted for it: it starts on the first node that is free."""
    scene = simulation(LEAVING.replace(" nominated=n1", ""))
    plan = scene.cycle()
    assert lines(plan) == []
    assert [str(effect.message) for effect in plan.of(Explain)] == ["waiting for 1 pod to terminate"]
    _schedulable(scene, "n2", True)
    assert lines(scene.cycle()) == ["bind owner-0 -> n2"]


def test_a_pod_that_starts_in_the_next_cycle_is_nominated() -> None:
    """It was placed after the actions that bind, and waits for no pod: what is reserved or admitted meanwhile does not take its node."""
    rules = config("priority, gang | predicates, binpack", "allocate, enqueue, preempt")
    text = "node n1 cpu=4\nclass high value=9\njob low: 1 x cpu=1 on=n1\njob a priority=high phase=Pending: 1 x cpu=1"
    plan = decide(text, rules)
    assert lines(plan) == ["nominate a-0 -> n1"]
    assert [str(effect.message) for effect in plan.of(Explain)] == ['starts in the next cycle on node "n1"']


def test_a_gang_keeps_all_nominations_while_victims_terminate() -> None:
    text = """
    node n1 cpu=4
    node n2 cpu=4
    class high value=9
    job old: 1 x cpu=4 on=n1 releasing
    job owner: 1 x cpu=4 nominated=n1, 1 x cpu=4 nominated=n2
    """
    scene = simulation(f"{text}\n{NEWCOMER}")
    assert lines(scene.cycle()) == []
    scene.end_terminating()
    assert lines(scene.cycle()) == ["bind owner-0 -> n1", "bind owner-1 -> n2"]


def _schedulable(scene: Simulation, name: str, is_so: bool) -> None:
    node = scene.cluster.objects["Node", name]
    assert isinstance(node, core.Node)
    spec = msgspec.structs.replace(node.spec, unschedulable=not is_so)
    scene.cluster.put(msgspec.structs.replace(node, spec=spec))
