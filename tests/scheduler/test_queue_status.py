"""Statuses of queues: allocated amounts, fair shares, guaranteed, borrowed and waiting amounts, rolled up over the tree."""

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.nightly import examples
from tests.scheduler.random_cases import Case
from tests.scheduler.strategies import cases
from volcanopy.api import core, quantity
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.model import observed_queue_status
from volcanopy.scheduler.model.plan import Plan, SetQueue, document
from volcanopy.scheduler.model.resources import UNLIMITED
from volcanopy.scheduler.model.task_status import HOLDING, Status
from volcanopy.scheduler.policy.observer import Observer, QueueAmounts
from volcanopy.scheduler.report.queue_status import allocated_share, queue_statuses
from volcanopy.services.scheduler.state.statuses import queue_status
from volcanopy_testing.notation import NOW, config, decide, world

TREE = """
node n1 cpu=10
queue root
queue eng weight=3 parent=root
queue dev parent=eng guarantee.cpu=1
queue ops parent=eng
queue sci parent=root deserved.cpu=2
job a queue=dev min=4: 4 x cpu=1 on=n1, 3 x cpu=1
job b queue=sci phase=Pending min=2: 2 x cpu=1
job c queue=ops: 2 x cpu=2 on=n1
"""


def written_fields(plan: Plan, *fields: str) -> dict[str, str]:
    """Return the written cpu amounts of each queue."""
    made = {}
    for effect in plan.of(SetQueue):
        values = [getattr(effect, field) for field in fields]
        made[effect.queue] = " ".join(value if isinstance(value, str) else value.get("cpu", "-") for value in values)
    return made


def test_allocated_and_waiting_amounts_roll_up() -> None:
    """Job b is admitted and placed in this cycle, so it is not counted as waiting."""
    assert written_fields(decide(TREE, "gang, proportion"), "allocated", "waiting") == {
        "dev": "4 3",
        "eng": "8 3",
        "ops": "4 -",
        "root": "10 3",
        "sci": "2 -",
    }


def test_a_job_that_is_not_admitted_waits_for_its_minimum_although_it_has_no_pods() -> None:
    text = "node n1 cpu=1\nqueue q\njob a queue=q phase=Pending min=3 minres.cpu=6: 1 x cpu=2"
    made = decide(text, "gang, proportion", actions="allocate")
    assert written_fields(made, "allocated", "waiting")["q"] == "- 6"


def test_gated_pods_are_not_counted_as_waiting() -> None:
    made = decide("node n1 cpu=8\nqueue q\njob a queue=q min=1: 1 x cpu=1 on=n1, 2 x cpu=1 gated", "gang, proportion")
    assert written_fields(made, "waiting") == {"q": "-"}


def test_a_share_is_allocated_over_fair_share() -> None:
    """Both request the whole cluster; the queue of weight 3 has less than half of its share, the other more than its share."""
    text = """
    node n1 cpu=8
    queue q weight=3
    queue r weight=1
    job a queue=q min=1: 3 x cpu=1 on=n1, 9 x cpu=1 selector.x=none
    job b queue=r min=1: 4 x cpu=1 on=n1, 9 x cpu=1 selector.x=none
    """
    made = decide(text, "gang, proportion, predicates")
    assert written_fields(made, "allocated", "fair_share", "borrowed", "share") == {
        "q": "3 6 - 0.50",
        "r": "4 2 2 2.00",
    }


def test_allocation_above_fair_share_is_borrowed() -> None:
    assert written_fields(decide(TREE, "gang, capacity"), "fair_share", "guaranteed", "borrowed", "share") == {
        "dev": "1 1 3 4.00",
        "eng": "1 1 7 8.00",
        "ops": "- - 4 1.00",
        "root": "3 1 7 3.33",
        "sci": "2 - - 1.00",
    }


def test_unlent_resources_are_reported_as_guaranteed() -> None:
    text = "node n1 cpu=8\nqueue q deserved.cpu=6 lend.cpu=2 guarantee.cpu=1"
    assert written_fields(decide(text, "gang, capacity"), "guaranteed") == {"q": "4"}


def test_pods_are_borrowed_only_if_a_queue_deserves_pods() -> None:
    (effect,) = decide("node n1 cpu=4\nqueue q deserved.cpu=2\njob a queue=q: 3 x cpu=1 on=n1", "gang, capacity").of(
        SetQueue
    )
    assert effect.borrowed == {"cpu": "1"}


def test_without_a_share_plugin_no_shares_are_reported() -> None:
    assert written_fields(decide(TREE, "gang"), "fair_share", "borrowed", "share")["eng"] == "- - "


def test_shares_come_from_the_first_share_plugin() -> None:
    assert written_fields(decide(TREE, "gang, proportion, capacity"), "fair_share") == written_fields(
        decide(TREE, "gang, proportion"), "fair_share"
    )


def test_a_plan_prints_allocated_and_has_the_rest_in_json() -> None:
    made = decide(TREE, "gang, capacity")
    assert "queue sci allocated cpu 2, pods 2" in str(made).splitlines()
    entry = next(effect for effect in document(made)["effects"] if effect.get("queue") == "dev")
    assert entry == {
        "effect": "SetQueue",
        "queue": "dev",
        "allocated": {"cpu": "4", "pods": "4"},
        "fairShare": {"cpu": "1"},
        "guaranteed": {"cpu": "1"},
        "borrowed": {"cpu": "3"},
        "waiting": {"cpu": "3", "pods": "3"},
        "share": "4.00",
    }


def written(state: State, plan: Plan) -> None:
    """Apply the queue statuses of a plan."""
    for effect in plan.of(SetQueue):
        queue = state.queues[effect.queue]
        state.upsert(replace(queue, status=queue_status(queue.status, effect)))


def test_unchanged_queue_statuses_are_not_written() -> None:
    state = State()
    for obj in world(TREE):
        state.upsert(obj)
    rules = config("gang, proportion")
    plan = schedule(state.snapshot(NOW), rules)
    assert len(plan.of(SetQueue)) == 5
    written(state, plan)
    again = schedule(state.snapshot(NOW), rules)
    assert again.of(SetQueue) == []


def test_a_foreign_change_of_a_queue_status_is_corrected() -> None:
    state = State()
    for obj in world(TREE):
        state.upsert(obj)
    rules = config("gang, proportion")
    written(state, schedule(state.snapshot(NOW), rules))
    sci = state.queues["sci"]
    for wrong in (
        replace(sci.status, share="a lot"),
        replace(sci.status, waiting={"cpu": "99999999999E"}),
        replace(sci.status, fair_share={**sci.status.fair_share, "example.com/never-heard-of": "1"}),
    ):
        state.upsert(replace(sci, status=wrong))
        assert [effect.queue for effect in schedule(state.snapshot(NOW), rules).of(SetQueue)] == ["sci"]


def test_updated_queue_statuses_equal_a_rebuilt_table() -> None:
    """Only changed statuses are parsed; the rest of the table and its caches are kept."""
    state, fresh = State(), State()
    for obj in world(TREE):
        state.upsert(obj)
    rules = config("gang, proportion")
    before = state.snapshot(NOW)
    written(state, schedule(before, rules))
    after = state.snapshot(NOW)
    for queue in state.queues.values():
        fresh.upsert(queue)
    anew = fresh.snapshot(NOW).queues
    kept = after.queues
    assert kept.lines is before.queues.lines
    assert (kept.observed.reported != before.queues.observed.reported).any()
    order = [anew.index[name] for name in kept.names]
    assert (kept.observed.reported == anew.observed.reported[:, :, order]).all()
    assert (kept.observed.reported_share == anew.observed.reported_share[order]).all()


def test_a_changed_fair_share_rebuilds_the_table() -> None:
    state = State()
    for obj in world(TREE):
        state.upsert(obj)
    before = state.snapshot(NOW).queues
    state.upsert(replace(state.queues["sci"], spec=replace(state.queues["sci"].spec, weight=7)))
    after = state.snapshot(NOW).queues
    assert (before.weight[before.index["sci"]], after.weight[after.index["sci"]]) == (1, 7)


@pytest.mark.parametrize(
    ("text", "hundredths"),
    [
        ("", -1),
        ("0.42", 42),
        ("12.00", 1200),
        ("1", -2),
        ("0.4", -2),
        ("-1.00", -2),
        ("9" * 30 + ".00", -2),
        ("²³.00", -2),
    ],
)
def test_shares_are_texts_of_hundredths(text: str, hundredths: int) -> None:
    assert observed_queue_status.hundredths(text) == hundredths
    if hundredths != -2:
        assert observed_queue_status.share_text(hundredths) == text


@pytest.mark.parametrize("plugins", ["gang, proportion", "gang, capacity", "gang"])
def test_overflowing_amounts_are_not_reported(plugins: str) -> None:
    """Four queues and four jobs each have amounts close to the largest integer."""
    much = str(2**62 - 1)
    lines = ["node n1 cpu=4", "queue root"]
    for number in range(4):
        lines.append(f"queue q{number} parent=root deserved.memory={much} guarantee.memory={much}")
        lines.append(f"job j{number} queue=q{number} phase=Pending min=1 minres.memory={much}: 1 x cpu=9")
    for effect in decide("\n".join(lines), plugins).of(SetQueue):
        for amounts in (effect.allocated, effect.fair_share, effect.guaranteed, effect.borrowed, effect.waiting):
            for name, text in amounts.items():
                assert 0 < quantity.amount(name, text) < UNLIMITED


class Listening(Observer):
    """Records the queue statuses at the end of a cycle."""

    kept: QueueAmounts

    def queues(self, books: QueueAmounts) -> None:
        self.kept = books


def under(session: Session, queue: int) -> list[int]:
    """Return the queue and its descendants."""
    lines = session.snapshot.queues.lines
    return [row for row in range(len(session.snapshot.queues)) if queue in lines[row].tolist()]


def slow(session: Session, row: int) -> dict[str, list[int]]:
    """Compute the amounts of one queue, task by task and job by job."""
    snapshot, ledger = session.snapshot, session.ledger
    tasks, jobs, size = snapshot.tasks, snapshot.jobs, len(snapshot.axis)
    mine = set(under(session, row))
    held, waiting = [0] * size, [0] * size

    def add(sums: list[int], amounts: list[int]) -> None:
        sums[:] = [one + other for one, other in zip(sums, amounts, strict=True)]

    for job in session.job_rows.tolist():
        if int(jobs.queue[job]) not in mine:
            continue
        there = [0] * size
        for task in snapshot.members(job).tolist():
            request = ledger.request(task).tolist()
            before, now = Status(int(tasks.status[task])), Status(int(ledger.status[task]))
            if HOLDING[now]:
                add(held, request)
            may_start = not tasks.gated[task] and not session.snapshot.blocked[job]
            if now in {Status.PENDING, Status.PIPELINED} and before == Status.PENDING and may_start:
                add(waiting, request)
            if HOLDING[before] or before == Status.PENDING:
                add(there, request)
        if jobs.has_min_resources[job] and ledger.phase[job] in {"Pending", "Inqueue"}:
            least = jobs.min_resources.values[:, job].tolist()
            add(waiting, [max(one - other, 0) for one, other in zip(least, there, strict=True)])
    return {"allocated": held, "waiting": waiting}


def claimed(session: Session, own: list[list[int]], row: int) -> list[int]:
    """Return the fair share, or the sum of the children if that is larger."""
    queues = session.snapshot.queues
    length = len(queues.lines[row])
    children = [
        child for child in range(len(queues)) if queues.parent[child] == row and len(queues.lines[child]) == length + 1
    ]
    below = [claimed(session, own, child) for child in children]
    return [max(mine, sum(child[place] for child in below)) for place, mine in enumerate(own[row])]


@examples(60)
@given(cases())
def test_queue_statuses_equal_sums_over_all_tasks(case: Case) -> None:
    state = State()
    for obj in world(case.world):
        state.upsert(obj)
    rules, actions = case.config(), builtin().actions
    listening = Listening()
    session = Session(state.snapshot(NOW), rules, listening)
    for name in rules.actions:
        actions[name](session, rules.action_arguments.get(name) or actions[name].arguments())
    kept = queue_statuses(session)
    # groups whose queue nobody made take no part; neither do pods without a group
    counted = set(session.job_rows.tolist())
    homeless = [job for job in range(len(session.snapshot.jobs)) if job not in counted]
    claims = session.quotas.reported()
    guarantee = (session.snapshot.queues.guarantee.values if claims is None else claims.reserved).T.tolist()
    for row, queue in enumerate(session.snapshot.queues.objects):
        twin = slow(session, row)
        mine = under(session, row)
        if not any(int(session.snapshot.jobs.queue[job]) in mine for job in homeless):
            assert kept.allocated[:, row].tolist() == twin["allocated"]
        assert kept.waiting[:, row].tolist() == twin["waiting"]
        assert kept.guaranteed[:, row].tolist() == claimed(session, guarantee, row)
        if kept.fair_share is not None and kept.borrowed is not None and kept.share is not None and queue is not None:
            due, held = kept.fair_share[:, row].tolist(), kept.allocated[:, row].tolist()
            pods = session.snapshot.axis.index["pods"]
            over = [
                max(h - d, 0) if place != pods or d else 0 for place, (h, d) in enumerate(zip(held, due, strict=True))
            ]
            assert kept.borrowed[:, row].tolist() == over
            ratios = [h / d for h, d in zip(held, due, strict=True) if d > 0]
            assert kept.share[row] == (max(ratios) if ratios else float(any(held)))


def test_the_share_of_a_queue_without_deserved_is_zero_or_maximal() -> None:
    held, due = np.array([[0, 1, 1]]), np.array([[0, 0, 4]])
    assert allocated_share(held, due).tolist() == [0.0, 1.0, 0.25]


def test_a_plan_does_not_depend_on_observers() -> None:
    state = State()
    for obj in world(TREE):
        state.upsert(obj)
    snapshot, rules = state.snapshot(NOW), config("gang, proportion")
    listening = Listening()
    assert str(schedule(snapshot, rules, observer=listening)) == str(schedule(snapshot, rules))
    assert listening.kept.queues is snapshot.queues


def test_queue_statuses_may_name_unknown_resources() -> None:
    state = State()
    written_fields = core.QueueStatus(state="Open", waiting={"example.com/fpga": "2"})
    state.upsert(core.Queue(metadata=core.Meta(name="q", uid="q"), status=written_fields))
    (effect,) = schedule(state.snapshot(NOW), config("gang")).of(SetQueue)
    assert (effect.queue, effect.waiting) == ("q", {})
