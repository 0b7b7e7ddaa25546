"""The search of victims equals the slow and obvious one, and asks no node where the plugins reject every candidate."""

from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.scheduler.actions.test_eviction_by_need import CLASSES, chart, crowd, evicted
from tests.scheduler.random_cases import evicting_config
from tests.scheduler.reference import eviction_search
from volcanopy.scheduler.actions.evict import evicting_actions, rejected_requests
from volcanopy.scheduler.actions.evict.candidates import Candidates
from volcanopy.scheduler.actions.evict.eviction_bundles import Bundles
from volcanopy.scheduler.actions.evict.eviction_cost import EvictionCosts
from volcanopy.scheduler.actions.evict.rejected_requests import allow_less_for_more
from volcanopy.scheduler.actions.evict.rules import rules_for
from volcanopy.scheduler.actions.evict.victim_search import VictimSearch
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Evict
from volcanopy.scheduler.policies.order.drf import Drf
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing import eviction_worlds
from volcanopy_testing.notation import config, decide, decided, snapshot

CASES = 60


def case(seed: int) -> tuple[str, SchedulerConfig]:
    dice = Random(seed)
    if seed % 2:
        return eviction_worlds.world(dice), evicting_config(dice)
    actions = dice.choice(["preempt, reclaim", "gangpreempt, gangreclaim", "reclaim", "preempt"])
    return crowd(dice), chart(actions, dice.choice(["proportion", "capacity"]))


def test_the_search_equals_the_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case(seed) for seed in range(CASES)]
    plans = [str(schedule(snapshot(text), chosen)) for text, chosen in cases]
    eviction_search.use(monkeypatch)
    evicting = 0
    for (text, chosen), plan in zip(cases, plans, strict=True):
        slow = schedule(snapshot(text), chosen)
        evicting += bool(slow.of(Evict))
        assert str(slow) == plan, text
    assert evicting > CASES / 4


def test_candidates_are_those_of_a_new_list_after_evictions() -> None:
    evicted_rows = 0
    for seed in range(CASES):
        text, chosen = case(seed)
        dice, session = Random(seed), Session(snapshot(text), chosen)
        costs = EvictionCosts(session)
        for queue, jobs in evicting_actions._waiting_jobs(session):
            for action in {"preempt", "reclaim", "gangpreempt", "gangreclaim"} & set(chosen.actions):
                rules = rules_for(session, costs, queue, action)
                task = TaskView(session.ledger, int(jobs[0][1][0]))
                updated = Candidates(session, costs, rules, task, breaks_gangs=True)
                with session.statement() as statement:
                    rows = dice.sample(updated.rows.tolist(), len(updated.rows) // 3)
                    statement.evict_all(np.array(rows, dtype=np.intp), "")
                    updated.update()
                    new = Candidates(session, costs, rules, task, breaks_gangs=True)
                    assert_equal(updated, new)
                    evicted_rows += len(rows)
                updated.update()  # the evictions were undone
                assert_equal(updated, Candidates(session, costs, rules, task, breaks_gangs=True))
    assert evicted_rows > CASES


def assert_equal(updated: Candidates, new: Candidates) -> None:
    """The candidates, the gangs that may be broken, what is free without them, and the bounds of their costs."""
    assert updated.rows.tolist() == new.rows.tolist()
    assert updated.is_evictable.tolist() == new.is_evictable.tolist()
    assert (updated.amounts == new.amounts).all()
    assert (updated.breakable == new.breakable).all()
    bounds, expected = updated.least_cost[:, new.rows], new.least_cost[:, new.rows]
    bounds[1], expected[1] = (np.unique(classes, return_inverse=True)[1] for classes in (bounds[1], expected[1]))
    assert (bounds == expected).all()  # of the classes the order


def test_each_victim_and_each_task_is_moved_once_where_the_first_node_is_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved, move = list[int](), Ledger.move

    def recorded(self: Ledger, task: int, *to: Any) -> tuple[int, int]:
        moved.append(task)
        return move(self, task, *to)

    monkeypatch.setattr(Ledger, "move", recorded)
    jobs = "".join(f"job w{number} priority=high: 1 x cpu=1\n" for number in range(4))
    plan = decide(full(5, jobs), config("priority, gang | predicates", "preempt"))
    assert len(evicted(plan)) == 4
    assert len(moved) == len(set(moved)) == 8


def full(nodes: int, gangs: str) -> str:
    """Nodes that are full of pods of low priority, and waiting gangs."""
    running = "".join(
        f"job low{number} priority=low min=0: 4 x cpu=1 on=n{number}\nnode n{number} cpu=4\n" for number in range(nodes)
    )
    return CLASSES + running + gangs


def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks for which the plugins are asked about candidates, once for each time."""
    asked, allowed = list[str](), VictimSearch._allowed

    def recorded(self: VictimSearch, task: TaskView, rows: Any) -> Any:
        asked.append(task.key)
        return allowed(self, task, rows)

    monkeypatch.setattr(VictimSearch, "_allowed", recorded)
    return asked


def test_gangs_of_different_sizes_are_searched_for_once_where_no_candidate_may_be_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = questions(monkeypatch)
    text = full(5, "".join(f"job w{size} priority=low: {size} x cpu=1\n" for size in range(2, 12)))
    assert evicted(decide(text, config("priority, gang | predicates", "preempt"))) == []
    assert asked == ["default/w2-0"] * 5


def test_a_gang_that_fits_without_evictions_is_placed_where_no_candidate_may_be_evicted() -> None:
    """The first gang does not fit on the free node; it says nothing about the second."""
    text = full(2, "node free cpu=2\njob a priority=low: 3 x cpu=1\njob b priority=low: 2 x cpu=1\n")
    plan = decide(text, config("priority, gang | predicates", "preempt, allocate"))
    assert [str(effect) for effect in plan.effects if "bind" in str(effect)] == ["bind b-0 -> free", "bind b-1 -> free"]


SHARES = "priority, gang | drf, predicates"


def test_gangs_of_larger_requests_are_not_searched_for_where_no_candidate_may_be_evicted_for_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The running gangs are protected whole by drf; a part of each waiting gang fits on the free node."""
    asked = questions(monkeypatch)
    running = "".join(f"node n{number} cpu=4\njob r{number}: 4 x cpu=1 on=n{number}\n" for number in range(5))
    waiting = "".join(f"job w{number}: 4 x cpu={number // 3 + 1} memory={number % 3 + 1}Gi\n" for number in range(9))
    text = f"{running}node free cpu=3\n{waiting}"
    assert evicted(decide(text, config(SHARES, "preempt"))) == []
    assert {key.partition("-")[0] for key in asked} == {"default/w0"}
    assert len(asked) == 10  # in the search of the first gang, and then about its first task alone


def test_the_plugins_are_asked_at_most_twice_about_a_gang_on_many_nodes_that_may_not_be_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each node has a pod of each of the running gangs: once they are asked about all together, once about each alone."""
    asked, allowed = list[int](), VictimSearch._allowed

    def recorded(self: VictimSearch, task: TaskView, rows: Any) -> Any:
        asked.append(len(rows))
        return allowed(self, task, rows)

    monkeypatch.setattr(VictimSearch, "_allowed", recorded)
    nodes, gangs = 12, 6
    on = ",".join(f"n{number}" for number in range(nodes))
    text = CLASSES + "".join(f"node n{number} cpu={gangs}\n" for number in range(nodes))
    text += "".join(f"job r{number} priority=low min={nodes}: {nodes} x cpu=1 on={on}\n" for number in range(gangs))
    plan = decide(text + "job new priority=low: 4 x cpu=3", chart("preempt", "proportion"))
    assert evicted(plan) == []
    assert sum(asked) == 2 * nodes * gangs


def test_a_gang_of_a_smaller_request_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may evict a pod of the large job, which would still have more than it then."""
    asked = questions(monkeypatch)
    text = "node n1 cpu=8\njob r min=1: 8 x cpu=1 on=n1\njob large: 1 x cpu=6\njob small: 1 x cpu=2\n"
    assert evicted(decide(text, config(SHARES, "preempt"))) == ["r-6", "r-7"]
    assert {"default/large-0", "default/small-0"} <= set(asked)


def test_the_policies_that_allow_less_for_more_are_built_in() -> None:
    policies = [
        policy for policy in (*builtin().plugins.values(), ShareRules) if allow_less_for_more(frozenset([policy]))
    ]
    assert {policy.__name__ for policy in policies} == rejected_requests._ALLOW_LESS_FOR_MORE


class Shares(Drf):
    """A policy of a third party that selects victims."""

    name: ClassVar[str] = "shares"


def test_policies_of_third_parties_are_asked_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions(monkeypatch)
    registry = builtin().with_plugins(Shares)
    tiers = "[{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: shares}, {name: predicates}]}]"
    third_party = parse(f"actions: preempt\ntiers: {tiers}", registry)
    text = "node n1 cpu=4\njob r: 4 x cpu=1 on=n1\njob a: 1 x cpu=2\njob b: 1 x cpu=3\n"
    assert evicted(decide(text, third_party)) == []
    assert {"default/a-0", "default/b-0"} == set(asked)


def test_a_gang_is_put_together_again_only_where_one_of_its_pods_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, gangs = 12, 6
    on = ",".join(f"n{number}" for number in range(nodes))
    world = CLASSES + "".join(f"node n{number} cpu={gangs}\n" for number in range(nodes))
    world += "".join(f"job low{number} priority=low min={nodes}: {nodes} x cpu=1 on={on}\n" for number in range(gangs))
    world += "job a priority=high: 4 x cpu=3"
    states, running = list[tuple[Bundles, int, int]](), Bundles._running

    def recorded(self: Bundles, rows: Any) -> list[int]:
        of_tasks = self._session.snapshot.tasks.job
        job = int(of_tasks[rows[0]])
        states.append((self, job, int((of_tasks[self._session.ledger.moved[:]] == job).sum())))
        return running(self, rows)

    monkeypatch.setattr(Bundles, "_running", recorded)
    assert schedule(snapshot(world), chart("gangpreempt", "proportion")).of(Evict)
    assert len(states) == len(set(states)) > gangs


@pytest.mark.parametrize("roles", [("", ""), ("role=ps min=1", "role=worker min=1"), ("role=ps min=1", "role=worker")])
def test_a_job_spares_a_pod_that_may_be_evicted_although_others_would_cost_less(roles: tuple[str, str]) -> None:
    """The last pods of a job are the cheapest; here a budget protects them."""
    state = f"""
        queue q1
        queue q2
        node n1 cpu=4
        budget b allowed=0 selector.app=web
        job a queue=q1 min=3: 2 x cpu=1 {roles[0]} on=n1, 2 x cpu=1 {roles[1]} on=n1 label.app=web
        job new queue=q2: 1 x cpu=1
    """
    lines = decided(decide(state, "gang, pdb | proportion, predicates", "allocate, reclaim"))
    assert [line.rpartition("-")[2] for line in lines if line.startswith("evict")] == ["1: reclaim"]
    assert "nominate new-0 -> n1" in lines
