"""The search of victims equals the slow and obvious one, and asks no node where the plugins reject every candidate."""

from random import Random
from typing import Any

import pytest

from tests.scheduler import eviction_worlds
from tests.scheduler.actions.test_eviction_by_need import CLASSES, chart, crowd, evicted
from tests.scheduler.reference import eviction_search
from volcanopy.scheduler.actions.evict.victim_search import VictimSearch
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.framework.config import SchedulerConfig
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Evict
from volcanopy.testing.notation import config, decide, snapshot

CASES = 60


def case(seed: int) -> tuple[str, SchedulerConfig]:
    dice = Random(seed)
    if seed % 2:
        return eviction_worlds.world(dice), eviction_worlds.config(dice)
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


def full(nodes: int, gangs: str) -> str:
    """Nodes that are full of pods of low priority, and waiting gangs."""
    running = "".join(
        f"job low{number} priority=low min=0: 4 x cpu=1 on=n{number}\nnode n{number} cpu=4\n" for number in range(nodes)
    )
    return CLASSES + running + gangs


def test_gangs_of_different_sizes_are_searched_for_once_where_no_candidate_may_be_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, search = list[str](), VictimSearch._evictable

    def recorded(self: VictimSearch, task: TaskView, *others: Any) -> Any:
        asked.append(task.key)
        return search(self, task, *others)

    monkeypatch.setattr(VictimSearch, "_evictable", recorded)
    text = full(5, "".join(f"job w{size} priority=low: {size} x cpu=1\n" for size in range(2, 12)))
    assert evicted(decide(text, config("priority, gang | predicates", "preempt"))) == []
    assert asked == ["default/w2-0"] * 5


def test_a_gang_that_fits_without_evictions_is_placed_where_no_candidate_may_be_evicted() -> None:
    """The first gang does not fit on the free node; it says nothing about the second."""
    text = full(2, "node free cpu=2\njob a priority=low: 3 x cpu=1\njob b priority=low: 2 x cpu=1\n")
    plan = decide(text, config("priority, gang | predicates", "preempt, allocate"))
    assert [str(effect) for effect in plan.effects if "bind" in str(effect)] == ["bind b-0 -> free", "bind b-1 -> free"]
