"""reclaim: what queues take back from each other, and when not."""

from volcanopy.scheduler.model.plan import Evict, Nominate, SetPodGroup
from volcanopy.testing.cycles import Unfolding
from volcanopy.testing.notation import config, decide, world

PROPORTION = "gang, conformance, proportion | predicates"


def moves(text: str, plugins: str, actions: str = "enqueue, allocate, reclaim") -> list[str]:
    return [str(effect) for effect in decide(text, plugins, actions).of(Evict, Nominate)]


def test_a_queue_takes_back_what_it_deserves_and_no_more() -> None:
    text = """
        node n1 cpu=4
        queue q1
        queue q2
        job a min=0 queue=q1: 4 x cpu=1 on=n1
        job b min=1 queue=q2: 4 x cpu=1
        """
    assert moves(text, PROPORTION) == ["evict a-3: reclaim", "nominate b-0 -> n1"]


def test_a_gang_takes_back_its_minimum_at_once() -> None:
    text = "node n1 cpu=4\nqueue q1\nqueue q2\njob a min=0 queue=q1: 4 x cpu=1 on=n1\njob b min=2 queue=q2: 2 x cpu=1"
    assert moves(text, PROPORTION) == [
        "evict a-3: reclaim",
        "evict a-2: reclaim",
        "nominate b-0 -> n1",
        "nominate b-1 -> n1",
    ]


def test_a_gang_larger_than_the_share_of_its_queue_takes_nothing() -> None:
    text = "node n1 cpu=4\nqueue q1\nqueue q2\njob a min=0 queue=q1: 4 x cpu=1 on=n1\njob b min=3 queue=q2: 3 x cpu=1"
    assert moves(text, PROPORTION) == []


def test_a_queue_that_may_not_be_reclaimed_gives_nothing() -> None:
    text = "node n1 cpu=2\nqueue q1 unreclaimable\nqueue q2\njob a min=0 queue=q1: 2 x cpu=1 on=n1\njob b queue=q2: 1 x cpu=1"
    assert moves(text, PROPORTION) == []


def test_a_job_that_its_share_entitles_is_admitted_though_the_room_must_be_taken_back_first() -> None:
    """The cluster is full, so there is no room to promise; but half of it belongs to the other queue."""
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


def test_without_an_action_that_takes_room_back_a_full_cluster_admits_nobody() -> None:
    text = "node n1 cpu=4\nqueue q1\nqueue q2\njob a min=0 queue=q1: 4 x cpu=1 on=n1\njob b min=2 queue=q2 phase=Pending minres.cpu=2"
    made = decide(text, "gang, proportion, overcommit | predicates", "enqueue, allocate")
    assert {effect.pod_group: effect.phase for effect in made.of(SetPodGroup)}["default/b"] == "Pending"


def test_an_important_job_is_admitted_when_lesser_ones_of_its_queue_can_make_room() -> None:
    text = "class high value=9\nnode n1 cpu=4\njob a min=0: 4 x cpu=1 on=n1\njob b min=2 priority=high phase=Pending minres.cpu=2"
    made = decide(text, "priority, gang | overcommit, predicates", "enqueue, allocate, preempt")
    assert {effect.pod_group: effect.phase for effect in made.of(SetPodGroup)}["default/b"] == "Inqueue"


def test_two_queues_do_not_throw_each_other_out_for_ever() -> None:
    """Tasks of three do not divide four: a queue pushed below its share could take back at once, so nothing is moved."""
    text = """
        node n1 cpu=6
        queue q1 deserved.cpu=4
        queue q2 deserved.cpu=2
        job a min=0 queue=q1: 2 x cpu=3 on=n1
        job b min=0 queue=q2: 2 x cpu=2
        """
    unfolding = Unfolding(world(text), config("gang, conformance, capacity | predicates", "enqueue, allocate, reclaim"))
    plans = list(unfolding.cycles(6))
    assert not plans[-1].of(Evict, Nominate)
