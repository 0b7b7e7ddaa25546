"""Regressions that random search found, each with the correct decision."""

from random import Random

from tests.scheduler.properties import order_independence, stability
from tests.scheduler.random_cases import Case
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, SetPodGroup
from volcanopy.scheduler.policy.config import parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import all_policies, config, decide, snapshot, world


def moves(text: str, plugins: str, actions: str) -> list[str]:
    return [str(effect) for effect in decide(text, plugins, actions).of(Bind, Evict, Nominate)]


def test_a_gang_that_starts_in_a_session_is_not_broken_in_it() -> None:
    """gang selects no victims of j and leaves it to drf in the next tier; but one of its pods was bound in this session."""
    text = """
        node n1 memory=2Gi
        node n3 cpu=7 pods=2
        job j note.volcanopy.io/sla-waiting-time=100h: 1 x memory=2Gi on=n1, 1 x cpu=3
        job k: 2 x memory=1Gi
        """
    assert moves(text, "gang | sla, drf", "allocate, preempt") == ["bind j-1 -> n3"]


def test_sla_does_not_evict_for_part_of_a_gang() -> None:
    """sla reserves resources for part of a gang, which does not justify evictions."""
    text = "node n1 cpu=1\nqueue q\njob g: 1 x cpu=1, 1 x cpu=2\njob v queue=q: 1 x cpu=1 on=n1"
    assert moves(text, "sla, conformance | gang", "reclaim") == []


def test_equal_tasks_of_a_job_do_not_evict_each_other() -> None:
    """tdm considers running tasks only: preempting back is checked as if the preemptor ran already."""
    text = "node n0 cpu=2\njob j min=2: 2 x cpu=1 on=n0, 1 x cpu=1"
    assert moves(text, "tdm", "allocate, preempt") == []


def test_a_preemptor_stays_admitted() -> None:
    """None of its pods runs and its queue admits no new jobs, but the job was admitted before."""
    text = "node n2 cpu=3\nqueue q closed\njob v min=0 queue=q: 2 x cpu=1 on=n2\njob j queue=q phase=Running: 1 x cpu=2"
    simulation = Simulation(world(text), config("gang", "enqueue, preempt, allocate"))
    first = simulation.cycle()
    assert [str(effect) for effect in first.of(Evict, Nominate)] == ["evict v-1: preempt", "nominate j-0 -> n2"]
    assert {effect.pod_group: effect.phase for effect in first.of(SetPodGroup)}["default/j"] == "Inqueue"
    assert [str(effect) for effect in simulation.cycle().of(Bind)] == ["bind j-0 -> n2"]


def test_backfill_respects_nominations() -> None:
    text = "node n0 cpu=4 pods=2\njob owner: 2 x cpu=1 nominated=n0\njob late: 2 x role=r"
    assert moves(text, "gang, predicates", "enqueue, backfill, allocate") == [
        "bind owner-0 -> n0",
        "bind owner-1 -> n0",
    ]


def test_critical_pods_are_not_evicted_by_any_tier() -> None:
    """conformance filters all victims of its tier; proportion, in the next tier, would select pods of kube-system."""
    text = "node n1 cpu=2\nqueue q\njob k namespace=kube-system min=0: 2 x cpu=1 on=n1\njob a queue=q: 1 x cpu=1"
    assert moves(text, "gang, conformance | proportion", "reclaim") == []
    assert moves(text.replace(" namespace=kube-system", ""), "gang, conformance | proportion", "reclaim") != []


def test_disruption_budgets_hold_for_victims_of_any_tier() -> None:
    text = "class high value=9\nnode n1 cpu=1\nbudget b selector.app=web\njob v min=0: 1 x cpu=1 on=n1 label.app=web\njob a priority=high: 1 x cpu=1"
    assert moves(text, "priority, gang | pdb", "preempt") == []
    assert moves(text.replace("budget b", "budget b allowed=1"), "priority, gang | pdb", "preempt") != []


def test_guarantees_hold_for_victims_of_any_tier() -> None:
    """The first tier selects both pods as victims; the guarantee of the queue still applies."""
    text = "node n1 cpu=4\nqueue q guarantee.cpu={}\njob v queue=q min=0: 4 x cpu=1 on=n1\njob a min=2: 2 x cpu=1"
    for plugins in ("gang, conformance | proportion", "gang, conformance, proportion", "gang, conformance, capacity"):
        seen = snapshot(text.format(3))
        assert moves(text.format(3), plugins, "reclaim") == [], plugins
        assert violations(seen, decide(text.format(3), plugins, "reclaim"), enforced_invariants(config(plugins))) == []
    assert moves(text.format(2), "gang, conformance | proportion", "reclaim") != []


def test_the_guarantee_of_a_parent_queue_is_not_reclaimed() -> None:
    text = """
        node n1 cpu=4
        queue root
        queue p parent=root guarantee.cpu=4
        queue p1 parent=p
        queue p2 parent=p deserved.cpu=2
        queue o parent=root deserved.cpu=2
        job v queue=p1 min=0: 4 x cpu=1 on=n1
        job {}: 1 x cpu=1
        """
    document = """
        actions: "reclaim"
        tiers: [{plugins: [{name: gang}, {name: capacity, enableHierarchy: true}]}]
        """
    chosen = parse(document, all_policies())
    assert decide(text.format("a queue=o"), chosen).of(Evict) == []
    assert len(decide(text.format("a queue=p2"), chosen).of(Evict)) == 1


def test_the_reason_for_waiting_does_not_depend_on_the_order_of_arrival() -> None:
    text = "queue q1\njob j queue=q1: 1 x memory=4Gi, 2 x port=80"
    objects = world(text)
    plans = set()
    for things in (objects, objects[::-1]):
        simulation = Simulation(things, config("proportion", "allocate"))
        plans.add(str(simulation.cycle()))
    assert len(plans) == 1


def test_nominations_of_a_gang_are_bound_with_the_rest() -> None:
    """The first pod keeps its nomination when both start."""
    text = "node n0 cpu=1\nnode n9 cpu=2\njob j: 2 x cpu=1 nominated=n0"
    document = """
        actions: "allocate"
        tiers: [{plugins: [{name: sla, arguments: {sla-waiting-time: 1m}}]}, {plugins: [{name: gang}]}]
        """
    assert {str(bind) for bind in decide(text, parse(document, all_policies())).of(Bind)} == {
        "bind j-1 -> n9",
        "bind j-0 -> n0",
    }


def is_stable(text: str, document: str, cycles: int = 5) -> bool:
    """Whether plans are empty after so many cycles, with victims created again."""
    simulation = Simulation(world(text), parse(document, all_policies()), replaced=True)
    for _ in range(cycles):
        simulation.cycle()
        simulation.end_terminating()
    return not simulation.cycle().of(Bind, Evict, Nominate)


def test_two_actions_do_not_reclaim_from_each_other() -> None:
    """Only drf and pdb select victims: gangreclaim would evict from q0 what reclaim then reclaims for q0."""
    text = "node n2 cpu=8\nqueue q0\njob j3: 1 x cpu=2\njob j4 min=1 queue=q0: 4 x cpu=1, 1 x cpu=3"
    document = (
        'actions: "allocate, reclaim, gangreclaim"\ntiers: [{plugins: [{name: priority}]}, {plugins: [{name: pdb}]}]'
    )
    assert is_stable(text, document)


def test_a_used_up_budget_prevents_alternating_evictions() -> None:
    """One eviction is allowed at a time: the next cycle would allow the victim to preempt back."""
    text = (
        "node n2 cpu=8\nqueue q0\njob j3: 1 x cpu=2\njob j4 min=1 queue=q0: 4 x cpu=1, 1 x cpu=3\nbudget b0 allowed=1"
    )
    document = 'actions: "gangreclaim"\ntiers: [{plugins: [{name: priority}]}, {plugins: [{name: pdb}]}]'
    assert is_stable(text, document)


def test_a_gang_gets_the_minima_of_its_tasks_before_its_other_pods() -> None:
    """tdm, a tier above gang, counts pods and no roles: in the order of names five pods of j0 fit, and one task has too few."""
    text = """
        node n0 cpu=8
        node n1 cpu=8 pods=5
        queue q3
        job j0 min=3: 4 x role=r0 cpu=2, 2 x cpu=1 min=2
        job j2: 3 x cpu=1 on=n1,n1,n0
        job j3 phase=Running: 3 x role=r0 cpu=1 note.volcanopy.io/preemptable=false on=n0,n0,n0
        job j4 min=0 queue=q3 phase=Running note.volcanopy.io/preemptable=true: 1 x role=r0 on=n1, 1 x role=r0
        """
    document = """
        actions: "reclaim, allocate, preempt"
        tiers:
        - plugins: [{name: binpack}, {name: conformance}, {name: tdm, arguments: {tdm.revocable-zone.rz: "00:00-00:00"}}]
        - plugins: [{name: gang}, {name: priority}]
        - plugins: [{name: proportion}, {name: predicates}]
        """
    made = decide(text, parse(document, all_policies()))
    assert {"default/j0-0", "default/j0-1"} <= {effect.pod for effect in made.of(Bind) if effect.group == "default/j0"}


def test_a_preemptor_is_not_evicted_by_the_next_action() -> None:
    """preempt evicts for the second pod of j4; gangreclaim must not evict the first."""
    text = """
        node n0 cpu=7
        queue q2
        job j2 min=0: 1 x cpu=4 on=n0
        job j3 queue=q2 namespace=kube-system: 2 x cpu=1
        job j4: 1 x cpu=3 on=n0, 1 x cpu=3
        """
    document = 'actions: "preempt, gangreclaim"\ntiers: [{plugins: [{name: conformance}, {name: gang}]}]'
    chosen = parse(document, all_policies())
    assert violations(snapshot(text), decide(text, chosen), enforced_invariants(chosen)) == []


def test_a_partly_used_reservation_is_not_counted_twice() -> None:
    """A pod of j2 uses its part of the reservation: the rest is for j3, the preemptor."""
    text = """
        node n0 cpu=6 memory=4Gi
        node n1 cpu=6 memory=2Gi
        queue q0
        queue q1
        job j0: 1 x cpu=1 memory=4Gi on=n0
        job j2 min=2 phase=Pending: 4 x role=r0 cpu=4
        job j3 min=5 queue=q1 priority=c3 phase=Pending note.volcanopy.io/preemptable=true: 2 x role=r0 cpu=4 memory=4Gi selector.topology.kubernetes.io/zone=a label.app=a, 3 x role=r1 cpu=2 note.volcanopy.io/preemptable=false label.app=b
        job j4 min=1 queue=q1 priority=c1 phase=Running: 1 x role=r0 cpu=1 note.volcanopy.io/revocable-zone=* label.app=b on=n1 releasing
        job j5 min=2 queue=q0 priority=c1 phase=Running note.volcanopy.io/preemptable=true: 1 x role=r0 cpu=2 memory=2Gi tolerates=t on=n1, 1 x role=r0 cpu=2 memory=2Gi tolerates=t min=1
        """
    document = """
        actions: "enqueue, gangreclaim, allocate, backfill, gangpreempt, reclaim"
        tiers:
        - plugins: [{"name": "reservation", "enableJobOrder": false, "arguments": {"after": "0s", "heads": 2}}, {"name": "conformance"}, {"name": "resourcequota", "enableReclaimable": false}, {"name": "resource-strategy-fit", "arguments": {"resources": {"cpu": {"type": "MostAllocated", "weight": 2}}}}, {"name": "predicates"}]
        - plugins: [{"name": "priority"}, {"name": "usage", "arguments": {"thresholds": {"cpu": 50, "mem": 80}}}, {"name": "network-topology-aware"}]
        """
    assert stability(Case(text, document), Random(1)) == []


def test_victims_do_not_depend_on_the_order_of_arrival() -> None:
    """drf allows one of two pods of j0 as a victim: the same one in any order of arrival."""
    text = """
        class c1 value=1
        class c2 value=2
        class c3 value=3
        node n0 cpu=1 pods=5
        node n1 pods=2
        node n2 pods=5
        node n3 cpu=6 pods=2
        queue root
        queue q0
        queue q1
        queue q2
        queue q3
        job j0 queue=q3: 2 x on=n0,n2
        job j1 queue=q3 priority=c3: 3 x memory=1Gi
        job j2 queue=q3: 1 x on=n1, 1 x role=r0 cpu=1 min=1
        job j3 min=6 queue=q0 priority=c3 phase=Running: 3 x role=r0 cpu=1 selector.topology.kubernetes.io/zone=a on=n0,n2,n3 releasing, 3 x role=r1 port=80 label.app=a on=n1,n3,n2, 1 x role=r1 port=80 label.app=a nominated=n2
        job j4 min=1 queue=q3 priority=c3 phase=Pending minres.cpu=2: 6 x role=r0 cpu=4 selector.topology.kubernetes.io/zone=a label.app=b
        pod f0 cpu=1 node=n3
        """
    document = """
        actions: "enqueue, preempt, allocate"
        tiers:
        - plugins: [{"name": "conformance", "enableJobOrder": false, "enableJobStarving": false}, {"name": "resourcequota", "enableJobOrder": false}, {"name": "proportion"}, {"name": "priority", "enableJobOrder": false}, {"name": "reservation", "arguments": {"after": "0s", "heads": 2}}, {"name": "nodegroup", "enablePreemptable": false, "arguments": {"strict": false}}, {"name": "drf", "enabledAllocatable": false}, {"name": "overcommit", "enableJobStarving": false, "arguments": {"overcommit-factor": 1}}, {"name": "nodeorder", "enabledAllocatable": false, "arguments": {"mostrequested.weight": 0}}, {"name": "sla", "enabledAllocatable": false, "arguments": {"sla-waiting-time": "1m"}}]
        """
    assert order_independence(Case(text, document), Random(7788)) == []


def test_a_queue_at_its_share_in_a_full_cluster_reports_the_nodes() -> None:
    """With the limits of proportion disabled, the job is tried beyond the share of its queue."""
    text = """
        node n1 cpu=3 pods=5
        job j1 min=2: 2 x on=n2,n1, 3 x cpu=2 on=n0,n0,n1, 1 x cpu=2
        """
    document = """
        actions: "enqueue, allocate, reclaim, shuffle, gangpreempt, gangreclaim"
        tiers:
        - plugins: [{"name": "network-topology-aware"}, {"name": "priority"}, {"name": "resource-strategy-fit", "enablePreemptable": false, "arguments": {"resources": {"cpu": {"type": "MostAllocated", "weight": 3}}}}, {"name": "pdb"}, {"name": "conformance"}, {"name": "sla", "enableJobOrder": false, "arguments": {"sla-waiting-time": "1m"}}]
        - plugins: [{"name": "predicates"}, {"name": "tdm", "arguments": {"tdm.revocable-zone.rz": "08:00-20:00", "tdm.evict.period": "1m"}}, {"name": "gang"}, {"name": "rescheduling", "enableJobStarving": false, "arguments": {"interval": "5m"}}]
        - plugins: [{"name": "nodeorder"}, {"name": "proportion", "enabledAllocatable": false}, {"name": "binpack", "enabledAllocatable": false, "arguments": {"binpack.cpu": 4}}, {"name": "deviceshare", "enablePreemptable": false}, {"name": "drf"}]
        """
    (explain,) = decide(text, parse(document, all_policies())).of(Explain)
    assert explain.message.startswith("0/1 nodes are available: 1 Insufficient cpu")
