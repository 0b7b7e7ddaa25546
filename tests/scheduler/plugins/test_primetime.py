"""primetime: an order of jobs in the busy hours of working days, and another one outside."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.scheduler.plugins.scene import argument_error
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Explain
from volcanopy.scheduler.policy.config import parse
from volcanopy_testing.notation import all_policies, world

MONDAY = datetime(2030, 1, 7, 12, tzinfo=UTC)
"""Noon."""
JOBS = {"small": "1 x cpu=1", "wide": "8 x cpu=1", "gpu": "1 x gpu=3"}
"""Of 16 cpus and 4 gpus: a sixteenth, a half and three quarters of the cluster."""


def order(
    at: datetime = MONDAY, ages: dict[str, int] | None = None, walltimes: dict[str, str] | None = None, **arguments: Any
) -> list[str]:
    """Return the names of the waiting jobs by position; all are an hour old unless their ages in hours are given."""
    jobs = JOBS if walltimes is None else dict.fromkeys(walltimes, "1 x cpu=1")
    text = "node n1 cpu=16 gpu=4\njob run: 1 x cpu=16 gpu=4 on=n1\n"
    text += "\n".join(f"job {name}: {tasks}" for name, tasks in jobs.items())
    state = State()
    for item in world(text):
        if isinstance(item, core.PodGroup):
            name = item.metadata.name
            limit = (walltimes or {}).get(name)
            created = at - timedelta(hours=(ages or {}).get(name, 1))
            notes = {names.WALLTIME: limit} if limit else {}
            meta = msgspec.structs.replace(item.metadata, creation_timestamp=created, annotations=notes)
            state.upsert(msgspec.structs.replace(item, metadata=meta))
        else:
            state.upsert(item)
    plugins = [{"name": "gang"}, {"name": "primetime", "arguments": arguments}, {"name": "predicates"}]
    document = msgspec.json.encode({"actions": "allocate", "tiers": [{"plugins": plugins}]}).decode()
    plan = schedule(state.snapshot(at, "test"), parse(document, all_policies()))
    positions = {each.job.removeprefix("default/"): int(each.numbers["position"]) for each in plan.of(Explain)}
    return sorted(positions, key=positions.__getitem__)


SMALLEST_FIRST, LARGEST_FIRST = ["small", "wide", "gpu"], ["gpu", "wide", "small"]


@pytest.mark.parametrize(
    ("at", "prime"),
    [
        (MONDAY, True),
        (MONDAY.replace(hour=8), True),
        (MONDAY.replace(hour=7, minute=59), False),
        (MONDAY.replace(hour=18), False),
        (MONDAY + timedelta(days=4), True),
        (MONDAY + timedelta(days=5), False),
    ],
)
def test_small_jobs_are_first_in_the_hours_of_working_days_and_large_ones_outside(at: datetime, prime: bool) -> None:
    assert order(at) == (SMALLEST_FIRST if prime else LARGEST_FIRST)


@pytest.mark.parametrize(("days", "prime"), [(["Sun"], True), (["Mon"], False)])
def test_hours_over_midnight_are_of_the_day_on_which_they_start(days: list[str], prime: bool) -> None:
    found = order(MONDAY.replace(hour=3), hours="22:00-06:00", days=days)
    assert found == (SMALLEST_FIRST if prime else LARGEST_FIRST)


def test_hours_are_in_the_time_zone() -> None:
    assert order(MONDAY.replace(hour=7, minute=30), timeZone="Europe/Berlin") == SMALLEST_FIRST
    assert order(MONDAY.replace(hour=17, minute=30), timeZone="Europe/Berlin") == LARGEST_FIRST


def test_each_order_can_be_configured() -> None:
    walltimes = {"unknown": "", "short": "10m", "long": "5h"}
    assert order(walltimes=walltimes, primeOrder="shortest") == ["short", "unknown", "long"]
    assert order(walltimes=walltimes, primeOrder="longest") == ["long", "unknown", "short"]
    assert order(walltimes=walltimes, primeOrder="shortest", assumedRuntime="1m") == ["unknown", "short", "long"]
    ages = {"wide": 3, "gpu": 2}
    assert order(ages=ages, primeOrder="none") == ["wide", "gpu", "small"]
    assert order(MONDAY.replace(hour=3), ages=ages, nonPrimeOrder="none") == ["wide", "gpu", "small"]


def test_jobs_that_have_waited_too_long_come_first_by_age() -> None:
    ages = {"wide": 25, "gpu": 26}
    assert order(ages=ages) == SMALLEST_FIRST
    assert order(ages=ages, longestWait="24h") == ["gpu", "wide", "small"]
    assert order(ages={"gpu": 200}) == ["gpu", "small", "wide"]
    assert order(ages={"gpu": 200}, longestWait="0s") == SMALLEST_FIRST


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"hours": "8-18"}, "hours: must be hours of the day such as 22:00-06:00"),
        ({"days": ["Monday"]}, "days"),
        ({"timeZone": "Mars"}, "timeZone: must be a time zone that this system knows"),
        ({"primeOrder": "big"}, "primeOrder"),
    ],
)
def test_invalid_arguments_are_rejected(arguments: dict[str, Any], problem: str) -> None:
    assert problem in argument_error("primetime", arguments)
