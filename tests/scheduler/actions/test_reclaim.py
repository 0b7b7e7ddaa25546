"""reclaim: evictions across queues up to the fair shares."""

from volcanopy.scheduler.model.plan import Evict, Nominate, SetPodGroup
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import config, decide, world

PROPORTION = "gang, conformance, proportion | predicates"


def moves(text: str, plugins: str, actions: str = "enqueue, allocate, reclaim") -> list[str]:
    return [str(effect) for effect in decide(text, plugins, actions).of(Evict, Nominate)]


def test_a_queue_reclaims_up_to_its_deserved_share() -> None:
    text = """
        node n1 cpu=4
        queue q1
        queue q2
        job a min=0 queue=q1: 4 x cpu=1 on=n1
        job b min=1 queue=q2: 4 x cpu=1
        """
    chosen = config(PROPORTION, "enqueue, allocate, reclaim")
    simulation = Simulation(world(text), chosen)
    plans = [[str(effect) for effect in plan.of(Evict, Nominate)] for plan in simulation.cycles(6)]
    assert plans[:2] == [
        ["evict a-3: reclaim", "nominate b-0 -> n1"],  # its minimum first
        ["evict a-2: reclaim", "nominate b-1 -> n1"],
    ]
    assert not any(plans[2:])


def test_a_gang_reclaims_its_minimum_at_once() -> None:
    text = "node n1 cpu=4\nqueue q1\nqueue q2\njob a min=0 queue=q1: 4 x cpu=1 on=n1\njob b min=2 queue=q2: 2 x cpu=1"
    assert moves(text, PROPORTION) == [
        "evict a-3: reclaim",
        "evict a-2: reclaim",
        "nominate b-0 -> n1",
        "nominate b-1 -> n1",
    ]


def test_a_gang_above_the_share_of_its_queue_reclaims_nothing() -> None:
    text = "node n1 cpu=4\nqueue q1\nqueue q2\njob a min=0 queue=q1: 4 x cpu=1 on=n1\njob b min=3 queue=q2: 3 x cpu=1"
    assert moves(text, PROPORTION) == []


def test_a_queue_that_is_not_reclaimable_has_no_victims() -> None:
    text = "node n1 cpu=2\nqueue q1 unreclaimable\nqueue q2\njob a min=0 queue=q1: 2 x cpu=1 on=n1\njob b queue=q2: 1 x cpu=1"
    assert moves(text, PROPORTION) == []


def test_a_job_within_the_fair_share_is_admitted_before_reclaim() -> None:
    """The cluster is full, but half of it is deserved by the other queue."""
    text = """
        node n1 cpu=4
        queue q1
        queue q2
        job a min=0 queue=q1: 4 x cpu=1 on=n1
        job b min=2 queue=q2 phase=Pending minres.cpu=2: 2 x cpu=1
        job c min=2 queue=q2 phase=Pending minres.cpu=2
        """
    made = decide(text, "gang, conformance, proportion, overcommit | predicates", "enqueue, allocate, reclaim")
    phases = {effect.pod_group: effect.phase for effect in made.of(SetPodGroup)}
    assert phases["default/b"] == "Inqueue"
    assert phases["default/c"] == "Pending"
    assert len(made.of(Evict)) == 2


def test_without_evicting_actions_a_full_cluster_admits_no_job_above_its_share() -> None:
    text = "node n1 cpu=4\nqueue q1\nqueue q2\njob a min=0 queue=q1: 4 x cpu=1 on=n1\njob b min=3 queue=q2 phase=Pending minres.cpu=3"
    made = decide(text, "gang, proportion, overcommit | predicates", "enqueue, allocate")
    assert {effect.pod_group: effect.phase for effect in made.of(SetPodGroup)}["default/b"] == "Pending"


def test_a_job_is_admitted_when_it_can_preempt_in_its_queue() -> None:
    text = "class high value=9\nnode n1 cpu=4\njob a min=0: 4 x cpu=1 on=n1\njob b min=2 priority=high phase=Pending minres.cpu=2"
    made = decide(text, "priority, gang | overcommit, predicates", "enqueue, allocate, preempt")
    assert {effect.pod_group: effect.phase for effect in made.of(SetPodGroup)}["default/b"] == "Inqueue"


def test_two_queues_do_not_evict_each_other_for_ever() -> None:
    """Tasks of three do not divide four: a queue below its share could reclaim at once, so nothing is evicted."""
    text = """
        node n1 cpu=6
        queue q1 deserved.cpu=4
        queue q2 deserved.cpu=2
        job a min=0 queue=q1: 2 x cpu=3 on=n1
        job b min=0 queue=q2: 2 x cpu=2
        """
    simulation = Simulation(
        world(text), config("gang, conformance, capacity | predicates", "enqueue, allocate, reclaim")
    )
    plans = list(simulation.cycles(6))
    assert not plans[-1].of(Evict, Nominate)
