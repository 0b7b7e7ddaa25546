"""Which victims are evicted, in cases that users of batch schedulers reported."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.scheduler.actions.test_eviction_by_need import BETWEEN, CLASSES, WITHIN, chart, evicted
from tests.scheduler.long_run.cases import EVICT, config
from tests.scheduler.long_run.simulation import LongRun
from tests.scheduler.long_run.workload import Single
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Evict
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy_testing.cycles import Simulation
from volcanopy_testing.notation import NOW, snapshot, world

TWO = "queue low deserved.cpu={low}\nqueue high deserved.cpu={high}\n"


def victims(text: str, chosen: SchedulerConfig, **minutes: int) -> list[str]:
    """The victims where the pods of these jobs have been running for so many minutes, the others for a day."""
    return evicted(schedule(snapshot("", [started_later(thing, minutes) for thing in world(text)]), chosen))


def started_later(thing: Object, minutes: dict[str, int]) -> Object:
    job = thing.metadata.name.rpartition("-")[0]
    if not isinstance(thing, core.Pod) or not thing.spec.node_name or job not in minutes:
        return thing
    return replace(thing, status=replace(thing.status, start_time=NOW - timedelta(minutes=minutes[job])))


@pytest.mark.parametrize("action", [*WITHIN, *BETWEEN])
def test_a_job_with_ten_pods_to_spare_loses_the_one_that_is_needed(action: str) -> None:
    queue = "high" if action in BETWEEN else "low"
    text = TWO.format(low=3, high=8) + "node n1 cpu=11\njob a priority=low queue=low min=1: 11 x cpu=1 on=n1\n"
    assert len(victims(f"{CLASSES}{text}job w priority=high queue={queue}: 1 x cpu=1", chart(action, "capacity"))) == 1


@pytest.mark.parametrize("action", WITHIN)
def test_a_large_young_job_is_not_evicted_for_a_small_one(action: str) -> None:
    text = f"{CLASSES}node n1 cpu=10\njob a priority=low: 1 x cpu=2 on=n1\njob b priority=low: 1 x cpu=8 on=n1\n"
    assert victims(f"{text}job w priority=high: 1 x cpu=2", chart(action), b=1430) == ["a-0"]


@pytest.mark.parametrize("action", WITHIN)
def test_a_large_job_that_has_just_started_loses_less_than_a_small_one_that_has_run_for_a_day(action: str) -> None:
    text = f"{CLASSES}node n1 cpu=10\njob a priority=low: 1 x cpu=2 on=n1\njob b priority=low: 1 x cpu=8 on=n1\n"
    assert victims(f"{text}job w priority=high: 1 x cpu=2", chart(action), b=10) == ["b-0"]


@pytest.mark.parametrize("shares", ["capacity", "proportion"])
@pytest.mark.parametrize("action", BETWEEN)
def test_a_queue_keeps_its_share_although_that_loses_more_work(action: str, shares: str) -> None:
    """With the job of 8 cpus, which has just started, the queue would keep 2 of 8."""
    text = TWO.format(low=8, high=8) + "node n1 cpu=10\nnode n2 cpu=6\njob x queue=high: 6 x cpu=1 on=n2\n"
    text += "job a queue=low: 1 x cpu=2 on=n1\njob b queue=low: 1 x cpu=8 on=n1\njob w queue=high: 1 x cpu=2"
    assert victims(text, chart(action, shares), b=1) == ["a-0"]


@pytest.mark.parametrize("action", BETWEEN)
def test_a_queue_with_small_jobs_loses_them_rather_than_another_queue_its_share(action: str) -> None:
    text = """
        queue a deserved.cpu=8
        queue b deserved.cpu=8
        queue c deserved.cpu=4
        node n1 cpu=20
        job large queue=a: 1 x cpu=11 on=n1
        job small queue=b min=0: 9 x cpu=1 on=n1
        job w queue=c: 1 x cpu=1
        """
    assert victims(text, chart(action, "capacity"), large=1) == ["small-8"]


@pytest.mark.parametrize("action", BETWEEN)
def test_the_only_sufficient_job_is_reclaimed_although_small_ones_come_first(action: str) -> None:
    """Without the small job the queue is at its share, and nothing more may be reclaimed; the large one alone is enough."""
    text = (
        TWO.format(low=8, high=8)
        + "node n1 cpu=10\njob a queue=low: 1 x cpu=2 on=n1\njob b queue=low: 1 x cpu=8 on=n1\n"
    )
    assert victims(f"{text}job w queue=high: 1 x cpu=8", chart(action, "capacity")) == ["b-0"]
    assert victims(f"{text}job w queue=high: 4 x cpu=2", chart(action, "capacity")) == ["b-0"]


@pytest.mark.parametrize("action", BETWEEN)
def test_a_queue_below_its_share_does_not_protect_another_that_is_above(action: str) -> None:
    text = """
        queue protected deserved.cpu=6
        queue batch
        queue starved deserved.cpu=4
        node n1 cpu=8
        job kept queue=protected: 1 x cpu=4 on=n1
        job over queue=batch: 1 x cpu=4 on=n1
        job w queue=starved: 1 x cpu=4
        """
    assert victims(text, chart(action, "capacity"), kept=1) == ["over-0"]


@pytest.mark.parametrize("action", WITHIN)
def test_one_job_of_the_right_size_is_evicted_instead_of_two_smaller_ones(action: str) -> None:
    text = f"{CLASSES}node n1 cpu=10\n"
    text += "".join(f"job {name} priority=low: 1 x cpu={cpu} on=n1\n" for name, cpu in (("a", 3), ("b", 3), ("c", 4)))
    assert victims(f"{text}job w priority=high: 1 x cpu=4", chart(action)) == ["c-0"]


@pytest.mark.parametrize("action", WITHIN)
def test_pods_of_equal_cpu_are_compared_by_their_largest_share(action: str) -> None:
    text = f"{CLASSES}node n1 cpu=2 memory=64Gi\njob a priority=low: 1 x cpu=1 memory=8Gi on=n1\n"
    text += "job b priority=low: 1 x cpu=1 memory=48Gi on=n1\njob w priority=high: 1 x cpu=1 memory=1Gi"
    assert victims(text, chart(action)) == ["a-0"]


@pytest.mark.parametrize("action", WITHIN)
def test_a_job_spares_the_pod_that_is_large_enough_rather_than_its_gang(action: str) -> None:
    text = f"{CLASSES}node n1 cpu=6\njob a priority=low min=2: 2 x cpu=1 on=n1, 1 x cpu=4 on=n1\n"
    assert victims(f"{text}job w priority=high: 1 x cpu=4", chart(action)) == ["a-2"]


@pytest.mark.parametrize("action", WITHIN)
def test_two_jobs_of_low_priority_are_evicted_before_one_of_a_higher(action: str) -> None:
    text = f"{CLASSES}node n1 cpu=2\nnode n2 cpu=2\njob a priority=mid: 1 x cpu=2 on=n1\njob b priority=low: 1 x cpu=1 on=n2\n"
    text += "job c priority=low: 1 x cpu=1 on=n2\njob w priority=high: 1 x cpu=2"
    assert victims(text, chart(action), a=1) == ["b-0", "c-0"]


@pytest.mark.parametrize("action", WITHIN)
def test_victims_for_a_gang_are_compared_for_all_its_pods_together(action: str) -> None:
    """For the first pod alone the small job is the cheapest; then the large one has to go as well."""
    text = f"{CLASSES}node n1 cpu=6\njob a priority=low: 1 x cpu=2 on=n1\njob b priority=low: 1 x cpu=4 on=n1\n"
    assert victims(f"{text}job w priority=high: 2 x cpu=2", chart(action), b=720) == ["b-0"]


@pytest.mark.parametrize("action", BETWEEN)
def test_queues_at_their_shares_do_not_reclaim_from_each_other_in_turn(action: str) -> None:
    text = """
        queue a deserved.cpu=3
        queue b deserved.cpu=3
        node n1 cpu=6
        job a1 queue=a: 1 x cpu=4 on=n1
        job a2 queue=a: 1 x cpu=2 on=n1
        job b1 queue=b: 1 x cpu=2
        job b2 queue=b: 1 x cpu=1
        """
    plans = list(Simulation(world(text), chart(action, "capacity")).cycles(6))
    assert sum(len(plan.of(Evict)) for plan in plans) == 1
    assert not plans[-1].of(Bind, Evict)


@pytest.mark.parametrize("arrival", [12, 300])
def test_the_same_job_is_not_preempted_again_while_others_could_be(arrival: int) -> None:
    """Five jobs of high priority come one after the other, for five minutes each; four others of equal size run."""
    nodes = "\n".join(f"node n{number} cpu=8" for number in range(4))
    low = [Single(f"low{number}", "default", 1 + number, 1, "8", 2000) for number in range(4)]
    high = [Single(f"high{number}", "default", arrival + 12 * number, 1, "8", 5, priority=9) for number in range(5)]
    cluster = LongRun(nodes, config(EVICT), (), (*low, *high))
    for _ in range(arrival + 65):
        cluster.cycle()
    counts = [sum(pod.endswith(f"/low{number}-0") for _, pod, _, _ in cluster.evictions) for number in range(4)]
    assert sum(counts) == 5
    assert max(counts) == 2


@pytest.mark.parametrize("action", BETWEEN)
@pytest.mark.parametrize("first", ["low", "high"])
def test_of_queues_with_equal_shares_the_lower_priority_is_reclaimed(action: str, first: str) -> None:
    """Whichever queue is older, and although the job of low priority has run for longer."""
    second = "high" if first == "low" else "low"
    text = f"""{CLASSES}
        queue a
        queue b
        queue c deserved.cpu=4
        node n1 cpu=8
        job {first} queue=a priority={first}: 1 x cpu=4 on=n1
        job {second} queue=b priority={second}: 1 x cpu=4 on=n1
        job w queue=c: 1 x cpu=4
        """
    assert victims(text, chart(action, "capacity"), high=5) == ["low-0"]


@pytest.mark.parametrize("action", [*WITHIN, "gangreclaim"])
def test_a_job_with_minima_of_tasks_loses_the_pod_that_frees_enough(action: str) -> None:
    queue = "high" if action in BETWEEN else "low"
    text = (
        TWO.format(low=0, high=4) + "node n1 cpu=4\njob a priority=low queue=low min=2 phase=Running: "
        "3 x role=a min=1 on=n1, 1 x cpu=4 role=b on=n1\n"
    )
    assert victims(f"{CLASSES}{text}job w priority=high queue={queue}: 1 x cpu=4", chart(action, "capacity")) == [
        "a-b-0"
    ]
