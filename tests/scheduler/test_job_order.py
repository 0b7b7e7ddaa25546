"""The order of jobs within a queue: by the plugins, or as the queue sets it."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.scheduler.long_run.cases import DEFAULT
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Explain, Plan, SetPodGroup, SetQueue
from volcanopy.services.scheduler.state.statuses import queue_status
from volcanopy_testing.notation import NOW, START, config, snapshot, world

CLASSES = "class low value=1\nclass high value=1000"


def bound(text: str, plugins: str = "priority, gang, predicates", actions: str = "allocate") -> list[str]:
    """Return the names of the jobs that start, in order."""
    effects: list[Bind] = schedule(snapshot(text), config(plugins, actions)).of(Bind)
    return list(dict.fromkeys(effect.group.removeprefix("default/") for effect in effects))


def positions(plan: Plan) -> dict[str, str]:
    """Return the position of each waiting job."""
    return {effect.job.removeprefix("default/"): effect.numbers["position"] for effect in plan.of(Explain)}


@pytest.mark.parametrize(
    ("order", "first"), [("", ["b", "a"]), ("order=fifo", ["a", "b"]), ("order=priority", ["b", "a"])]
)
def test_fifo_ignores_priorities(order: str, first: list[str]) -> None:
    text = f"{CLASSES}\nnode n1 cpu=2\nqueue q {order}"
    assert bound(f"{text}\njob a queue=q priority=low: 1 x cpu=1\njob b queue=q priority=high: 1 x cpu=1") == first


@pytest.mark.parametrize(("order", "first"), [("", ["a", "b"]), ("order=priority", ["b", "a"])])
def test_priority_applies_without_the_plugin(order: str, first: list[str]) -> None:
    text = f"{CLASSES}\nnode n1 cpu=2\nqueue q {order}"
    jobs = "job a queue=q priority=low: 1 x cpu=1\njob b queue=q priority=high: 1 x cpu=1"
    assert bound(f"{text}\n{jobs}", "gang, predicates") == first


def test_users_of_a_fair_queue_alternate() -> None:
    text = f"{CLASSES}\nnode n1 cpu=9\nqueue q order=fair"
    jobs = [f"job ana-{number} queue=q user=ana: 1 x cpu=1" for number in range(3)]
    jobs += [f"job bo-{number} queue=q user=bo: 1 x cpu=1" for number in range(3)]
    assert bound("\n".join([text, *jobs])) == ["ana-0", "bo-0", "ana-1", "bo-1", "ana-2", "bo-2"]


def test_the_user_with_less_allocated_comes_first() -> None:
    text = """
        node n1 cpu=9
        queue q order=fair
        job running queue=q user=ana: 2 x cpu=1 on=n1
        job ana-1 queue=q user=ana: 1 x cpu=1
        job bo-1 queue=q user=bo: 1 x cpu=1
        job bo-2 queue=q user=bo: 1 x cpu=1
        job bo-3 queue=q user=bo: 1 x cpu=1
        job bo-4 queue=q user=bo: 1 x cpu=1
    """
    assert bound(text) == ["bo-1", "bo-2", "ana-1", "bo-3", "bo-4"]


def test_jobs_of_one_user_keep_their_order() -> None:
    text = f"{CLASSES}\nnode n1 cpu=4\nqueue q order=fair"
    jobs = "job a queue=q user=ana priority=low: 1 x cpu=1\njob b queue=q user=ana priority=high: 1 x cpu=1"
    assert bound(f"{text}\n{jobs}") == ["b", "a"]


def test_jobs_without_a_submitter_are_those_of_one_user() -> None:
    text = "node n1 cpu=9\nqueue q order=fair"
    jobs = "job a queue=q: 1 x cpu=1\njob b queue=q: 1 x cpu=1\njob c queue=q user=ana: 1 x cpu=1"
    assert bound(f"{text}\n{jobs}") == ["a", "c", "b"]


def test_an_elastic_job_gets_more_pods_when_its_user_is_next() -> None:
    text = """
        node n1 cpu=5
        queue q order=fair
        job a queue=q user=ana min=1: 9 x cpu=1
        job b queue=q user=bo min=1: 9 x cpu=1
    """
    plan = schedule(snapshot(text), config("gang, predicates", "allocate"))
    groups = [effect.group.removeprefix("default/") for effect in plan.of(Bind)]
    assert groups == ["a", "b", "a", "b", "a"]


def test_admission_alternates_too() -> None:
    text = "node n1 cpu=4\nqueue q order=fair"
    jobs = [f"job {user}{number} queue=q user={user} phase=Pending minres.cpu=1:" for user in "ab" for number in "123"]
    plan = schedule(snapshot("\n".join([text, *jobs])), DEFAULT)
    admitted = [effect.pod_group[-2:] for effect in plan.of(SetPodGroup) if effect.phase == "Inqueue"]
    assert sorted(admitted) == ["a1", "a2", "b1", "b2"]


def test_the_position_of_a_job_follows_the_order_of_its_queue() -> None:
    text = """
        class high value=1000
        node n1 cpu=1
        queue q order=fair
        job other: 1 x cpu=1 on=n1
        job a1 queue=q user=ana: 1 x cpu=1
        job a2 queue=q user=ana priority=high: 1 x cpu=1
        job b1 queue=q user=bo: 1 x cpu=1
    """
    rules = config("priority, gang, predicates", "allocate")
    assert positions(schedule(snapshot(text), rules)) == {"a1": "3", "a2": "1", "b1": "2"}
    assert positions(schedule(snapshot(text.replace("order=fair", "order=fifo")), rules)) == {
        "a1": "1",
        "a2": "2",
        "b1": "3",
    }


def observed(text: str, minutes: Iterable[int]) -> tuple[core.QueueUser, ...]:
    """Return the shares of users in the status of queue ``q`` after cycles at these minutes, in which nothing can start."""
    state = State()
    for item in world(text):
        state.upsert(item)
    for minute in minutes:
        plan = schedule(
            state.snapshot(NOW + timedelta(minutes=minute)), config("gang, predicates, proportion", "allocate")
        )
        for effect in plan.of(SetQueue):
            queue = state.queues[effect.queue]
            state.upsert(replace(queue, status=queue_status(queue.status, effect)))
        for item in world(f"job late{minute} queue=q user=bo: 1 x cpu=5"):
            if minute and isinstance(item, core.Pod | core.PodGroup):
                state.upsert(item)
    return state.queues["q"].status.users


SHARED = """
    node n1 cpu=10
    queue q order=fair
    job a1 queue=q user=ana: 6 x cpu=1 on=n1
    job b1 queue=q user=bo: 2 x cpu=1 on=n1
    job b2 queue=q user=bo: 1 x cpu=9
"""


def test_the_status_of_a_fair_queue_has_the_shares_of_its_users() -> None:
    users = observed(SHARED, [0])
    assert [(user.name, user.share, user.fair_share, user.credit) for user in users] == [
        ("ana", "0.6", "0.4", "0"),
        ("bo", "0.2", "0.4", "0"),
    ]


def test_a_user_below_the_fair_share_gains_credit_and_is_first_after_a_restart() -> None:
    text = """
        node n1 cpu=10
        queue q order=fair
        job a1 queue=q user=ana: 1 x cpu=1
        job b1 queue=q user=bo: 1 x cpu=1
    """
    state = State()
    for item in world(text):
        state.upsert(item)
    users = (core.QueueUser(name="ana", credit="-5"), core.QueueUser(name="bo", credit="5"))
    status = core.QueueStatus(state="Open", users=users, credit_time=START)
    state.upsert(replace(state.queues["q"], status=status))
    plan = schedule(state.snapshot(START), config("gang, predicates", "allocate"))
    assert [effect.pod for effect in plan.of(Bind)] == ["default/b1-0", "default/a1-0"]


def test_credits_of_users_add_up_to_zero() -> None:
    users = observed(SHARED, [0, 1, 2])
    credit = {user.name: float(user.credit) for user in users}
    assert credit["bo"] == pytest.approx(0.2 * 120, rel=0.01)
    assert credit["ana"] == pytest.approx(-credit["bo"])


def with_usage(users: dict[str, str], ago: timedelta = timedelta(0), jobs: Iterable[str] = ("ana", "bo")) -> State:
    """Return a queue whose users have a past usage, with a waiting job of each of ``jobs``."""
    state = State()
    lines = [
        "node n1 cpu=10",
        "queue q order=usage",
        *(f"job of-{user} queue=q user={user}: 1 x cpu=1" for user in jobs),
    ]
    for item in world("\n".join(lines)):
        state.upsert(item)
    past = tuple(core.QueueUser(name=name, usage={"cpu": usage}) for name, usage in users.items())
    status = core.QueueStatus(state="Open", users=past, credit_time=START - ago)
    state.upsert(replace(state.queues["q"], status=status))
    return state


def users_after(state: State) -> dict[str, str]:
    """Return the core-seconds of users in the queue's status after a cycle."""
    plan = schedule(state.snapshot(START), config("gang, predicates, proportion", "allocate"))
    return {user.name: user.usage.get("cpu", "0") for effect in plan.of(SetQueue) for user in effect.users}


def test_the_user_with_the_smallest_past_usage_is_first_also_after_a_restart() -> None:
    plan = schedule(with_usage({"ana": "60", "bo": "30"}).snapshot(START), config("gang, predicates", "allocate"))
    assert [effect.pod for effect in plan.of(Bind)] == ["default/of-bo-0", "default/of-ana-0"]


def test_past_usage_outweighs_running_pods_after_ten_minutes() -> None:
    text = """
        node n1 cpu=10
        queue q order=usage
        job running queue=q user=ana: 5 x cpu=1 on=n1
        job of-ana queue=q user=ana: 1 x cpu=1
        job of-bo queue=q user=bo: 1 x cpu=1
    """
    for usage, first in (("2990", "of-bo"), ("3010", "of-ana")):
        state = State()
        for item in world(text):
            state.upsert(item)
        status = core.QueueStatus(
            state="Open", users=(core.QueueUser(name="bo", usage={"cpu": usage}),), credit_time=START
        )
        state.upsert(replace(state.queues["q"], status=status))
        plan = schedule(state.snapshot(START), config("gang, predicates", "allocate"))
        assert next(effect.group for effect in plan.of(Bind)) == f"default/{first}"


def test_usage_halves_in_a_day_and_users_without_jobs_are_forgotten_when_it_is_below_a_second_of_the_cluster() -> None:
    state = with_usage({"ana": "1000", "gone": "24", "past": "15"}, timedelta(days=1))
    usage = users_after(state)
    assert usage.keys() == {"ana", "bo", "gone"}
    assert float(usage["ana"]) == pytest.approx(500)
    assert float(usage["gone"]) == pytest.approx(12)
    assert usage["bo"] == "0"


def test_usage_counts_what_is_allocated_while_nobody_waits() -> None:
    text = SHARED.replace("order=fair", "order=usage")
    usage = {user.name: float(user.usage["cpu"]) for user in observed(text, [0, 1, 2])}
    assert usage == pytest.approx({"ana": 6 * 120, "bo": 2 * 120}, rel=0.01)
