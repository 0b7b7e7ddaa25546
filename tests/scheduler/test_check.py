"""Tests of the invariants of plans."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Nominate, Plan, SetPodGroup
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.notation import NOW, config, snapshot, world

WORLD = """
    node n1 cpu=2
    node n2 cpu=2
    queue small capability.cpu=1
    job a min=2: 2 x cpu=1
    job b: 1 x cpu=2 on=n2
    job c queue=small: 2 x cpu=1
    job d: 1 x cpu=1 gated
    job k namespace=kube-system: 1 x cpu=1 on=n1
    job p: 1 x cpu=1 on=n1 note.volcanopy.io/preemptable=false
    job r min=3: 2 x cpu=1 role=x min=1, 1 x cpu=1 role=y min=1
"""


def bind(pod: str, node: str) -> Bind:
    return Bind(f"default/{pod}", node)


def evict(pod: str, reason: str, preemptor: str = "") -> Evict:
    return Evict(f"default/{pod}", reason, preemptor=f"default/{preemptor}" if preemptor else "")


def nominate(pod: str, node: str) -> Nominate:
    return Nominate(f"default/{pod}", node)


def wrong(text: str, *effects: Effect, enforced: str = "") -> list[str]:
    names = enforced.split() or ["gang", "conformance", "pdb", "cdp", "priority", "resourcequota"]
    return violations(snapshot(text), Plan(effects), names)


@pytest.mark.parametrize(
    ("effects", "sentence"),
    [
        ([bind("a-0", "n1"), bind("a-0", "n1")], "pod default/a-0 is bound 2 times"),
        ([bind("a-0", "n9"), bind("a-1", "n9")], "pod default/a-0 is bound to node n9, which does not exist"),
        ([bind("x-0", "n1")], "pod default/x-0 is bound but does not exist"),
        ([bind("b-0", "n1")], "pod default/b-0 is bound but is not waiting for a node"),
        ([bind("d-0", "n1")], "pod default/d-0 is bound although it has a scheduling gate"),
        ([bind("a-0", "n2"), bind("a-1", "n2")], "node n2 is overcommitted: 4 of 2 cpu"),
        ([bind("a-0", "n1")], "gang default/a is split: 1/2 required pods have a node"),
        (
            [bind("r-x-0", "n1"), bind("r-x-1", "n1")],
            "gang default/r is split: 0/1 required pods of task y have a node",
        ),
        ([bind("c-0", "n1"), bind("c-1", "n2")], "queue small is over its capability: 2 of 1 cpu"),
        ([Evict("default/a-0", "test")], "pod default/a-0 is evicted but does not run"),
        ([Evict("default/b-0", "x"), Evict("default/b-0", "x")], "pod default/b-0 is evicted 2 times"),
        ([Evict("kube-system/k-0", "test")], "pod kube-system/k-0 is evicted although it is a critical pod"),
        ([Evict("default/p-0", "test")], "pod default/p-0 is evicted although it is not preemptable"),
        ([nominate("a-0", "n9")], "pod default/a-0 is nominated to node n9, which does not exist"),
        (
            [nominate("a-0", "n2"), nominate("a-1", "n2")],
            "node n2 is overcommitted by nominated pods: 4 of 2 cpu",
        ),
        ([evict("b-0", "preempt")], "pod default/b-0 is evicted without a preemptor"),
        ([evict("b-0", "preempt", "a")], "pod default/b-0 is evicted for default/a, which gets no node"),
        (
            [evict("b-0", "preempt", "a"), nominate("a-0", "n2")],
            "pod default/b-0 is evicted for default/a, which cannot start: 1/2 required pods have a node",
        ),
    ],
)
def test_an_invalid_plan_has_violations(effects: list[Effect], sentence: str) -> None:
    assert sentence in violations(snapshot(WORLD), Plan(tuple(effects)))


def test_an_eviction_with_a_placed_preemptor_is_valid() -> None:
    text = "class high value=9\nnode n1 cpu=2\njob low min=0: 2 x cpu=1 on=n1\njob a min=2 priority=high: 2 x cpu=1"
    moves = [evict("low-0", "preempt", "a"), evict("low-1", "preempt", "a")]
    assert wrong(text, *moves, nominate("a-0", "n1"), nominate("a-1", "n1")) == []
    kept = text.replace("high: 2 x cpu=1", "high: 2 x cpu=1 nominated=n1")
    assert wrong(kept, *moves) == []  # the room has been theirs before this plan, which need not say so again
    assert wrong(kept, *moves, nominate("a-0", "")) == [
        "pod default/low-0 is evicted for default/a, which cannot start: 1/2 required pods have a node"
    ]


def test_evictions_for_a_gang_with_a_pod_that_can_never_run_are_violations() -> None:
    """The pod requests nothing, so its gang lacks no amounts."""
    text = """
        class high value=9
        node n1 cpu=2
        job low min=0: 2 x cpu=1 on=n1
        job high priority=high: 2 x cpu=1 role=w, 1 x role=m{}
        """
    nominations = [nominate("high-w-0", "n1"), nominate("high-w-1", "n1")]
    effects: list[Effect] = [evict("low-0", "preempt", "high"), evict("low-1", "preempt", "high"), *nominations]
    cause = "evicted for default/high, which cannot start: 2/3 required pods have a node"
    assert f"pod default/low-0 is {cause}" in wrong(
        text.format(" selector.disk=ssd"), *effects, enforced="gang predicates"
    )
    assert wrong(text.format(""), *effects, enforced="gang predicates") == []


def test_preemption_requires_a_higher_priority() -> None:
    text = "class c1 value=1\nclass c2 value=2\nnode n1 cpu=1\njob v priority={}: 1 x cpu=1 on=n1\njob a priority=c2: 1 x cpu=1"
    moves = (evict("v-0", "preempt", "a"), nominate("a-0", "n1"))
    assert wrong(text.format("c1"), *moves) == []
    sentence = "pod default/v-0 of priority 2 is preempted for default/a, which is of priority 2"
    assert wrong(text.format("c2"), *moves) == [sentence]
    assert wrong(text.format("c2"), *moves, enforced="priority:reclaim") == []


def test_within_a_job_the_tasks_are_compared() -> None:
    text = (
        "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1 note.volcanopy.io/task-priority={}, 1 x cpu=1 role=m"
        " note.volcanopy.io/task-priority=5"
    )
    moves = (evict("a-0", "preempt", "a"), nominate("a-m-0", "n1"))
    assert wrong(text.format(1), *moves) == []
    sentence = "pod default/a-0 of priority 5 is preempted for default/a, which is of priority 5"
    assert wrong(text.format(5), *moves) == [sentence]


def test_evictions_beyond_a_disruption_budget_are_violations() -> None:
    text = (
        "node n1 cpu=3\nbudget b allowed={} selector.app=web\njob v min=0: 2 x cpu=1 label.app=web on=n1\n"
        "job w min=0: 1 x cpu=1 on=n1"
    )
    moves = [evict(pod, "shuffle") for pod in ("v-0", "v-1", "w-0")]
    assert wrong(text.format(2), *moves) == []
    sentence = "disruption budget default/b allows 1 evictions, and 2 of its pods are evicted"
    assert wrong(text.format(1), *moves) == [sentence]
    assert wrong(text.format(1), *moves, enforced="pdb:reclaim") == []


def test_evictions_within_the_cooldown_time_are_violations_if_enforced() -> None:
    text = "node n1 cpu=1\njob v min=0: 1 x cpu=1 label.volcanopy.io/cooldown-time=10m on=n1"
    for minutes, expected in ((20, []), (5, ["pod default/v-0 is evicted before its cooldown time is over"])):
        since = core.Condition(
            type="PodScheduled", status="True", last_transition_time=NOW - timedelta(minutes=minutes)
        )
        objects = [
            replace(obj, status=replace(obj.status, conditions=(since,))) if isinstance(obj, core.Pod) else obj
            for obj in world(text)
        ]
        assert violations(snapshot("", objects), Plan((evict("v-0", "preempt"),)), {"cdp"})[1:] == expected


QUEUES = """
    node n1 cpu=6
    queue root
    queue p parent=root capability.cpu=3 guarantee.cpu=2
    queue p1 parent=p
    queue p2 parent=p
    queue o parent=root guarantee.cpu=2
    job a queue=p1 min=0: 2 x cpu=1 on=n1, 2 x cpu=1
    job b queue=p2 min=0: 1 x cpu=1 on=n1, 1 x cpu=1
    job c queue=o min=0: 3 x cpu=1
"""


def test_allocations_of_children_count_for_parents() -> None:
    assert wrong(QUEUES, bind("a-2", "n1"), enforced="capacity:tree") == ["queue p is over its capability: 4 of 3 cpu"]
    assert wrong(QUEUES, bind("a-2", "n1"), enforced="capacity:reclaim") == []
    assert wrong(QUEUES, bind("c-0", "n1"), enforced="capacity:tree") == []


def test_using_the_guarantee_of_others_is_a_violation() -> None:
    text = "node n1 cpu=4\nqueue q guarantee.cpu=3\njob a min=0: 2 x cpu=1\njob b queue=q min=0: 3 x cpu=1"
    too_much = ["queue default is over what others' guarantees leave it: 2 of 1 cpu"]
    assert wrong(text, bind("a-0", "n1"), enforced="proportion") == []
    assert wrong(text, bind("a-0", "n1"), bind("a-1", "n1"), enforced="proportion") == too_much
    assert wrong(text, bind("a-0", "n1"), nominate("a-1", "n1"), enforced="capacity:flat") == too_much
    assert wrong(text, *(bind(f"b-{number}", "n1") for number in range(3)), enforced="proportion") == []
    siblings = "node n1 cpu=4\nqueue root\nqueue p parent=root capability.cpu=4\nqueue x parent=p\nqueue y parent=p guarantee.cpu=3"
    jobs = "\njob a queue=x min=0: 2 x cpu=1"
    assert wrong(siblings + jobs, bind("a-0", "n1"), bind("a-1", "n1"), enforced="capacity:tree") == [
        "queue x is over what others' guarantees leave it: 2 of 1 cpu"
    ]


def test_reclaiming_below_a_guarantee_is_a_violation() -> None:
    moves = (evict("a-0", "reclaim", "c"), evict("a-1", "reclaim", "c"), nominate("c-0", "n1"), nominate("c-1", "n1"))
    full = QUEUES.replace("node n1 cpu=6", "node n1 cpu=3")
    assert wrong(full, *moves, enforced="capacity:tree capacity:reclaim") == [
        "queue p drops below its guarantee: 1 of 2 cpu"
    ]
    assert wrong(full, *moves, enforced="capacity:flat capacity:reclaim") == []
    assert wrong(full, moves[0], moves[2], enforced="capacity:tree capacity:reclaim") == []
    among_relatives = (evict("a-0", "reclaim", "b"), evict("a-1", "reclaim", "b"), nominate("b-1", "n1"))
    assert wrong(full, *among_relatives, enforced="capacity:reclaim capacity:tree") == []
    flat = "node n1 cpu=2\nqueue q guarantee.cpu=2\njob v queue=q min=0: 2 x cpu=1 on=n1\njob a: 1 x cpu=1"
    assert wrong(flat, evict("v-0", "reclaim", "a"), nominate("a-0", "n1"), enforced="proportion:reclaim") == [
        "queue q drops below its guarantee: 1 of 2 cpu"
    ]
    assert wrong(flat, evict("v-0", "preempt"), enforced="proportion:reclaim") == [
        "pod default/v-0 is evicted without a preemptor"
    ]


def test_reclaiming_is_between_queues_and_preempting_within_one() -> None:
    text = "node n1 cpu=2\nqueue q\nqueue u unreclaimable\njob v queue={}: 1 x cpu=1 on=n1\njob a: 2 x cpu=1"
    reclaim, preempt = (evict("v-0", reason, "a") for reason in ("reclaim", "preempt"))
    room = (nominate("a-0", "n1"), nominate("a-1", "n1"))
    assert wrong(text.format("q"), reclaim, *room) == []
    assert wrong(text.format("u"), reclaim, *room) == [
        "pod default/v-0 is reclaimed from queue u, which is not reclaimable"
    ]
    assert wrong(text.format("default"), reclaim, *room) == ["pod default/v-0 is reclaimed by its own queue default"]
    assert wrong(text.format("q"), preempt, *room, enforced="gang") == [
        "pod default/v-0 is preempted by another queue, default"
    ]


def test_admitted_jobs_fit_the_quotas_of_their_namespace() -> None:
    text = (
        "node n1 cpu=9\nquota z hard.cpu=4 used.cpu=1\n"
        "job a phase=Pending minres.cpu=2\njob b phase=Pending minres.cpu=1\njob c phase=Inqueue minres.cpu=1"
    )
    a, b = (SetPodGroup(f"default/{name}", "Inqueue") for name in "ab")
    assert wrong(text, b) == []
    assert wrong(text, a, b) == ["resourcequota default/z is exceeded by reservations: 5 of 4 cpu"]
    assert wrong(text, a, b, enforced="gang") == []


def test_a_valid_plan_has_no_violations() -> None:
    room = "node n1 cpu=2\njob a min=2: 2 x cpu=1"
    assert violations(snapshot(room), Plan((bind("a-0", "n1"), bind("a-1", "n1")))) == []


def test_gangs_are_only_enforced_whole_where_gang_is_configured() -> None:
    room = "node n1 cpu=2\njob a min=2: 2 x cpu=1"
    assert wrong(room, bind("a-0", "n1"), enforced="predicates") == []


def test_a_configuration_enforces_what_every_action_respects() -> None:
    assert enforced_invariants(config("priority, gang, conformance | drf, proportion, pdb")) == {
        "gang:broken",
        "gang:first",
        "gang:members",
        "gang:ready",
        "conformance:drain",
        "conformance:preempt",
        "conformance:reclaim",
        "conformance:shuffle",
        "pdb:drain",
        "pdb:everybody",
        "pdb:preempt",
        "pdb:reclaim",
        "pdb:shuffle",
        "proportion:flat",
        "proportion:reclaim",
    }  # not that preempting is for the more important: drf may name victims when the first tier names none
    assert "gang:first" not in enforced_invariants(config("gang | usage"))  # which filters nodes by load
    assert "priority:preempt" in enforced_invariants(config("priority, gang, drf | proportion"))
    assert "resourcequota:enqueue" in enforced_invariants(config("resourcequota, gang | overcommit"))
    assert "resourcequota:enqueue" not in enforced_invariants(config("overcommit | resourcequota"))
    assert "resourcequota:enqueue" not in enforced_invariants(config("resourcequota", "allocate"))
