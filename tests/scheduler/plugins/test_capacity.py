"""capacity: fair shares, limits and victims of reclaim."""

import json
from typing import Any

import pytest

from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.plan import Bind, Evict, SetPodGroup
from volcanopy.scheduler.policies.quota.capacity import Capacity, CapacityArguments
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy.scheduler.policy.roles import Purpose
from volcanopy_testing.notation import decide, snapshot


def capacity(text: str, hierarchy: bool = False, level: int = 0) -> Capacity:
    return Capacity(CapacityArguments(level=level), Cluster(Ledger(snapshot(text))), hierarchy)


def in_a_tree(actions: str = "enqueue, allocate, reclaim", **arguments: Any) -> SchedulerConfig:
    entry = {"name": "capacity", "enableHierarchy": True, "arguments": arguments}
    tiers = [{"plugins": [{"name": "gang"}, entry]}, {"plugins": [{"name": "predicates"}]}]
    return parse(json.dumps({"actions": actions, "tiers": tiers}), builtin())


@pytest.mark.parametrize(
    ("guarantee", "size", "victims"),
    [("", 2, 1), ("", 3, 1), (" guarantee.cpu=5", 2, 0)],
    ids=["down to what is deserved", "by one task below it at most", "not below the guarantee"],
)
def test_a_queue_above_its_fair_share_has_victims(guarantee: str, size: int, victims: int) -> None:
    """Six cpus are allocated, four are deserved."""
    text = f"""
        node n1 cpu=20
        queue v deserved.cpu=4{guarantee}
        queue w deserved.cpu=8
        job a queue=v min=0: {6 // size} x cpu={size} on=n1
        job b queue=w: 1 x cpu=1
        """
    plugin = capacity(text)
    tasks = {
        plugin.cluster.task(row).key: plugin.cluster.task(row) for row in range(len(plugin.cluster.snapshot.tasks))
    }
    candidates = [task for key, task in sorted(tasks.items()) if "/a-" in key]
    rules = ShareRules(plugin, plugin.cluster)
    assert len(rules.allows(tasks["default/b-0"], candidates, Purpose.RECLAIM) or ()) == victims


@pytest.mark.parametrize(("words", "may"), [("cpu=1 memory=1Gi", True), ("memory=1Gi", False)])
def test_one_resource_within_the_fair_share_suffices_to_reclaim(words: str, may: bool) -> None:
    text = f"""
        node n1 cpu=20 memory=64Gi
        queue q deserved.cpu=4 deserved.memory=8Gi
        job a queue=q: 1 x cpu=3 memory=9Gi on=n1
        job b queue=q: 1 x {words}
        """
    plugin = capacity(text)
    task = plugin.cluster.task(plugin.cluster.snapshot.task_rows["default/b-0"])
    rules = ShareRules(plugin, plugin.cluster)
    assert rules.may_reclaim(plugin.cluster.queue(plugin.cluster.snapshot.queues.index["q"]), [task]) is may


def test_a_queue_borrows_idle_resources_up_to_its_capability() -> None:
    made = decide(
        "node n1 cpu=8\nqueue q deserved.cpu=2 capability.cpu=5\njob a min=1 queue=q: 8 x cpu=1",
        "gang, capacity, predicates",
    )
    assert len(made.of(Bind)) == 5
    assert 'explain a [capability]: queue "q" capability exceeded: cpu requested 1, allocated 5, capability 5' in str(
        made
    )


def test_guarantees_of_idle_queues_stay_free() -> None:
    made = decide(
        "node n1 cpu=8\nqueue q\nqueue g guarantee.cpu=3\njob a min=1 queue=q: 8 x cpu=1", "gang, capacity, predicates"
    )
    assert len(made.of(Bind)) == 5


TREE = """
    node n1 cpu=16
    queue root
    queue team parent=root capability.cpu=6 deserved.cpu=6
    queue lab parent=team deserved.cpu=4
    queue desk parent=team deserved.cpu=2
    queue other parent=root deserved.cpu=10
    """


def test_allocations_of_leaf_queues_count_for_their_ancestors() -> None:
    made = decide(TREE + "job a min=1 queue=lab: 4 x cpu=1\njob b min=1 queue=desk: 4 x cpu=1", in_a_tree())
    assert len(made.of(Bind)) == 6


@pytest.mark.parametrize("queue", ["team", "root", "lost", "round"])
def test_only_leaf_queues_take_jobs(queue: str) -> None:
    text = (
        TREE
        + f"""
    queue lost parent=nowhere
    queue round parent=ring
    queue ring parent=round
    job a queue={queue}: 1 x cpu=1
    job b queue=lab: 1 x cpu=1
    """
    )
    made = decide(text, in_a_tree())
    assert [effect.pod for effect in made.of(Bind)] == ["default/b-0"]


def test_sibling_queues_are_reclaimed_from_first() -> None:
    """Both desk and other exceed their fair share; desk belongs to the same team."""
    text = (
        TREE
        + """
    job d min=0 queue=desk: 6 x cpu=1 on=n1
    job o min=0 queue=other: 12 x cpu=1 on=n1
    job l queue=lab: 1 x cpu=1
    """
    )
    made = decide(text.replace("cpu=16", "cpu=18"), in_a_tree())
    assert [effect.group for effect in made.of(Evict)] == ["default/d"]


def test_a_job_waits_for_admission_while_the_parent_is_fully_reserved() -> None:
    text = (
        TREE
        + """
    job a queue=lab phase=Pending minres.cpu=4
    job b queue=desk phase=Pending minres.cpu=3
    """
    )
    phases = {effect.pod_group: effect.phase for effect in decide(text, in_a_tree()).of(SetPodGroup)}
    assert (phases["default/a"], phases["default/b"]) == ("Inqueue", "Pending")


def test_queues_are_ordered_by_the_shares_of_their_ancestors() -> None:
    plugin = capacity(TREE + "job a queue=other: 5 x cpu=1 on=n1\njob b queue=lab: 1 x cpu=1 on=n1", hierarchy=True)
    queues = [
        plugin.cluster.queue(row)
        for name, row in plugin.cluster.snapshot.queues.index.items()
        if name in {"lab", "desk", "other"}
    ]
    assert [queue.name for queue in sorted(queues, key=plugin.queue)] == ["desk", "lab", "other"]


def test_of_equal_shares_a_queue_without_deserved_resources_is_last() -> None:
    plugin = capacity("node n1 cpu=4\nqueue a\nqueue b deserved.cpu=2\njob x queue=b: 1 x cpu=2 on=n1")
    queues = [plugin.cluster.queue(plugin.cluster.snapshot.queues.index[name]) for name in ("a", "b")]
    assert [queue.name for queue in sorted(queues, key=plugin.queue)] == ["b", "a"]


def test_guarantees_of_idle_queues_stay_free_in_a_tree() -> None:
    text = """
        node n1 cpu=10
        queue root
        queue idle parent=root guarantee.cpu=4
        queue busy parent=root
        job a min=0 queue=busy: 10 x cpu=1
        """
    assert len(decide(text, in_a_tree("allocate")).of(Bind)) == 6


def test_a_job_larger_than_the_cluster_may_be_admitted_in_a_tree_as_the_cluster_may_grow() -> None:
    text = "node n1 cpu=10\nqueue root\nqueue q parent=root\njob a queue=q phase=Pending minres.cpu=20:"
    assert [effect.phase for effect in decide(text, in_a_tree("enqueue")).of(SetPodGroup)] == ["Inqueue"]


def test_a_guarantee_of_one_resource_does_not_protect_another() -> None:
    """Queue v has an unused guarantee of gpus; its borrowed cpus are reclaimed nevertheless."""
    text = """
        node n1 cpu=8 gpu=4
        queue v guarantee.gpu=4 deserved.cpu=2
        queue w deserved.cpu=6
        job a min=0 queue=v: 8 x cpu=1 on=n1
        job b min=0 queue=w: 1 x cpu=1
        """
    plugin = capacity(text.replace("guarantee.gpu", "guarantee.nvidia.com/gpu"))
    rows = plugin.cluster.snapshot.task_rows
    candidates = [plugin.cluster.task(rows[f"default/a-{number}"]) for number in range(8)]
    rules = ShareRules(plugin, plugin.cluster)
    assert len(rules.allows(plugin.cluster.task(rows["default/b-0"]), candidates, Purpose.RECLAIM) or ()) == 6
