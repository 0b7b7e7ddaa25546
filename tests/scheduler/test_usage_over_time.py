"""Usage of queues and their users over time, with a half-life, and beside their shares."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.scheduler.long_run.cases import TWO_LEVELS, config
from tests.scheduler.long_run.measures import EIGHT_NODES
from tests.scheduler.long_run.simulation import LongRun
from tests.scheduler.long_run.workload import Stream
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.engine.defaults import HALF_LIFE
from volcanopy.scheduler.engine.shares.decay import decay
from volcanopy.scheduler.engine.shares.usage import queue_usage, usage_at, usage_texts
from volcanopy.scheduler.engine.shares.usage_shares import UsageShare, usage_shares
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy_testing.notation import NOW, world

DAY = timedelta(seconds=HALF_LIFE)
USERS = tuple(
    Stream(queue, pods=(1, 2, 4), cpu=("1",), user=user)
    for queue, users in (("xa", "ana bo"), ("xb", "cy"), ("yc", "dee ed"), ("yd", "flo"))
    for user in users.split()
)


def a_queue(
    name: str,
    usage: Mapping[str, str] | None = None,
    allocated: core.Quantities | None = None,
    ago: timedelta | None = DAY,
    **spec: object,
) -> core.Queue:
    """Return a queue with a status that was written some time ago; None: never."""
    status = core.QueueStatus(
        state="Open",
        usage=dict(usage or {}),
        allocated=allocated or {},
        credit_time=None if ago is None else NOW - ago,
    )
    return core.Queue(metadata=core.Meta(name=name, uid=name), spec=replace(core.QueueSpec(), **spec), status=status)


def snapshot(*queues: core.Queue) -> Snapshot:
    state = State()
    for item in (*world("node n1 cpu=10 nvidia.com/gpu=4\nqueue root"), *queues):
        state.upsert(item)
    return state.snapshot(NOW, "test")


def usage_now(queue: core.Queue) -> dict[str, float]:
    """Return the usage of a queue as the scheduler counts it, as far as there is any."""
    view = snapshot(queue)
    column = queue_usage(view)[:, view.queues.index[queue.metadata.name]]
    return {name: amount for name, amount in zip(view.axis.names, column.tolist(), strict=True) if amount}


def test_half_of_the_usage_is_left_after_a_day() -> None:
    usage = usage_now(a_queue("q", {"cpu": "100", "nvidia.com/gpu": "8.5"}))
    assert usage == pytest.approx({"cpu": 50, "nvidia.com/gpu": 4.25})


def test_what_is_allocated_since_the_status_counts_in_units_by_seconds() -> None:
    queue = a_queue("q", allocated={"cpu": "2500m", "nvidia.com/gpu": "3"}, ago=timedelta(minutes=1))
    assert usage_now(queue) == pytest.approx({"cpu": 150, "nvidia.com/gpu": 180}, rel=0.001)


@pytest.mark.parametrize("ago", [None, timedelta(minutes=-5)])
def test_without_a_time_and_with_one_in_the_future_nothing_is_added(ago: timedelta | None) -> None:
    assert usage_now(a_queue("q", allocated={"cpu": "4"}, ago=ago)) == {}


def test_the_usage_of_a_full_cluster_approaches_its_bound() -> None:
    """A half-life bounds the sum: what is always allocated counts for 1.44 days, however long."""
    remaining, counted = decay(1000 * HALF_LIFE)
    assert remaining == pytest.approx(0.0)
    assert counted == pytest.approx(1.4427 * HALF_LIFE, rel=0.001)


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(1, 10**6), max_size=3)


@given(AMOUNTS, AMOUNTS, st.integers(0, 10**6))
def test_columns_give_the_usage_of_single_statuses(
    usage: dict[str, int], allocated: dict[str, int], seconds: int
) -> None:
    texts, quantities = ({name: str(units) for name, units in amounts.items()} for amounts in (usage, allocated))
    queue = a_queue("q", texts, dict(quantities), timedelta(seconds=seconds))
    alone = usage_at(queue.status.usage, queue.status.allocated, queue.status.credit_time, NOW)
    assert usage_now(queue) == pytest.approx({name: amount for name, amount in alone.items() if amount})


def test_texts_are_exact_to_the_millionth_and_have_no_exponent() -> None:
    view = snapshot()
    usage = queue_usage(view)[:, 0].copy()
    usage[view.axis.index["cpu"]], usage[view.axis.index["memory"]] = 12345.1234567, 2.5e17
    usage[view.axis.index["pods"]] = 1e-9
    assert usage_texts(view.axis, usage) == {"cpu": "12345.123457", "memory": "250000000000000000"}


def test_usage_of_queues_is_the_sum_of_their_users_and_that_of_parents_the_sum_of_their_children() -> None:
    orders = {"xa": "fair", "xb": "usage", "yc": "usage", "yd": "fair"}
    text = "\n".join(
        f"{line} order={orders[line.split()[1]]}" if line.split()[1] in orders else line
        for line in TWO_LEVELS.strip().splitlines()
    )
    run = LongRun(f"{EIGHT_NODES}\n{text}", config(), USERS)
    used = dict.fromkeys(orders, 0.0)
    for _ in range(60):
        run.cycle()
        for name in used:
            used[name] += run.allocated[name] / 1000 * 60
    queues = {name: run.queue(name) for name in ("root", "x", "y", *orders)}
    usage = {
        name: usage_at(queue.status.usage, queue.status.allocated, queue.status.credit_time, run.now)["cpu"]
        for name, queue in queues.items()
    }
    for name in orders:
        status = queues[name].status
        users = [usage_at(user.usage, user.allocated, status.credit_time, run.now)["cpu"] for user in status.users]
        assert usage[name] == pytest.approx(sum(users), rel=1e-6), name
        assert usage[name] == pytest.approx(used[name], rel=0.06), name  # a part of an hour has decayed: 2.8 % at most
    assert usage["x"] == pytest.approx(usage["xa"] + usage["xb"], rel=1e-6)
    assert usage["y"] == pytest.approx(usage["yc"] + usage["yd"], rel=1e-6)
    assert usage["root"] == pytest.approx(usage["x"] + usage["y"], rel=1e-6)


def shares(*queues: core.Queue, resource: str = "cpu") -> dict[tuple[str, str | None], UsageShare]:
    return {(row.queue, row.user): row for row in usage_shares(queues, resource, NOW)}


def test_siblings_share_by_weight_and_their_factor_is_the_share_by_what_they_used() -> None:
    rows = shares(a_queue("a", {"cpu": "600"}), a_queue("b", {"cpu": "200"}, weight=3), a_queue("c"))
    assert [rows[name, None].share for name in "abc"] == [0.2, 0.6, 0.2]
    assert [rows[name, None].used for name in "abc"] == [0.75, 0.25, 0.0]
    assert [rows[name, None].factor for name in "abc"] == [pytest.approx(0.2 / 0.75), pytest.approx(2.4), None]


def test_a_deserved_amount_of_the_resource_replaces_the_weights() -> None:
    queues = (a_queue("a", weight=9, deserved={"cpu": "1"}), a_queue("b", deserved={"cpu": "3"}))
    assert [row.share for row in shares(*queues).values()] == [0.25, 0.75]
    assert [row.share for row in shares(*queues, resource="nvidia.com/gpu").values()] == [0.9, 0.1]


def test_users_of_a_queue_have_equal_shares_and_children_are_compared_with_their_siblings_only() -> None:
    users = tuple(core.QueueUser(name=name, usage={"cpu": usage}) for name, usage in (("ana", "30"), ("bo", "10")))
    child = a_queue("child", {"cpu": "40"}, parent="a")
    rows = shares(
        a_queue("a", {"cpu": "40"}),
        a_queue("b", {"cpu": "120"}),
        replace(child, status=replace(child.status, users=users)),
    )
    assert (rows["child", None].share, rows["child", None].used) == (1.0, 1.0)
    assert (rows["a", None].share, rows["a", None].used) == (0.5, 0.25)
    assert [(rows["child", name].share, rows["child", name].used) for name in ("ana", "bo")] == [
        (0.5, 0.75),
        (0.5, 0.25),
    ]
    assert rows["child", "ana"].document() == {
        "queue": "child",
        "user": "ana",
        "share": 0.5,
        "used": 0.75,
        "factor": 0.666667,
        "usage": {"cpu": 15.0},
    }
