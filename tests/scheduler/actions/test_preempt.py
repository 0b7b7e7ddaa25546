"""preempt: which tasks are evicted for which within a queue."""

from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Evict, Nominate
from volcanopy_testing.notation import config, decide, plan, snapshot, world

PLUGINS = "priority, gang, conformance | predicates, binpack"
HIGH = "class high value=9\nclass low value=1\n"


def moves(text: str, plugins: str = PLUGINS, actions: str = "enqueue, allocate, preempt") -> list[str]:
    return [str(effect) for effect in decide(HIGH + text, plugins, actions).of(Evict, Nominate)]


def test_a_lower_priority_pod_is_evicted_and_its_node_nominated() -> None:
    assert moves("node n1 cpu=2\njob a min=1: 2 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1") == [
        "evict a-1: preempt",
        "nominate b-0 -> n1",
    ]


def test_no_eviction_for_a_gang_that_still_cannot_start() -> None:
    """Two of three pods would fit after both evictions; the third never does."""
    assert moves("node n1 cpu=2\njob a min=0: 2 x cpu=1 on=n1\njob b min=3 priority=high: 3 x cpu=1") == []


def test_no_eviction_for_a_pod_that_the_node_still_rejects() -> None:
    text = "node n1 cpu=2 taint=t:NoSchedule\njob a min=0: 2 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
    assert moves(text) == []


def test_only_the_pod_with_the_conflicting_port_is_evicted() -> None:
    text = (
        "node n1 cpu=4\njob a min=0: 1 x cpu=1 on=n1, 1 x cpu=1 port=80 on=n1\njob b priority=high: 1 x cpu=1 port=80"
    )
    assert moves(text) == ["evict a-1: preempt", "nominate b-0 -> n1"]


def test_the_lowest_priority_is_evicted_first_on_any_node() -> None:
    text = """
        class mid value=5
        node n1 cpu=1
        node n2 cpu=1
        job a min=0 priority=mid: 1 x cpu=1 on=n1
        job c min=0 priority=low: 1 x cpu=1 on=n2
        job b priority=high: 1 x cpu=1
        """
    assert moves(text) == ["evict c-0: preempt", "nominate b-0 -> n2"]


def test_of_equal_priority_the_pod_with_least_lost_work_is_evicted() -> None:
    text = "node n1 cpu=2\njob old min=0: 1 x cpu=1 on=n1\njob young min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
    assert moves(text) == ["evict young-0: preempt", "nominate b-0 -> n1"]


def test_a_queue_evicts_no_more_for_its_own_jobs_so_that_resources_stay_free_for_another_queue() -> None:
    """The other queue is below its share, but nothing was free that it could claim."""
    text = """
        node n1 cpu=4
        queue q0
        queue q1
        job a min=0 queue=q0: 2 x cpu=2 on=n1
        job b queue=q0 priority=high: 1 x cpu=2
        job c queue=q1: 1 x cpu=1
        """
    assert moves(text, f"{PLUGINS}, proportion") == ["evict a-1: preempt", "nominate b-0 -> n1"]


def test_small_pods_are_restored_when_a_larger_one_is_evicted() -> None:
    """In order of cost the small pod is evicted first; after the eviction of the large pod it is restored."""
    text = "node n1 cpu=3\njob big min=0: 1 x cpu=2 on=n1\njob small min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=2"
    assert moves(text) == ["evict big-0: preempt", "nominate b-0 -> n1"]


def test_free_resources_are_used_before_evictions() -> None:
    text = "node n1 cpu=1\nnode n2 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b min=2 priority=high: 2 x cpu=1"
    assert moves(text) == ["evict a-0: preempt", "nominate b-0 -> n2", "nominate b-1 -> n1"]


def test_a_pod_that_is_not_preemptable_is_never_a_victim() -> None:
    text = "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1 note.volcanopy.io/preemptable=false\njob b priority=high: 1 x cpu=1"
    assert moves(text) == []


def test_a_terminating_pod_is_awaited_without_further_evictions() -> None:
    text = "node n1 cpu=2\njob a min=0: 1 x cpu=1 on=n1, 1 x cpu=1 on=n1 releasing\njob b priority=high: 1 x cpu=1"
    assert moves(text) == []


def test_a_pod_that_never_preempts_waits() -> None:
    objects = [
        replace(obj, spec=replace(obj.spec, preemption_policy="Never"))
        if isinstance(obj, core.Pod) and obj.metadata.name == "b-0"
        else obj
        for obj in world(HIGH + "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1")
    ]
    made = schedule(snapshot("", objects), config(PLUGINS, "preempt"))
    assert made.of(Evict) == []


def test_jobs_of_equal_priority_do_not_preempt_each_other() -> None:
    assert moves("node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b: 1 x cpu=1") == []


def test_the_gang_plugin_protects_the_minimum() -> None:
    assert moves("node n1 cpu=2\njob a min=2 priority=low: 2 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1") == []


def test_a_task_preempts_a_lower_priority_task_of_its_own_job() -> None:
    text = """
        node n1 cpu=2
        job a min=1: 2 x cpu=1 on=n1 role=w note.volcanopy.io/task-priority=1, 1 x cpu=1 role=m note.volcanopy.io/task-priority=5
        """
    assert moves(text, "priority | predicates") == ["evict a-w-1: preempt", "nominate a-m-0 -> n1"]
    assert moves(text, "priority | gang, predicates") == ["evict a-w-1: preempt", "nominate a-m-0 -> n1"]
    assert moves(text) == []  # with gang in the first tier a job that has its minimum lacks nothing


def test_a_task_does_not_preempt_an_equal_task_of_its_own_job() -> None:
    """pdb alone accepts every victim: the job would preempt its own tasks for ever."""
    text = "node n1 cpu=1\njob a min=2: 1 x cpu=1 on=n1, 1 x cpu=1 role=m"
    assert moves(text, "pdb | predicates") == []


def test_jobs_of_other_queues_are_not_preempted() -> None:
    text = "queue q\nnode n1 cpu=1\njob a min=0 queue=q: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1"
    assert moves(text) == []


def test_an_eviction_names_its_preemptor() -> None:
    made = decide(
        HIGH + "node n1 cpu=1\njob a min=0: 1 x cpu=1 on=n1\njob b priority=high: 1 x cpu=1", PLUGINS, "preempt"
    )
    (evict,) = made.of(Evict)
    assert (evict.group, evict.preemptor) == ("default/a", "default/b")
    assert evict.message == 'preempt: evicted for job "default/b"'


def test_a_nominated_pod_is_placed_first() -> None:
    made = plan(HIGH + "node n1 cpu=2\njob first priority=high: 2 x cpu=1\njob owner: 2 x cpu=1 nominated=n1", PLUGINS)
    assert made.lines[:2] == ["bind owner-0 -> n1", "bind owner-1 -> n1"]


def test_a_nomination_stays_while_victims_terminate() -> None:
    text = "node n1 cpu=2\njob a min=0: 2 x cpu=1 on=n1 releasing\njob b: 2 x cpu=1 nominated=n1\njob c: 1 x cpu=1"
    assert moves(text) == []


def test_an_infeasible_nomination_is_removed() -> None:
    text = "node n1 cpu=1\nnode n2 cpu=1\njob b min=3: 1 x cpu=1 nominated=n1, 2 x cpu=1\njob c: 1 x cpu=1"
    made = plan(HIGH + text, PLUGINS).lines
    assert made[:2] == ["bind c-0 -> n1", "nominate b-0 -> nowhere"]
