"""Stop policies: held queues start nothing, drained queues are evicted."""

import json

import pytest

from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import Lines, config, decided, snapshot, world

CHAIN = "enqueue, allocate, backfill, preempt, reclaim"
STOPS = pytest.mark.parametrize("stop", ["Hold", "HoldAndDrain"])


def made(text: str, plugins: str | SchedulerConfig = "gang, priority, predicates", actions: str = CHAIN) -> Plan:
    """Return the plan, and check that it is valid."""
    conf, seen = config(plugins, actions), snapshot(text)
    plan = schedule(seen, conf)
    assert violations(seen, plan, enforced_invariants(conf)) == []
    return plan


@STOPS
@pytest.mark.parametrize(
    "actions", [CHAIN, "allocate", "backfill, allocate", "enqueue, gangpreempt, gangreclaim, allocate"]
)
def test_a_held_queue_admits_and_starts_nothing(stop: str, actions: str) -> None:
    text = f"""
        class high value=9
        node n1 cpu=4
        queue q stop={stop}
        job a queue=q phase=Pending minres.cpu=1:
        job b queue=q: 1 x cpu=1
        job c queue=q: 1 x
        job d queue=q priority=high: 1 x cpu=4 nominated=n1
        job e: 1 x cpu=1
    """
    plan = made(text, actions=actions)
    assert [effect.pod for effect in plan.of(Bind)] == ["default/e-0"]
    assert "default/a" not in {effect.pod_group for effect in plan.of(SetPodGroup) if effect.phase == "Inqueue"}
    assert [(effect.pod, effect.node) for effect in plan.of(Nominate)] == [("default/d-0", "")]


def test_running_pods_continue_and_an_elastic_job_does_not_grow() -> None:
    text = "node n1 cpu=4\nqueue q stop=Hold\njob a min=1 queue=q: 1 x cpu=1 on=n1, 2 x cpu=1"
    plan = made(text)
    assert not plan.of(Bind, Evict)
    assert 'queue "q" is held: stopPolicy Hold' in str(plan)


@pytest.mark.parametrize(
    ("stop", "sentence"),
    [
        (
            "Hold",
            'queue "lab" is held by its ancestor "team": stopPolicy Hold',
        ),
        (
            "HoldAndDrain",
            'queue "lab" is drained by its ancestor "team": stopPolicy HoldAndDrain',
        ),
    ],
)
def test_a_hold_applies_to_descendants_and_the_message_names_the_held_queue(stop: str, sentence: str) -> None:
    text = f"""
        node n1 cpu=4
        queue root
        queue team parent=root stop={stop}
        queue lab parent=team
        job a queue=lab: 1 x cpu=1
    """
    why = made(text).of(Explain)[0]
    assert (why.gate, str(why.message), why.unblocked_by) == ("queue", sentence, 'resuming queue "team"')
    assert why.numbers["stoppedBy"] == "team"
    assert why.pods == {"default/a-0": sentence}


def test_the_stop_policy_of_the_root_is_ignored() -> None:
    text = "node n1 cpu=4\nqueue root stop=HoldAndDrain\nqueue q parent=root\njob a queue=q: 1 x cpu=1"
    assert [effect.pod for effect in made(text).of(Bind)] == ["default/a-0"]


@pytest.mark.parametrize("plugins", ["gang, proportion, predicates", "gang, capacity, predicates"])
def test_jobs_in_a_held_queue_reduce_no_shares(plugins: str) -> None:
    text = """
        node n1 cpu=4
        queue q stop=Hold weight=3
        queue r
        job a queue=q minres.cpu=4: 4 x cpu=1
        job b min=1 queue=r: 4 x cpu=1
    """
    assert len(made(text, plugins).of(Bind)) == 4


@pytest.mark.parametrize(("stop", "admitted"), [("None", False), ("Hold", True)])
def test_nominations_in_a_held_queue_reserve_nothing(stop: str, admitted: bool) -> None:
    text = f"""
        node n1 cpu=4
        queue q stop={stop}
        job a queue=q minres.cpu=4: 4 x cpu=1
        job c phase=Pending minres.cpu=4:
    """
    plan = made(text, "gang, overcommit", "enqueue")
    reported = {effect.pod_group for effect in plan.of(SetPodGroup) if effect.phase == "Inqueue"}
    assert ("default/c" in reported) is admitted


# Draining

RUNNING = """
    node n1 cpu=8
    queue q stop=HoldAndDrain
    job a min=2 queue=q: 2 x cpu=1 on=n1
    job b min=1 queue=q: 1 x cpu=1 on=n1 {}
    job c min=1: 1 x cpu=1 on=n1
"""


@pytest.mark.parametrize("actions", [CHAIN, "allocate", "enqueue", "shuffle", "gangreclaim, backfill"])
def test_pods_of_a_drained_queue_are_evicted_with_any_actions(actions: str) -> None:
    plan = made(RUNNING.format(""), actions=actions)
    assert sorted(effect.pod for effect in plan.of(Evict)) == ["default/a-0", "default/a-1", "default/b-0"]
    assert {(effect.reason, effect.message) for effect in plan.of(Evict)} == {("drain", 'drain: queue "q" is drained')}


def test_drained_resources_are_nominated_to_waiting_jobs() -> None:
    text = "node n1 cpu=2\nqueue q stop=HoldAndDrain\njob a min=2 queue=q: 2 x cpu=1 on=n1\njob b: 2 x cpu=1"
    assert (
        Lines(decided(made(text)))
        == """
        evict a-0: drain
        evict a-1: drain
        nominate b-0 -> n1
        nominate b-1 -> n1
        podgroup b Inqueue Unschedulable: waiting for 2 evicted pods to terminate
    """
    )


def test_unpreemptable_pods_are_not_drained() -> None:
    plan = made(RUNNING.format("note.volcanopy.io/preemptable=false"))
    assert {effect.group for effect in plan.of(Evict)} == {"default/a"}


def test_critical_pods_are_not_drained_with_conformance() -> None:
    text = "node n1 cpu=8\nqueue q stop=HoldAndDrain\njob a namespace=kube-system min=1 queue=q: 1 x cpu=1 on=n1"
    assert len(made(text).of(Evict)) == 1
    assert not made(text, "gang, conformance").of(Evict)


@pytest.mark.parametrize(
    ("allowed", "gone"),
    [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4)],
    ids=["none", "no whole gang", "one", "one still", "both"],
)
def test_whole_gangs_are_drained_within_disruption_budgets(allowed: int, gone: int) -> None:
    text = f"""
        node n1 cpu=8
        queue q stop=HoldAndDrain
        job a min=2 queue=q: 2 x cpu=1 label.app=a on=n1
        job b min=2 queue=q: 2 x cpu=1 label.app=a on=n1
        budget d allowed={allowed} selector.app=a
    """
    plan = made(text, "gang, pdb")
    assert len(plan.of(Evict)) == gone
    assert len(made(text).of(Evict)) == 4


def test_surplus_pods_are_drained_if_a_gang_is_protected() -> None:
    text = """
        node n1 cpu=8
        queue q stop=HoldAndDrain
        job a min=2 queue=q: 4 x cpu=1 label.app=a on=n1
        budget d allowed=3 selector.app=a
    """
    assert sorted(effect.pod for effect in made(text, "gang, pdb").of(Evict)) == ["default/a-2", "default/a-3"]


def test_drained_pods_wait_and_start_when_the_queue_resumes() -> None:
    conf = config("gang, predicates", CHAIN)
    simulation = Simulation(world(RUNNING.format("")), conf)
    assert len(simulation.cycle().of(Evict)) == 3
    assert not list(simulation.cycles(5))[-1].of(Bind, Evict, Nominate)
    simulation.add(world(RUNNING.format("").replace("stop=HoldAndDrain", ""))[1:3])
    assert len(simulation.cycle().of(Bind)) == 3


def test_invariants_detect_starts_in_held_queues() -> None:
    seen = snapshot(
        "node n1 cpu=4\nqueue q stop=Hold\njob a min=1 queue=q: 1 x cpu=1 on=n1, 1 x cpu=1\njob b queue=q phase=Pending:"
    )
    wrong = violations(
        seen, Plan((Bind("default/a-1", "n1", "default/a"), Evict("default/a-0", "drain", "default/a"))), ()
    )
    assert "pod default/a-1 is placed although queue q is held" in wrong
    assert "pod default/a-0 is drained although none of its queues is" in wrong
    assert violations(seen, Plan((SetPodGroup("default/b", "Inqueue"),)), ()) == [
        "job default/b is admitted although queue q is held"
    ]


@pytest.mark.parametrize(
    ("queue", "user", "gone"),
    [
        ("administrators=head", "user=eve", 2),
        ("administrators=head", "user=head", 0),
        ("administrators=head", "user=eve groups=system:masters", 0),
        ("administrators=head", "", 0),
        ("", "user=eve", 0),
    ],
    ids=["of others", "of an administrator", "of a superuser", "without admission", "without administrators"],
)
def test_budgets_protect_only_pods_whose_submitter_may_protect_them(queue: str, user: str, gone: int) -> None:
    """Everybody may create a budget, also for pods that run already."""
    text = f"""
        node n1 cpu=8
        queue q stop=HoldAndDrain {queue}
        job a min=2 queue=q {user}: 2 x cpu=1 label.app=a on=n1
        budget d allowed=0 selector.app=a
    """
    assert len(made(text, "gang, pdb").of(Evict)) == gone


@pytest.mark.parametrize(
    ("queue", "user", "gone"),
    [
        ("administrators=head", "user=head", 0),
        ("administrators=head", "user=eve", 2),
        ("administrators=head", "user=ana", 0),
        ("administrators=head", "user=bo groups=research", 0),
        ("", "user=eve", 2),
        ("", "user=ana", 0),
        ("", "", 0),
    ],
)
def test_budgets_protect_pods_of_administrators_and_of_the_permitted_subjects(queue: str, user: str, gone: int) -> None:
    """With ``unpreemptable``, as admission decides about annotations: also in queues without administrators."""
    text = f"""
        node n1 cpu=8
        queue q stop=HoldAndDrain {queue}
        job a min=2 queue=q {user}: 2 x cpu=1 label.app=a on=n1
        budget d allowed=0 selector.app=a
    """
    subjects = {"users": ["ana"], "groups": ["research"]}
    plugins = [{"name": "gang"}, {"name": "pdb", "arguments": {"unpreemptable": subjects}}]
    document = {"actions": CHAIN, "tiers": [{"plugins": plugins}]}
    assert len(made(text, parse(json.dumps(document), builtin())).of(Evict)) == gone
