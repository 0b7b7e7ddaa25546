"""gangreclaim: bundles of victims across queues for a whole gang."""

from dataclasses import replace

import pytest

from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Nominate, SetPodGroup
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, decide, world

PROPORTION = "priority, gang, conformance, proportion | predicates"
CHAIN = "enqueue, allocate, gangreclaim"
TWO = "queue q1\nqueue q2\n"


def capacity(tree: bool = False) -> SchedulerConfig:
    made = config("gang, conformance, capacity | predicates", CHAIN)
    if not tree:
        return made
    first, second = made.tiers
    return replace(
        made, tiers=(tuple(replace(item, hierarchy=item.plugin.name == "capacity") for item in first), second)
    )


def moves(text: str, plugins: str | SchedulerConfig = PROPORTION, actions: str = CHAIN) -> list[str]:
    return [str(effect) for effect in decide(text, plugins, actions).of(Evict, Nominate)]


def evicted(text: str, plugins: str | SchedulerConfig = PROPORTION, actions: str = CHAIN) -> list[str]:
    return sorted(line.split()[1].rstrip(":") for line in moves(text, plugins, actions) if line.startswith("evict"))


def why(text: str, job: str, plugins: str | SchedulerConfig = PROPORTION) -> str:
    explains = {effect.job: effect for effect in decide(text, plugins, CHAIN).of(Explain)}
    explain: Explain = explains[f"default/{job}"]
    return explain.message


def test_a_rigid_gang_is_reclaimed_as_a_whole() -> None:
    """Reclaim never breaks a gang: without gangreclaim its borrowed resources could not be reclaimed."""
    text = f"{TWO}node n1 cpu=4\njob a queue=q1: 2 x cpu=1 on=n1\njob c queue=q1: 2 x cpu=1 on=n1\njob b queue=q2: 2 x cpu=1"
    assert moves(text) == [
        "evict c-1: gangreclaim",
        "evict c-0: gangreclaim",
        "nominate b-0 -> n1",
        "nominate b-1 -> n1",
    ]
    assert moves(text, actions="enqueue, allocate, reclaim") == []


def test_surplus_pods_are_evicted_before_a_gang_breaks() -> None:
    text = f"{TWO}node n1 cpu=4\njob a queue=q1 min=1: 2 x cpu=1 on=n1\njob c queue=q1: 2 x cpu=1 on=n1\njob b queue=q2: 1 x cpu=1"
    assert evicted(text) == ["a-1"]


def test_a_gang_is_not_evicted_far_below_the_deserved_share() -> None:
    """The fair share of the queue is two of four; its only gang has four pods."""
    text = f"{TWO}node n1 cpu=4\njob a queue=q1: 4 x cpu=1 on=n1\njob b queue=q2: 2 x cpu=1"
    assert moves(text) == []
    assert why(text, "b").endswith('waits until queue "q2" has more credit')


def test_a_gang_above_the_fair_share_reclaims_nothing() -> None:
    """One of its pods is within the share, the gang exceeds it."""
    text = f"{TWO}node n1 cpu=4\njob a queue=q1 min=0: 4 x cpu=1 on=n1\njob b queue=q2: 3 x cpu=1"
    assert moves(text) == []
    assert why(text, "b").endswith('gangreclaim: not eligible to reclaim: request exceeds the fair share of queue "q2"')


def test_a_queue_at_its_fair_share_does_not_reclaim() -> None:
    text = f"{TWO}node n1 cpu=4\njob a queue=q1 min=0: 2 x cpu=1 on=n1\njob c queue=q2: 2 x cpu=1 on=n1\njob b queue=q2: 1 x cpu=1"
    assert moves(text) == []


@pytest.mark.parametrize(
    ("world_of", "kept"),
    [
        ("queue q1 unreclaimable\nqueue q2\nnode n1 cpu=2\njob a queue=q1 min=0: 2 x cpu=1 on=n1", "the queue"),
        (
            "queue q1\nqueue q2\nnode n1 cpu=2\njob a queue=q1 min=0 note.volcanopy.io/preemptable=false: 2 x cpu=1 on=n1",
            "the job",
        ),
        (
            "queue q1\nqueue q2\nnode n1 cpu=2\njob a queue=q1 min=0: 2 x cpu=1 on=n1 note.volcanopy.io/preemptable=false",
            "the pods",
        ),
        ("queue q1\nqueue q2\nnode n1 cpu=2\njob a queue=q1 min=0: 2 x cpu=1 on=n1 bound", "pods that do not run yet"),
        ("queue q1 guarantee.cpu=2\nqueue q2\nnode n1 cpu=2\njob a queue=q1 min=0: 2 x cpu=1 on=n1", "the guarantee"),
    ],
)
def test_protected_pods_are_not_evicted(world_of: str, kept: str) -> None:
    assert moves(f"{world_of}\njob b queue=q2: 1 x cpu=1") == [], kept


def test_budgets_are_respected() -> None:
    text = f"{TWO}node n1 cpu=2\njob a queue=q1 min=0: 2 x cpu=1 on=n1 label.app=a\njob b queue=q2: 1 x cpu=1\nbudget d allowed={{}} selector.app=a"
    assert evicted(text.format(1), f"{PROPORTION}, pdb") == ["a-1"]
    assert evicted(text.format(0), f"{PROPORTION}, pdb") == []


def test_capacity_reclaims_borrowed_resources_down_to_the_deserved_share() -> None:
    text = """
        queue q1 deserved.cpu=2
        queue q2 deserved.cpu=2
        node n1 cpu=4
        job a queue=q1 min=0: 4 x cpu=1 on=n1
        job b queue=q2 min={0}: {0} x cpu=1
        """
    assert evicted(text.format(2), capacity()) == ["a-2", "a-3"]
    assert evicted(text.format(3), capacity()) == []


def test_capacity_preserves_guarantees_in_the_whole_tree() -> None:
    text = """
        queue root
        queue top parent=root guarantee.cpu=2
        queue q1 parent=top
        queue q2 parent=root deserved.cpu=2
        node n1 cpu=2
        job a queue=q1 min=0: 2 x cpu=1 on=n1
        job b queue=q2: 1 x cpu=1
        """
    assert evicted(text, capacity(tree=True)) == []
    assert evicted(text.replace("guarantee.cpu=2", "guarantee.cpu=1"), capacity(tree=True)) == ["a-1"]


def test_the_last_queue_in_order_has_the_first_victims() -> None:
    text = """
        queue q1
        queue q2
        queue q3
        node n1 cpu=6
        job a queue=q1 min=0: 2 x cpu=1 on=n1
        job c queue=q2 min=0: 4 x cpu=1 on=n1
        job b queue=q3: 2 x cpu=1
        """
    assert evicted(text) == ["c-2", "c-3"]


def test_a_gang_with_required_topology_reclaims_a_rack() -> None:
    text = f"""
        {TWO}
        node n1 cpu=2
        node n2 cpu=2
        node n3 cpu=2
        node n4 cpu=2
        hypernode rack-1 tier=1: n1 n2
        hypernode rack-2 tier=1: n3 n4
        job a queue=q1 min=0: 2 x cpu=2 on=n1,n3
        job c queue=q1: 1 x cpu=2 on=n2
        job d queue=q1: 1 x cpu=2 on=n4
        job b queue=q2 topology=hard:1: 2 x cpu=2
        """
    made = moves(text)
    where = {line.split()[-1] for line in made if "nominate" in line}
    assert where in ({"n1", "n2"}, {"n3", "n4"})
    assert len(made) == 4


def test_a_hierarchical_drf_share_allows_reclaim() -> None:
    made = config("gang, conformance, drf | predicates", CHAIN)
    tree = replace(
        made, tiers=(tuple(replace(tier, hierarchy=tier.plugin.name == "drf") for tier in made.tiers[0]), made.tiers[1])
    )
    text = f"{TWO}node n1 cpu=4\njob a queue=q1 min=0: 4 x cpu=1 on=n1\njob b queue=q2 min={{0}}: {{0}} x cpu=1"
    assert evicted(text.format(1), tree) == ["a-3"]
    assert evicted(text.format(3), tree) == []


def test_a_job_within_the_fair_share_is_admitted_before_reclaim() -> None:
    text = f"{TWO}node n1 cpu=4\njob a min=0 queue=q1: 4 x cpu=1 on=n1\njob b min=2 queue=q2 phase=Pending minres.cpu=2: 2 x cpu=1"
    made = decide(text, f"{PROPORTION}, overcommit", CHAIN)
    assert {effect.pod_group: effect.phase for effect in made.of(SetPodGroup)}["default/b"] == "Inqueue"
    assert len(made.of(Evict)) == 2


def test_queues_do_not_evict_each_other_alternately() -> None:
    """Each queue is below its share of memory and above its share of cpu after reclaiming: without a check both would alternate."""
    text = """
        queue q1 deserved.cpu=2 deserved.memory=10Gi
        queue q2 deserved.cpu=1 deserved.memory=10Gi
        node n1 cpu=4
        job a queue=q1 min=0: 3 x cpu=1 memory=1Gi on=n1
        job c queue=q2 min=0: 1 x cpu=1 memory=1Gi on=n1
        job b queue=q2 min=1: 1 x cpu=1 memory=1Gi
        """
    chosen = config("priority, conformance, capacity | gang, predicates", CHAIN)
    made = decide(text, chosen, CHAIN)
    assert not made.of(Evict, Nominate)
    reason = {effect.job: effect.message for effect in made.of(Explain)}["default/b"]
    assert reason.endswith("gangreclaim: preemption rejected: victims could preempt back")


def test_a_victim_without_requests_cannot_evict_a_pod_with_requests() -> None:
    """It may only evict pods without requests: the eviction is not rejected since it could preempt back."""
    text = """
        queue q1
        queue q2
        node n1 cpu=4 pods=1
        job a queue=q1: 1 x on=n1
        job b queue=q2: 1 x cpu=1
        """
    assert [effect.pod for effect in decide(text, "priority, gang, predicates", CHAIN).of(Evict)] == ["default/a-0"]


def test_cycles_of_two_queues_become_stable() -> None:
    """The fair shares exceed the cluster in sum, so one queue is always below its share."""
    text = """
        queue q1 deserved.cpu=3
        queue q2 deserved.cpu=3
        node n1 cpu=5
        job a queue=q1: 3 x cpu=1 on=n1
        job c queue=q1 min=0: 2 x cpu=1 on=n1
        job b queue=q2: 3 x cpu=1
        """
    plans = list(Simulation(world(text), capacity()).cycles(6))
    assert not plans[-1].of(Bind, Evict, Nominate)
