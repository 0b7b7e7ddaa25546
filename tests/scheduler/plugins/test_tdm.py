"""tdm: nodes that are available to batch jobs for some hours of the day."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.plugins.scene import Scene, argument_error, evicted, made, seen
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.policies.victims.tdm import CLOSED, NOT_REVOCABLE
from volcanopy.scheduler.policy.hours_of_day import hours
from volcanopy.scheduler.policy.roles import Purpose

NIGHT = {"tdm.revocable-zone.night": "22:00-06:00"}
ZONE = "volcanopy.io/revocable-zone"
REVOCABLE = f"note.{ZONE}=*"
NODES = f"node n1 {ZONE}=night cpu=8\nnode n2 cpu=8\n"


def at(clock: str, day: int = 2) -> datetime:
    hour, minute = map(int, clock.split(":"))
    return datetime(2030, 1, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "clock", "is_open"),
    [
        ("08:00-18:00", "07:59", False),
        ("08:00-18:00", "08:00", True),
        ("08:00-18:00", "18:00", False),
        ("22:00-06:00", "23:00", True),
        ("22:00-06:00", "05:59", True),
        ("22:00-06:00", "06:00", False),
        ("22:00-06:00", "12:00", False),
        ("0:00-0:00", "13:00", True),
    ],
)
def test_a_window_over_midnight_is_active_before_and_after_midnight(window: str, clock: str, is_open: bool) -> None:
    assert hours(window).contain(at(clock).time()) is is_open


@given(st.times(), st.times(), st.times())
def test_of_two_complementary_windows_one_is_active(start: time, end: time, now: time) -> None:
    start, end = start.replace(second=0, microsecond=0), end.replace(second=0, microsecond=0)
    one, other = (hours(f"{a:%H:%M}-{b:%H:%M}") for a, b in ((start, end), (end, start)))
    assert one.contain(now) + other.contain(now) == (2 if start == end else 1)


def test_an_active_zone_accepts_and_attracts_revocable_tasks() -> None:
    scene = Scene(seen(f"{NODES}job a: 1 x cpu=1 {REVOCABLE}", now=at("03:00")), {"tdm": NIGHT})
    assert scene.rejected("a-0") == {}
    assert scene.scores("a-0") == {"n1": 100.0, "n2": 0.0}


def test_an_active_zone_rejects_other_tasks() -> None:
    scene = Scene(seen(f"{NODES}job a: 1 x cpu=1", now=at("03:00")), {"tdm": NIGHT})
    assert scene.rejected("a-0") == {"n1": NOT_REVOCABLE}
    assert scene.scores("a-0") == {"n1": 0.0, "n2": 0.0}


@pytest.mark.parametrize("arguments", [NIGHT, {"tdm.revocable-zone.other": "0:00-0:00"}])
def test_inactive_and_unconfigured_zones_reject_all_tasks(arguments: dict[str, str]) -> None:
    scene = Scene(seen(f"{NODES}job a: 1 x cpu=1 {REVOCABLE}", now=at("12:00")), {"tdm": arguments})
    assert scene.rejected("a-0") == {"n1": CLOSED}
    assert scene.session.placement.infeasible_nodes(scene.task("a-0")).tolist() == [True, False]


def test_a_preemptable_pod_is_revocable() -> None:
    text = f"{NODES}job a: 1 x cpu=1 note.volcanopy.io/preemptable=true, 1 x cpu=1 note.volcanopy.io/preemptable=false"
    scene = Scene(seen(text, now=at("03:00")), {"tdm": NIGHT})
    assert scene.rejected("a-0") == {}
    assert scene.rejected("a-1") == {"n1": NOT_REVOCABLE}


def test_equal_tasks_are_placed_by_their_own_revocability() -> None:
    text = f"{NODES}job a: 2 x cpu=1 {REVOCABLE}, 2 x cpu=1"
    binds = {
        effect.pod: effect.node for effect in made(seen(text, now=at("03:00")), {"tdm": NIGHT, "gang": {}}).of(Bind)
    }
    assert binds == {"default/a-0": "n1", "default/a-1": "n1", "default/a-2": "n2", "default/a-3": "n2"}


def test_hours_are_in_the_configured_time_zone() -> None:
    """21:30 UTC is 22:30 in Berlin in winter."""
    text = f"{NODES}job a: 1 x cpu=1 {REVOCABLE}"
    berlin = NIGHT | {"tdm.time-zone": "Europe/Berlin"}
    assert Scene(seen(text, now=at("21:30")), {"tdm": berlin}).rejected("a-0") == {}
    assert Scene(seen(text, now=at("21:30")), {"tdm": NIGHT}).rejected("a-0") == {"n1": CLOSED}


def test_jobs_that_cannot_be_revoked_come_first() -> None:
    text = "node n2 cpu=1\njob a note.volcanopy.io/preemptable=true: 1 x cpu=1\njob b: 1 x cpu=1"
    assert [effect.pod for effect in made(seen(text), {"tdm": {}, "gang": {}}).of(Bind)] == ["default/b-0"]


# Who leaves

BUDGET = "volcanopy.io/jdb"


@pytest.mark.parametrize(
    ("budget", "leave"),
    [
        ("", 1),
        (f"note.{BUDGET}-max-unavailable=30%", 2),
        (f"note.{BUDGET}-max-unavailable=3", 3),
        (f"note.{BUDGET}-max-unavailable=0", 0),
        (f"note.{BUDGET}-min-available=3", 2),
        (f"note.{BUDGET}-min-available=30%", 3),
        (f"note.{BUDGET}-min-available=9", 0),
        (f"note.{BUDGET}-max-unavailable=many", 0),
        (f"note.{BUDGET}-min-available=many", 0),
    ],
)
def test_evictions_from_an_inactive_zone_are_limited_by_the_budget(budget: str, leave: int) -> None:
    text = f"{NODES}job a {budget}: 5 x cpu=1 on=n1 {REVOCABLE}"
    assert len(evicted(seen(text, now=at("12:00")), {"tdm": NIGHT})) == leave


def test_missing_pods_count_against_the_budget() -> None:
    text = f"{NODES}job a note.{BUDGET}-max-unavailable=2: 3 x cpu=1 on=n1, 1 x cpu=1 on=n1 releasing, 1 x cpu=1 on=n2 succeeded"
    assert len(evicted(seen(text, now=at("12:00")), {"tdm": NIGHT})) == 1


def test_no_eviction_outside_inactive_zones() -> None:
    text = f"{NODES}node n3 {ZONE}=strange\njob a: 1 x cpu=1 on=n1\njob b: 1 x cpu=1 on=n2\njob c: 1 x cpu=1 on=n3"
    assert evicted(seen(text, now=at("23:00")), {"tdm": NIGHT}) == []
    assert evicted(seen(text, now=at("12:00")), {"tdm": NIGHT}) == ["a-0"]


def test_the_lowest_priority_and_latest_are_evicted_first() -> None:
    text = f"{NODES}job a: 1 x cpu=1 on=n1 priority=5, 2 x cpu=1 role=w on=n1 priority=2"
    assert evicted(seen(text, now=at("12:00")), {"tdm": NIGHT}) == ["a-w-1"]


def test_unpreemptable_and_critical_pods_are_not_evicted() -> None:
    text = f"{NODES}job a: 1 x cpu=1 on=n1 note.volcanopy.io/preemptable=false\njob b namespace=kube-system: 1 x cpu=1 on=n1"
    assert evicted(seen(text, now=at("12:00")), {"tdm": NIGHT, "conformance": {}}) == []
    assert evicted(seen(text, now=at("12:00")), {"tdm": NIGHT}) == ["kube-system/b-0"]


@pytest.mark.parametrize(
    ("before", "now", "leave"),
    [("12:00", "12:00", 0), ("11:59", "12:00", 1), ("12:01", "12:04", 0), ("12:04", "12:05", 1), ("09:00", "12:03", 1)],
)
def test_a_zone_is_evicted_once_per_period(before: str, now: str, leave: int) -> None:
    """Periods start at midnight: with five minutes one begins at 12:00, the next at 12:05."""
    snapshot = seen(f"{NODES}job a: 5 x cpu=1 on=n1", now=at(now), previous=at(before))
    assert len(evicted(snapshot, {"tdm": NIGHT | {"tdm.evict.period": "5m"}})) == leave


def test_a_repeated_check_in_a_cycle_does_not_hide_a_new_period() -> None:
    """The minute ends between a decision and its check: the next cycle starts the new period."""
    state, minute = State(), timedelta(minutes=1)
    assert state.snapshot(at("11:58"), "first").begins(minute) is False
    assert state.snapshot(at("11:59"), "second").begins(minute) is True
    check = state.snapshot(at("12:00"), "second")
    assert check.previous == at("11:58")
    assert state.snapshot(at("12:00"), "third").begins(minute) is True


def test_unrevocable_tasks_preempt_outside_zones_within_budgets() -> None:
    text = (
        f"{NODES}job old note.{BUDGET}-max-unavailable=2: 3 x cpu=1 on=n2, 1 x cpu=1 on=n1, 1 x cpu=1 on=n2"
        f" note.volcanopy.io/preemptable=false\njob new: 1 x cpu=1, 1 x cpu=1 {REVOCABLE}"
    )
    scene = Scene(seen(text, now=at("23:00")), {"tdm": NIGHT})
    candidates = [scene.task(f"old-{number}") for number in (3, 4, 0, 1, 2)]
    victims = scene.session.hooks.victims[Purpose.PREEMPT](scene.task("new-0"), candidates)
    assert [victim.key for victim in victims] == ["default/old-0", "default/old-1"]
    assert scene.session.hooks.victims[Purpose.PREEMPT](scene.task("new-1"), candidates) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"tdm.revocable-zone.a": "22-6"},
            "tdm.revocable-zone.a: must be hours of the day such as 22:00-06:00, not '22-6'",
        ),
        ({"tdm.revocable-zone.a": "22:00-24:00"}, "a: must be hours of the day, each from 00:00 to 23:59"),
        ({"tdm.evict.period": "0s"}, "tdm.evict.period: must be a duration above zero such as 1m"),
        ({"tdm.evict.period": "soon"}, "tdm.evict.period: must be a duration such as 90s, 10m or 1h30m, not 'soon'"),
        ({"tdm.time-zone": "Middle/Earth"}, "tdm.time-zone: must be a time zone that this system knows"),
        ({"tdm.evict.perod": "1m"}, "unknown argument 'tdm.evict.perod', did you mean 'tdm.evict.period'?"),
    ],
)
def test_invalid_arguments_are_rejected_with_a_message(arguments: dict[str, Any], sentence: str) -> None:
    assert sentence in argument_error("tdm", arguments)
