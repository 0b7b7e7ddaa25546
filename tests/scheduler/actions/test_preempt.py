"""preempt: who makes room for whom within a queue."""

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Evict, Nominate
from volcanopy.testing.notation import config, decide, plan, snapshot, world

PLUGINS = "priority, gang, conformance | predicates, binpack"
HIGH = "class high value=9\nclass low value=1\n"


def moves(text: str, plugins: str = PLUGINS, actions: str = "enqueue, allocate, preempt") -> list[str]:
    return [str(effect) for effect in decide(HIGH + text, plugins, actions).of(Evict, Nominate)]


def test_a_less_important_pod_makes_room_and_the_room_is_kept() -> None:
    assert moves("node n1 cpu=2\njob a min=1: 2 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1") == [
        "evict a-1: preempt",
        "nominate b-0 -> n1",
    ]


def test_nobody_leaves_for_a_gang_that_cannot_start_all_the_same() -> None:
    """Two of three would fit if both pods left; the third never does."""
    assert moves("node n1 cpu=2\njob a min=0: 2 x cpu=1 on=n1\njob b min=3 priority=high: 3 x cpu=1") == []


def test_nobody_leaves_for_a_pod_whose_node_refuses_it_all_the_same() -> None:
    text = "node n1 cpu=2 taint=t:NoSchedule\njob a min=0: 2 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
    assert moves(text) == []


def test_who_holds_the_wanted_port_leaves_and_nobody_else() -> None:
    text = (
        "node n1 cpu=4\njob a min=0: 1 x cpu=1 on=n1, 1 x cpu=1 port=80 on=n1\njob b priority=high: 1 x cpu=1 port=80"
    )
    assert moves(text) == ["evict a-1: preempt", "nominate b-0 -> n1"]


def test_the_least_important_leave_first_wherever_they_are() -> None:
    text = """
        class mid value=5
        node n1 cpu=1
        node n2 cpu=1
        job a min=0 priority=mid: 1 x cpu=1 on=n1
        job c min=0 priority=low: 1 x cpu=1 on=n2
        job b priority=high: 1 x cpu=1
        """
    assert moves(text) == ["evict c-0: preempt", "nominate b-0 -> n2"]


def test_of_equally_important_pods_the_one_that_loses_least_work_leaves() -> None:
    text = "node n1 cpu=2\njob old min=0: 1 x cpu=1 on=n1\njob young min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
    assert moves(text) == ["evict young-0: preempt", "nominate b-0 -> n1"]


def test_small_pods_stay_when_a_larger_one_must_leave_anyway() -> None:
    """Cheapest first would send the small one as well; with the large one gone it can stay."""
    text = "node n1 cpu=3\njob big min=0: 1 x cpu=2 on=n1\njob small min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=2"
    assert moves(text) == ["evict big-0: preempt", "nominate b-0 -> n1"]


def test_free_room_is_used_before_anyone_leaves() -> None:
    text = "node n1 cpu=1\nnode n2 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b min=2 priority=high: 2 x cpu=1"
    assert moves(text) == ["evict a-0: preempt", "nominate b-0 -> n2", "nominate b-1 -> n1"]


def test_a_pod_that_says_so_is_never_a_victim() -> None:
    text = "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1 note.volcanopy.io/preemptable=false\njob b priority=high: 1 x cpu=1"
    assert moves(text) == []


def test_room_that_a_terminating_pod_frees_is_waited_for_and_nobody_else_leaves() -> None:
    text = "node n1 cpu=2\njob a min=0: 1 x cpu=1 on=n1, 1 x cpu=1 on=n1 releasing\njob b priority=high: 1 x cpu=1"
    assert moves(text) == ["nominate b-0 -> n1"]


def test_a_pod_that_never_preempts_waits() -> None:
    objects = [
        replace(thing, spec=replace(thing.spec, preemption_policy="Never"))
        if isinstance(thing, core.Pod) and thing.metadata.name == "b-0"
        else thing
        for thing in world(HIGH + "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1")
    ]
    made = schedule(snapshot("", objects), config(PLUGINS, "preempt"))
    assert made.of(Evict) == []


def test_equals_do_not_displace_each_other() -> None:
    assert moves("node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b: 1 x cpu=1") == []


def test_a_gang_is_not_pushed_below_its_minimum_where_gang_has_a_say() -> None:
    assert moves("node n1 cpu=2\njob a min=2 priority=low: 2 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1") == []


def test_an_important_task_takes_the_room_of_a_lesser_one_of_its_own_job() -> None:
    text = """
        node n1 cpu=2
        job a min=1: 2 x cpu=1 on=n1 role=w note.volcanopy.io/task-priority=1, 1 x cpu=1 role=m note.volcanopy.io/task-priority=5
        """
    assert moves(text, "priority | predicates") == ["evict a-w-1: preempt", "nominate a-m-0 -> n1"]
    assert moves(text, "priority | gang, predicates") == ["evict a-w-1: preempt", "nominate a-m-0 -> n1"]
    assert moves(text) == []  # with gang in the first tier a job that has its minimum lacks nothing


def test_a_task_does_not_take_the_room_of_an_equal_of_its_own_job() -> None:
    """pdb alone lets anybody leave: the job would go on exchanging its tasks for each other."""
    text = "node n1 cpu=1\njob a min=2: 1 x cpu=1 on=n1, 1 x cpu=1 role=m"
    assert moves(text, "pdb | predicates") == []


def test_a_job_of_another_queue_is_left_alone() -> None:
    text = "queue q\nnode n1 cpu=1\njob a min=0 queue=q: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
    assert moves(text) == []


def test_what_an_eviction_is_for_is_told() -> None:
    made = decide(
        HIGH + "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1", PLUGINS, "preempt"
    )
    (evict,) = made.of(Evict)
    assert (evict.group, evict.preemptor) == ("default/a", "default/b")
    assert evict.message == 'preempt: evicted for job "default/b"'


def test_kept_room_is_given_to_its_owner_before_all_others() -> None:
    made = plan(HIGH + "node n1 cpu=2\njob first priority=high: 2 x cpu=1\njob owner: 2 x cpu=1 nominated=n1", PLUGINS)
    assert made.lines[:2] == ["bind owner-0 -> n1", "bind owner-1 -> n1"]


def test_room_that_is_still_being_freed_stays_kept_without_a_word() -> None:
    text = "node n1 cpu=2\njob a min=0: 2 x cpu=1 on=n1 releasing\njob b: 2 x cpu=1 nominated=n1\njob c: 1 x cpu=1"
    assert moves(text) == []


def test_a_promise_that_cannot_be_kept_any_more_is_taken_back() -> None:
    text = "node n1 cpu=1\nnode n2 cpu=1\njob b min=3: 1 x cpu=1 nominated=n1, 2 x cpu=1\njob c: 1 x cpu=1"
    made = plan(HIGH + text, PLUGINS).lines
    assert made[:2] == ["bind c-0 -> n1", "nominate b-0 -> nowhere"]
