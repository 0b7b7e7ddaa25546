"""Borrowing and lending limits, reclaim and guarantees in trees of queues."""

import json
from typing import Any

import pytest

from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.invariants.check import violations
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Plan
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.enforced_invariants import enforced_invariants
from volcanopy_testing.notation import config, snapshot

CAPACITY, PROPORTION = "gang, capacity, predicates", "gang, proportion, predicates"
CHAIN = "enqueue, allocate, reclaim"


def in_a_tree(plugin: str, actions: str = CHAIN, **arguments: Any) -> SchedulerConfig:
    entry = {"name": plugin, "enableHierarchy": plugin != "proportion", "arguments": arguments}
    tiers = [{"plugins": [{"name": "gang"}, entry]}, {"plugins": [{"name": "predicates"}]}]
    return parse(json.dumps({"actions": actions, "tiers": tiers}), builtin())


def decided(text: str, plugins: str | SchedulerConfig) -> Plan:
    """Return the plan, and check that it is valid."""
    conf = config(plugins, CHAIN)
    seen = snapshot(text)
    made = schedule(seen, conf)
    assert violations(seen, made, enforced_invariants(conf)) == []
    return made


def bound(made: Plan) -> dict[str, int]:
    """Return the number of bound pods by job."""
    groups = [effect.group.rpartition("/")[2] for effect in made.of(Bind)]
    return {group: groups.count(group) for group in sorted(set(groups))}


def evicted(made: Plan) -> dict[str, int]:
    groups = [effect.group.rpartition("/")[2] for effect in made.of(Evict)]
    return {group: groups.count(group) for group in sorted(set(groups))}


def explanation(made: Plan, job: str) -> Explain:
    result: Explain = next(effect for effect in made.of(Explain) if effect.job == f"default/{job}")
    return result


# Borrowing


@pytest.mark.parametrize(("limit", "held"), [("", 10), ("borrow.cpu=0", 4), ("borrow.cpu=3", 7), ("borrow.gpu=1", 10)])
def test_a_queue_borrows_up_to_its_borrowing_limit(limit: str, held: int) -> None:
    text = (
        f"node n1 cpu=10 gpu=1\nqueue q deserved.cpu=4 {limit}\nqueue r deserved.cpu=6\njob a min=1 queue=q: 12 x cpu=1"
    )
    assert bound(decided(text, CAPACITY)) == {"a": held}


def test_the_message_states_the_borrowing_limit() -> None:
    made = decided("node n1 cpu=10\nqueue q deserved.cpu=4 borrow.cpu=2\njob a min=1 queue=q: 8 x cpu=1", CAPACITY)
    why = explanation(made, "a")
    assert (why.gate, str(why.message)) == (
        "capability",
        'queue "q" borrowing limit exceeded: cpu requested 1, allocated 6, fair share 4, borrowingLimit 2',
    )
    assert (why.amounts["fairShare"], why.amounts["borrowingLimit"]["cpu"]) == ({"cpu": "4"}, "2")
    text = "node n1 cpu=10\nqueue q deserved.cpu=4 borrow.cpu=2\njob a phase=Pending minres.cpu=7 queue=q:"
    message = str(explanation(decided(text, CAPACITY), "a").message)
    assert message == 'queue "q" borrowing limit exceeded: cpu requested 7, allocated 0, fair share 4, borrowingLimit 2'


def test_a_job_of_a_queue_without_a_share_waits_for_nodes_and_not_for_a_share() -> None:
    """The queue deserves nothing, so it is always over its share: what the job lacks is a node."""
    running = "node n1 cpu=4\nnode n2 cpu=4\nqueue q\nqueue r\njob b queue=r: 1 x cpu=3 on=n1, 1 x cpu=3 on=n2\n"
    why = explanation(decided(f"{running}job a queue=q: 1 x cpu=3", CAPACITY), "a")
    assert (why.gate, str(why.message)) == ("nodes", "0/2 nodes are available: 2 Insufficient cpu")
    with_share = running.replace("queue q", "queue q deserved.cpu=2")
    assert explanation(decided(f"{with_share}job a queue=q: 1 x cpu=3", CAPACITY), "a").gate == "share"


@pytest.mark.parametrize(("words", "held"), [("", 18), ("borrow.cpu=2", 8), ("deserved.cpu=3 borrow.cpu=2", 5)])
def test_a_borrowing_limit_is_relative_to_the_share_by_weight(words: str, held: int) -> None:
    """Of 18 cpus the shares of q, r and default by weight are 6 each if all request; as the others are idle, q could use all."""
    text = f"node n1 cpu=18\nqueue q {words}\nqueue r\njob a min=1 queue=q: 20 x cpu=1"
    assert bound(decided(text, PROPORTION)) == {"a": held}
    text = f"node n1 cpu=18\nqueue root\nqueue q {words}\nqueue r\njob a min=1 queue=q: 20 x cpu=1"
    assert bound(decided(text, in_a_tree("drf"))) == {"a": held}


def test_a_subtree_borrows_within_the_limit_of_its_parent() -> None:
    text = """
        node n1 cpu=20
        queue root
        queue team parent=root deserved.cpu=6 borrow.cpu=2
        queue lab  parent=team deserved.cpu=3
        queue desk parent=team deserved.cpu=3
        job a min=1 queue=lab: 9 x cpu=1
        job b min=1 queue=desk: 9 x cpu=1
    """
    for plugin in ("capacity", "proportion", "drf"):
        made = decided(text, in_a_tree(plugin))
        assert sum(bound(made).values()) == 8, plugin
        message = 'queue "team" borrowing limit exceeded: cpu requested 1, allocated 8, fair share 6, borrowingLimit 2'
        assert (
            message in str(explanation(made, "a").message) or plugin == "proportion"
        )  # there its share ends before that


# Lending


@pytest.mark.parametrize(("limit", "held"), [("", 10), ("lend.cpu=6", 10), ("lend.cpu=2", 6), ("lend.cpu=0", 4)])
def test_an_idle_queue_lends_up_to_its_lending_limit(limit: str, held: int) -> None:
    text = f"node n1 cpu=10\nqueue q deserved.cpu=4\nqueue r deserved.cpu=6 {limit}\njob a min=1 queue=q: 12 x cpu=1"
    assert bound(decided(text, CAPACITY)) == {"a": held}
    assert bound(decided(text, PROPORTION)) == {"a": held}


def test_unlent_resources_are_available_without_reclaim() -> None:
    """Two cpus are free for r; it reclaims the third, also by weight."""
    text = """
        node n1 cpu=10
        queue q deserved.cpu=5
        queue r deserved.cpu=5 lend.cpu=3
        job a min=1 queue=q: 8 x cpu=1 on=n1
        job b min=1 queue=r: {}
    """
    assert bound(decided(text.format("2 x cpu=1"), CAPACITY)) == {"b": 2}
    later = decided(text.format("1 x cpu=3"), CAPACITY)
    assert (bound(later), evicted(later)) == ({}, {"a": 1})


def test_unlent_resources_are_not_reclaimed() -> None:
    """r has five cpus allocated, of which four are not lent; q is below its share, but reclaims only one."""
    text = """
        node n1 cpu=10
        queue q deserved.cpu=10
        queue r deserved.cpu=4 lend.cpu=0
        job a min=1 queue=q: 5 x cpu=1 on=n1
        job b min=0 queue=r: 5 x cpu=1 on=n1
        job c min=1 queue=q: 1 x cpu=1
        job d min=1 queue=q: 1 x cpu=1
    """
    assert evicted(decided(text, CAPACITY)) == {"b": 1}


def test_unlent_resources_of_a_leaf_are_reserved_in_its_ancestors() -> None:
    text = """
        node n1 cpu=10
        queue root
        queue team  parent=root deserved.cpu=6
        queue lab   parent=team deserved.cpu=3 lend.cpu=1
        queue other parent=root deserved.cpu=4
        job o min=1 queue=other: 12 x cpu=1
    """
    for plugin in ("capacity", "proportion", "drf"):
        assert bound(decided(text, in_a_tree(plugin))) == {"o": 8}, plugin


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_a_guarantee_is_never_lent(plugin: str) -> None:
    text = """
        node n1 cpu=10
        queue root
        queue team parent=root guarantee.cpu=4 deserved.cpu=4
        queue lab  parent=team guarantee.cpu=3 deserved.cpu=3
        queue desk parent=team deserved.cpu=1
        queue other parent=root deserved.cpu=6
        job o min=1 queue=other: 12 x cpu=1
        job d min=1 queue=desk: 12 x cpu=1
    """
    made = decided(text, in_a_tree(plugin))
    assert bound(made) == ({"d": 1, "o": 6} if plugin == "capacity" else {"d": 2, "o": 5})
    assert explanation(made, "d").gate in {"capability", "share"}


def test_several_queues_together_respect_reservations_of_another() -> None:
    text = "node n1 cpu=10\nqueue g guarantee.cpu=4\nqueue q\nqueue r\n"
    made = decided(text + "job a min=1 queue=q: 5 x cpu=1\njob b min=1 queue=r: 5 x cpu=1", CAPACITY)
    assert sum(bound(made).values()) == 6


# Shares at every level


def test_the_share_of_an_idle_queue_goes_to_its_siblings_first() -> None:
    """Of 12, team deserves 8 and other 4; lab is idle, so desk uses the whole share of team, and other its own."""
    text = """
        node n1 cpu=12
        queue root
        queue team  parent=root weight=2
        queue lab   parent=team weight=3
        queue desk  parent=team weight=1
        queue other parent=root weight=1
        job d min=1 queue=desk: 20 x cpu=1
        job o min=1 queue=other: 20 x cpu=1
    """
    assert bound(decided(text, in_a_tree("proportion"))) == {"d": 8, "o": 4}
    claims = text.replace("weight=2", "deserved.cpu=8").replace("weight=3", "deserved.cpu=6")
    claims = claims.replace("desk  parent=team weight=1", "desk parent=team deserved.cpu=2").replace(
        "root weight=1", "root deserved.cpu=4"
    )
    assert bound(decided(claims, in_a_tree("capacity"))) == {"d": 8, "o": 4}


NESTED = """
    node n1 cpu=12
    queue root
    queue team  parent=root weight=2 deserved.cpu=8
    queue lab   parent=team weight=1 deserved.cpu=4
    queue desk  parent=team weight=1 deserved.cpu=4
    queue other parent=root weight=1 deserved.cpu=4
    job d min=0 queue=desk: {desk} x cpu=1 on=n1
    job o min=0 queue=other: {other} x cpu=1 on=n1
    job l min=1 queue=lab: 2 x cpu=1
"""


@pytest.mark.parametrize("plugin", ["proportion", "capacity", "drf"])
@pytest.mark.parametrize(("desk", "other", "loser"), [(8, 4, "d"), (4, 8, "o")], ids=["a sibling", "the other branch"])
def test_reclaim_takes_from_the_subtree_above_its_share(plugin: str, desk: int, other: int, loser: str) -> None:
    made = decided(NESTED.format(desk=desk, other=other), in_a_tree(plugin))
    assert evicted(made) == {loser: 1}


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_subtree_within_its_share_has_no_victims(plugin: str) -> None:
    """desk borrows from its sibling lab; together they are within the share of team, so other does not reclaim."""
    text = """
        node n1 cpu=12
        queue root
        queue team  parent=root weight=2 deserved.cpu=8
        queue lab   parent=team weight=1 deserved.cpu=4
        queue desk  parent=team weight=1 deserved.cpu=4
        queue more  parent=root weight=1 deserved.cpu=3
        queue other parent=root weight=1 deserved.cpu=3
        job d min=0 queue=desk: 6 x cpu=1 on=n1
        job m min=0 queue=more: 6 x cpu=1 on=n1 note.volcanopy.io/preemptable=false
        job l min=0 queue=lab: 5 x cpu=1 gated
        job o min=1 queue=other: 2 x cpu=1
    """
    assert evicted(decided(text, in_a_tree(plugin))) == {}


def test_own_jobs_of_a_parent_queue_count_as_one_child_of_weight_one() -> None:
    text = """
        node n1 cpu=12
        queue root
        queue team parent=root
        queue lab  parent=team weight=3
        job t min=1 queue=team: 20 x cpu=1
        job l min=1 queue=lab: 20 x cpu=1
    """
    assert bound(decided(text, in_a_tree("proportion"))) == {"l": 9, "t": 3}


def test_queues_with_cyclic_parents_have_no_tree() -> None:
    text = """
        node n1 cpu=12
        queue root
        queue a parent=b
        queue b parent=a
        queue c parent=a
        queue d parent=team
        queue team
        job a min=1 queue=a: 20 x cpu=1
        job b min=1 queue=b: 20 x cpu=1
        job c min=1 queue=c: 20 x cpu=1
        job d min=1 queue=d: 20 x cpu=1
    """
    assert bound(decided(text, in_a_tree("proportion"))) == {"a": 3, "b": 3, "c": 3, "d": 3}


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
@pytest.mark.parametrize(("words", "bound_to"), [("fifo", {}), ("", {"b": 1})])
def test_fifo_queues_in_a_tree(plugin: str, words: str, bound_to: dict[str, int]) -> None:
    text = f"""
        node n1 cpu=4
        queue root
        queue team parent=root
        queue lab parent=team {words}
        job a queue=lab: 5 x cpu=1
        job b queue=lab: 1 x cpu=1
    """
    assert bound(decided(text, in_a_tree(plugin))) == bound_to


def test_a_gang_that_must_be_repacked_borrows() -> None:
    """Its smallest pod has to share a node with one of the others, and its queue has no share of its own."""
    text = """
        node a cpu=2
        node b cpu=4
        node c cpu=3
        job mixed: 1 x cpu=1 role=leader, 4 x cpu=2 role=worker
        """
    assert bound(decided(text, CAPACITY)) == {"mixed": 5}
