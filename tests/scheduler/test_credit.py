"""Credit of queues: what they were allocated below their fair share while their jobs waited."""

from datetime import timedelta
from operator import itemgetter
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scheduler.long_run.cases import ADMIT, BUSY, DEFAULT, HIERARCHICAL_DRF, RECLAIM, THREE, config
from tests.scheduler.long_run.measures import EIGHT_NODES
from tests.scheduler.long_run.simulation import LongRun
from tests.scheduler.long_run.workload import Stream
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.engine.defaults import HALF_LIFE
from volcanopy.scheduler.engine.shares.credit import queue_credit
from volcanopy.scheduler.model.plan import Bind, Evict, SetQueue
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.services.scheduler.state.statuses import queue_status
from volcanopy_testing.notation import NOW, world


def observed(
    name: str,
    allocated: int,
    fair_share: int,
    waiting: int,
    credit: str = "",
    at: int | None = 600,
    parent: str = "",
) -> core.Queue:
    """Return a queue with a status ``at`` seconds before now; None: without a credit."""
    return core.Queue(
        metadata=core.Meta(name=name, uid=name),
        spec=core.QueueSpec(parent=parent),
        status=core.QueueStatus(
            state="Open",
            allocated={"cpu": str(allocated)},
            fair_share={"cpu": str(fair_share)},
            waiting={"cpu": str(waiting)},
            credit={"cpu": credit} if credit else {},
            credit_time=None if at is None else NOW - timedelta(seconds=at),
        ),
    )


def snapshot(*queues: core.Queue) -> Snapshot:
    state = State()
    for item in (*world("node n1 cpu=10\nqueue root"), *queues):
        state.upsert(item)
    return state.snapshot(NOW, "test")


def cpu_credit(*queues: core.Queue) -> dict[str, float]:
    """Return the credits now."""
    view = snapshot(*queues)
    row = queue_credit(view)[view.axis.index["cpu"]]
    return {queue.metadata.name: float(row[view.queues.index[queue.metadata.name]]) for queue in queues}


def test_a_queue_below_its_share_gains_what_its_sibling_above_it_loses() -> None:
    credit = cpu_credit(observed("a", 2, 5, 9), observed("b", 8, 5, 9))
    assert credit == pytest.approx({"a": 0.3 * 600, "b": -0.3 * 600}, rel=0.01)


def test_a_queue_gains_no_more_than_its_jobs_wait_for() -> None:
    credit = cpu_credit(observed("a", 2, 5, 1), observed("b", 8, 5, 9))
    assert credit == pytest.approx({"a": 60, "b": -60}, rel=0.01)


def test_a_resource_of_which_there_is_enough_for_all_gives_no_credit() -> None:
    """Each queue's share of the cpus covers its request: the jobs wait for another resource."""
    assert cpu_credit(observed("a", 2, 3, 1), observed("b", 1, 5, 4)) == {"a": 0, "b": 0}


def test_the_number_of_waiting_pods_gives_no_credit() -> None:
    """Pods of jobs that wait for cpus lack nothing that other queues have."""
    run = LongRun(f"{EIGHT_NODES}\n{THREE}", config("allocate, backfill"), BUSY)
    for _ in range(10):
        run.cycle()
    assert {resource for queue in "abc" for resource in run.queue(queue).status.credit} == {"cpu"}


def test_a_queue_that_uses_what_nobody_needs_has_no_debt() -> None:
    assert cpu_credit(observed("a", 0, 5, 0), observed("b", 10, 5, 9)) == {"a": 0, "b": 0}


def test_what_is_idle_is_lacked_by_all_in_proportion() -> None:
    """Queue b lacks four cpus that are idle, and a none: two thirds of the loss are b's."""
    credit = cpu_credit(observed("a", 3, 3, 9), observed("b", 2, 6, 9), observed("c", 1, 1, 0))
    assert credit == pytest.approx({"a": -0.4 / 3 * 600, "b": 0.4 / 3 * 600, "c": 0}, rel=0.01)


def test_only_siblings_pay_for_each_other() -> None:
    queues = (
        observed("left", 5, 5, 5, parent="root"),
        observed("right", 5, 5, 5, parent="root"),
        observed("a", 1, 2, 5, parent="left"),
        observed("b", 4, 3, 5, parent="left"),
        observed("c", 4, 2, 5, parent="right"),
    )
    credit = cpu_credit(*queues)
    assert credit == pytest.approx({"left": 0, "right": 0, "a": 60, "b": -60, "c": 0}, rel=0.01)


def test_a_credit_halves_in_its_half_life() -> None:
    credit = cpu_credit(observed("a", 5, 5, 5, credit="100", at=int(HALF_LIFE)), observed("b", 5, 5, 5, credit="-8.5"))
    assert credit == pytest.approx({"a": 50, "b": -8.5}, rel=0.01)


@pytest.mark.parametrize("text", ["much", "nan", "inf", ""])
def test_an_unreadable_credit_is_none(text: str) -> None:
    assert cpu_credit(observed("a", 5, 5, 5, credit=text)) == {"a": 0}


def test_without_a_time_there_is_no_credit() -> None:
    assert cpu_credit(observed("a", 0, 5, 5, credit="7", at=None)) == {"a": 0}


def test_a_time_in_the_future_adds_nothing() -> None:
    assert cpu_credit(observed("a", 0, 5, 5, credit="7", at=-60)) == {"a": 7}


def test_the_credit_of_a_queue_that_comes_late_is_written_with_its_status() -> None:
    run = LongRun(f"{EIGHT_NODES}\n{THREE}", config("allocate, backfill"), (*BUSY[:2], Stream("c", first=10)))
    for _ in range(20):
        run.cycle()
    status = run.queue("c").status
    assert float(status.credit["cpu"]) > 0
    assert float(run.queue("b").status.credit["cpu"]) < 0
    assert status.credit_time == run.now


@pytest.mark.parametrize(("credit", "evicted"), [(0, 1), (15, 1), (60, 0)])
@pytest.mark.parametrize(
    "share", [{"name": "proportion"}, {"name": "capacity"}, HIERARCHICAL_DRF], ids=itemgetter("name")
)
def test_what_credit_covers_is_not_reclaimed(share: dict[str, Any], credit: int, evicted: int) -> None:
    """Queue a is two cpus above its share of five; 60 seconds of the cluster cover them for five minutes, 15 one of them."""
    running = "job ra queue=a min=0: 7 x cpu=1 on=n1\njob rb queue=b min=0: 3 x cpu=1 on=n1\n"
    queues = [
        observed("a", 7, 5, 0, str(credit), 0, "root"),
        observed("b", 3, 5, 1, str(-credit), 0, "root"),
    ]
    state = State()
    for item in world(f"node n1 cpu=10\nqueue root\n{running}job wb queue=b: 1 x cpu=1"):
        state.upsert(item)
    for queue in queues:
        state.upsert(replace(queue, spec=replace(queue.spec, deserved={"cpu": "5"})))
    plan = schedule(state.snapshot(NOW), config(RECLAIM, share))
    assert len(plan.of(Evict)) == evicted


@pytest.mark.parametrize("share", ["proportion", "capacity"])
def test_a_queue_is_allocated_above_its_share_what_it_is_paid_back(share: str) -> None:
    """Both queues wait for a job of three cpus; a is at its share, b below, and 270 seconds of the cluster pay back three cpus."""
    running = "job ra queue=a min=0: 5 x cpu=1 on=n1\njob rb queue=b min=0: 2 x cpu=1 on=n1\n"
    waiting = "job wa queue=a: 3 x cpu=1\njob wb queue=b: 3 x cpu=1"
    bound = {}
    for credit in (0, 270):
        state = State()
        for item in world(f"node n1 cpu=10\nqueue root\n{running}{waiting}"):
            state.upsert(item)
        for queue in (observed("a", 5, 5, 3, str(credit), 0, "root"), observed("b", 2, 5, 3, str(-credit), 0, "root")):
            state.upsert(replace(queue, spec=replace(queue.spec, deserved={"cpu": "5"})))
        plan = schedule(state.snapshot(NOW), config(ADMIT, {"name": share}))
        bound[credit] = {bind.group for bind in plan.of(Bind)}
    assert bound == {0: {"default/wb"}, 270: {"default/wa"}}


def test_credit_grows_without_a_write() -> None:
    state = State()
    text = "node n1 cpu=8\nqueue a\nqueue b\njob a queue=a: 8 x cpu=1 on=n1\njob b queue=b: 4 x cpu=1"
    for item in world(text):
        state.upsert(item)
    for effect in schedule(state.snapshot(NOW), DEFAULT).of(SetQueue):
        queue = state.queues[effect.queue]
        state.upsert(replace(queue, status=queue_status(queue.status, effect)))
    later = state.snapshot(NOW + timedelta(minutes=1))
    assert schedule(later, DEFAULT).of(SetQueue) == []
    credit = queue_credit(later)[later.axis.index["cpu"]]
    assert {name: round(float(credit[row])) for name, row in later.queues.index.items()} == {
        "default": 0,
        "a": -30,
        "b": 30,
    }
