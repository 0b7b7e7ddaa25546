"""Bugs seeded into the scheduler: each must be found by the invariants, which share no definition with it.

The first half replaces a part of the scheduler by a wrong one; the second changes a valid plan.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.scheduler.needless_evictions import violations
from volcanopy.scheduler.actions.allocate import running_gangs
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundles
from volcanopy.scheduler.cache import shapes
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.gangs import Gangs
from volcanopy.scheduler.engine.queue_limits import QueueLimits
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.invariants.check import ENFORCED
from volcanopy.scheduler.ledger.views import JobView, RoleView
from volcanopy.scheduler.model import topology
from volcanopy.scheduler.model.plan import Bind, Effect, Evict, Nominate, Plan
from volcanopy.scheduler.policies.nodes.predicates import Predicates
from volcanopy.scheduler.policies.order.priority import Priority
from volcanopy.scheduler.policies.victims.conformance import Conformance
from volcanopy.scheduler.policies.victims.pdb import Pdb
from volcanopy_testing.notation import config, snapshot

PLUGINS = "priority, gang, conformance, pdb | predicates, capacity"
INVARIANTS = ENFORCED - {"proportion"}
ACTIONS = "enqueue, allocate, backfill, preempt, reclaim, gangpreempt"


def found(text: str) -> list[str]:
    """The violations of the plan for a world."""
    seen = snapshot(text)
    return violations(seen, schedule(seen, config(PLUGINS, ACTIONS)), INVARIANTS)


def nothing(*_: Any) -> None:
    """No rejection."""


def all_candidates(_: Any, __: Any, candidates: Any, ___: Any) -> Any:
    return candidates


FULL = "class high value=9\nnode n1 cpu=2\njob low min=0{}: 2 x cpu=1 on=n1\njob a priority={}: 2 x cpu=1"
ROLES = "node n1 cpu=2\njob a min=2: 2 x cpu=1 role=w, 1 x cpu=3 role=m min=1"
PARTS = """
    node n1 cpu=3
    job a min=2 split=2 split.min=2 split.by=x.y/p: 2 x cpu=1 label.x.y/p=0, 2 x cpu=1 label.x.y/p=1
"""


@pytest.mark.parametrize(
    ("text", "owner", "name", "wrong", "sentence"),
    [
        (ROLES, RoleView, "minimum", property(lambda _: 0), "required pods of task m have a node"),
        ("node n1 cpu=1\njob a: 2 x cpu=1", Gangs, "_has_minimum", lambda *_: True, "gang default/a is split: 1/2"),
        (
            "node n1 cpu=2\nnode n2 cpu=2\njob rival: 1 x cpu=2\njob big min=2: 1 x cpu=2 on=n1, 1 x cpu=2",
            running_gangs,
            "_running",
            lambda _: [],
            "running gang default/big lacks members though other pods start: 1/2 required pods have a node",
        ),
        (PARTS, Gangs, "_lacking", lambda *_: "", "1/2 required sub-groups of part have nodes"),
        (
            "node n1 cpu=1\njob a: 1 x cpu=1, 1 x gated",
            JobView,
            "is_ready",
            property(lambda job: job.ready_count > 0),
            "gang default/a is split: 1/2",
        ),
        (
            "node n1 cpu=4\njob a min=0: 4 x cpu=2",
            shapes,
            "request_of",
            lambda *_: {"cpu": 1000, "pods": 1},
            "node n1 is overcommitted: 8 of 4 cpu",
        ),
        (
            "node n1 cpu=4\nqueue q capability.cpu=1\njob a queue=q min=0: 2 x cpu=1",
            ShareRules,
            "limit_rejection",
            nothing,
            "queue q is over its capability: 2 of 1 cpu",
        ),
        (
            "node n1 cpu=4\nqueue q limit.user.ana.cpu=1\njob a queue=q user=ana min=0: 2 x cpu=1",
            QueueLimits,
            "limit_rejection",
            nothing,
            "user ana in queue q has 2 cpu allocated, limit is 1",
        ),
        (
            "node n1 cpu=1 taint=t:NoSchedule\njob a: 1 x cpu=1",
            Predicates,
            "reject",
            lambda *_: (),
            "pod default/a-0 is placed on node n1, which does not admit it",
        ),
        (
            "node n1 cpu=1\njob a: 1 x cpu=1 selector.topology.kubernetes.io/zone=b",
            Predicates,
            "reject",
            lambda *_: (),
            "pod default/a-0 is placed on node n1, which does not admit it",
        ),
        (FULL.format("", '""'), Priority, "allows", all_candidates, "which is of priority 0"),
        (
            FULL.format(" namespace=kube-system", "high"),
            Conformance,
            "unprotected",
            all_candidates,
            "is evicted although it is a critical pod",
        ),
        (
            FULL.format("", "high").replace("on=n1", "on=n1 label.app=web") + "\nbudget b allowed=1 selector.app=web",
            Pdb,
            "unprotected",
            all_candidates,
            "disruption budget default/b allows 1 evictions",
        ),
        (
            "class high value=9\nnode n1 cpu=3\njob low min=3: 3 x cpu=1 on=n1\njob a priority=high: 1 x cpu=1",
            Bundles,
            "_whole",
            lambda bundles, job: bundles._single(bundles._running(bundles._session.snapshot.members(job))[:1]),
            "gang default/low is broken for default/a, but 2 of its pods stay",
        ),
        (
            "node n1 cpu=1\nnode n2 cpu=1\nhypernode r1 tier=1: n1\nhypernode r2 tier=1: n2\nhypernode h tier=2: r1 r2\n"
            "job a topology=hard:1: 2 x cpu=1",
            topology,
            "bound",
            lambda *_: 2,
            "default/a spans network tier 2, highestTierAllowed is 1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_a_bug_in_the_scheduler_is_found(
    text: str, owner: Any, name: str, wrong: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(text) == []
    monkeypatch.setattr(owner, name, wrong)
    assert any(sentence in violation for violation in found(text)), found(text)


def test_a_gang_that_counts_members_which_can_never_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        class high value=9
        node n1 cpu=2
        job low min=0: 2 x cpu=1 on=n1
        job high min=3 priority=high: 2 x cpu=1 role=w, 1 x role=m selector.disk=ssd
        """
    moves = (evict("low-0"), evict("low-1"), nominate("high-w-0"), nominate("high-w-1"))
    assert violations(snapshot(text), Plan(moves), ENFORCED) == [
        "pod default/low-0 is evicted for default/high, which cannot start: 2/3 required pods have a node"
    ]
    assert violations(snapshot(text.replace(" selector.disk=ssd", "")), Plan(moves), ENFORCED) == []


def evict(pod: str, preemptor: str = "high") -> Evict:
    return Evict(f"default/{pod}", "preempt", "", "", f"default/{preemptor}")


def nominate(pod: str) -> Nominate:
    return Nominate(f"default/{pod}", "n1")


PREEMPTION = """
    class high value=9
    node n1 cpu=5
    job idle min=0: 1 x cpu=1 on=n1
    job low min=2: 2 x cpu=1 on=n1
    job spare min=0: 2 x cpu=1 on=n1
    job a min=2 priority=high: 1 x cpu=2 role=w, 1 x cpu=2 role=m min=1
    job b: 1 x cpu=0 role=w
"""
VALID: tuple[Effect, ...] = (
    *(evict(pod, "a") for pod in ("low-0", "low-1", "spare-0", "spare-1")),
    *(nominate(pod) for pod in ("a-w-0", "a-m-0")),
    Bind("default/b-w-0", "n1"),
)


def without(pod: str) -> Callable[[tuple[Effect, ...]], tuple[Effect, ...]]:
    return lambda effects: tuple(effect for effect in effects if getattr(effect, "pod", "") != f"default/{pod}")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (without("low-0"), "gang default/low is broken for default/a, but 1 of its pods stay: 1/2"),
        (without("low-0"), "node n1 is overcommitted by nominated pods: 6 of 5 cpu"),
        (without("a-m-0"), "which cannot start: 0/1 required pods of task m have a node"),
        (
            lambda effects: (*effects, evict("idle-0", "a")),
            "pod default/idle-0 is evicted for default/a, although all placed pods fit without it",
        ),
        (lambda effects: (*effects, Bind("default/b-w-0", "n1")), "pod default/b-w-0 is bound 2 times"),
        (lambda effects: (*effects, effects[0]), "pod default/low-0 is evicted 2 times"),
        (lambda effects: (*effects, Bind("default/a-w-0", "n1")), "node n1 is overcommitted: 7 of 5 cpu"),
        (
            lambda effects: effects[:4],
            "pod default/low-0 is evicted for default/a, which gets no node",
        ),
    ],
)
def test_a_change_of_a_valid_plan_is_found(
    change: Callable[[tuple[Effect, ...]], tuple[Effect, ...]], sentence: str
) -> None:
    seen = snapshot(PREEMPTION)
    assert violations(seen, Plan(VALID), INVARIANTS) == []
    wrong = violations(seen, Plan(change(VALID)), INVARIANTS)
    assert any(sentence in violation for violation in wrong), wrong


MOVE = """
    class high value=9
    node n1 cpu=4
    node n2 cpu=4 zone=a
    node n3 cpu=1
    job a min=2: 2 x cpu=1 on=n1
    job b priority=high: 1 x cpu=2 on=n2
    job g: 1 x cpu=4
"""


def move(pod: str, node: str) -> Evict:
    return Evict(f"default/{pod}", "consolidate", "", "", "default/g", node)


@pytest.mark.parametrize(
    ("effects", "sentence"),
    [
        ((move("a-0", "n2"), move("a-1", "")), "pod default/a-1 is moved without a new node"),
        ((move("a-0", "n2"),), "gang default/a is moved in part: 1 of its pods stay"),
        ((move("a-0", "n2"),), "node n1 is overcommitted by nominated pods: 5 of 4 cpu"),
        ((move("a-0", "n3"), move("a-1", "n3")), "node n3 is overcommitted by nominated pods: 2 of 1 cpu"),
        ((move("a-0", "n2"), move("a-1", "n1")), "node n1 is overcommitted by nominated pods: 5 of 4 cpu"),
        ((move("a-0", "n2"), move("a-1", "n9")), "pod default/a-1 is moved to a node that does not exist"),
        ((move("b-0", "n1"),), "pod default/b-0 is moved for default/g, which is of lower priority"),
    ],
)
def test_a_wrong_move_is_found(effects: tuple[Effect, ...], sentence: str) -> None:
    seen = snapshot(MOVE)
    whole = (move("a-0", "n2"), move("a-1", "n2"), Nominate("default/g-0", "n1"))
    assert violations(seen, Plan(whole), INVARIANTS) == []
    assert sentence in violations(seen, Plan((*effects, Nominate("default/g-0", "n1"))), INVARIANTS)
    assert any("gets no node" in text for text in violations(seen, Plan(whole[:2]), INVARIANTS))


def test_every_dropped_bind_of_a_gang_and_every_further_pod_on_a_full_node_is_found() -> None:
    text = "\n".join(f"node n{number} cpu=4" for number in range(4)) + "\njob a: 8 x cpu=2"
    seen = snapshot(text)
    plan = schedule(seen, config(PLUGINS, ACTIONS))
    binds = plan.of(Bind)
    assert violations(seen, plan, INVARIANTS) == []
    for at in range(len(binds)):
        assert violations(seen, Plan(tuple(np.delete(np.array(binds, dtype=object), at))), INVARIANTS)
        elsewhere = next(bind.node for bind in binds if bind.node != binds[at].node)
        moved = [Bind(binds[at].pod, elsewhere) if number == at else bind for number, bind in enumerate(binds)]
        assert violations(seen, Plan(tuple(moved)), INVARIANTS)
