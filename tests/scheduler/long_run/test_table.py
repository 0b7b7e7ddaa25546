"""The table of long runs: shares, waits, evictions and utilisation stay within their bounds.

`make test` runs a row or two for most rules; `make nightly` runs the others.
Shares in a tree are measured by day in :mod:`.test_idle_periods`.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import pytest
from _pytest.mark import ParameterSet

from tests.nightly import nightly
from tests.scheduler.long_run.cases import CASES, GANG_CASES, PAID_BACK_CASES, SHARE_CASES, USER_CASES, config
from tests.scheduler.long_run.measures import Case, Measures, measure

GANGS, PODS = "the heaviest queue has gangs of 16 x 2 cpu", "the heaviest queue has pods of 8 cpu"
LATE_RECLAIM = "the heaviest queue comes late, reclaim"
EVICTING = tuple(case for case in SHARE_CASES if "reclaim" in case.config.actions)
TESTED = {
    "flat queues",
    "capacity, deserved 1:2:3, reclaim",
    "a gang of half the cluster, sla of 10 minutes",
    "jobs of two priorities, preempt",
}
"""The rows of `make test`."""
LONGEST = 20
"""Cycles that a job of the usual mix runs at most."""
WAITS = {
    "a gang of the whole cluster": 3 * LONGEST,
    "a gang of the whole cluster, declared run times": 3 * LONGEST,
    "a gang of the whole cluster, sla of 10 minutes": 10 + LONGEST + 5,
    "a gang of half the cluster": 2 * LONGEST,
    "a gang of half the cluster, sla of 10 minutes": 10 + LONGEST + 5,
    "a gang of half the cluster, priority, preempt": 5,
    "a gang of three quarters of the cluster": 3 * LONGEST,
}
"""The most cycles that the gang waits."""
SLOWEST = 3.0
"""How many times as long as without losses a job waits at most."""

USED = 90
"""Percent of the cluster that are allocated at least."""
LESS_USED = {"tree of three levels, reclaim": 88, "hierarchical drf, reclaim": 88}
"""A queue with a share of 8 cpus keeps the rest of it for its next job of up to 8. With reservations or without, 88.5 to 89.5 percent
are used. If the rest is lent, these are 93.0, but with 14 to 48 evictions for 1,000 starts instead of 0 to 15."""


@cache
def measured(name: str) -> Measures:
    """Return the measures of a case, which is run once."""
    return measure(CASES[name])


_WITHOUT_SINGLES: list[tuple[Case, Measures]] = []


def without_singles(case: Case) -> Measures:
    """Return the measures of a case without its single jobs; cases with equal other jobs are run once."""
    alone = replace(case, name="", singles=())
    known = next((measures for known, measures in _WITHOUT_SINGLES if known == alone), None)
    if known is None:
        known = measure(alone)
        _WITHOUT_SINGLES.append((alone, known))
    return known


def rows(names: Iterable[str]) -> list[ParameterSet]:
    """Return names of cases as parameters of tests."""
    return [pytest.param(name, marks=() if name in TESTED else nightly) for name in names]


def named(cases: Iterable[Case]) -> list[ParameterSet]:
    """Return the names of cases as parameters of tests."""
    return rows(case.name for case in cases)


@pytest.mark.parametrize("name", named((*SHARE_CASES, *USER_CASES, *PAID_BACK_CASES)))
def test_shares_are_within_two_points_of_the_weights(name: str) -> None:
    measures = measured(name)
    assert measures.shares == pytest.approx(measures.expected, abs=2.0)


@pytest.mark.parametrize("name", named(EVICTING))
def test_no_pod_is_evicted_again_for_the_same_queue_within_the_cooldown(name: str) -> None:
    """Where all pods of a job must run together, they are evicted together: then this is true of jobs too."""
    assert measured(name).thrash == 0


@pytest.mark.parametrize("name", named(EVICTING))
def test_no_eviction_leaves_part_of_a_gang(name: str) -> None:
    assert measured(name).partly_evicted == 0


@pytest.mark.parametrize("name", named(EVICTING))
def test_evictions_and_lost_work_are_few(name: str) -> None:
    """The share of a queue that comes late is reclaimed once: half of the cluster, 32 pods of a cpu.

    Pods above a minimum run until they are evicted or their job ends: nothing else would make room at once.
    """
    measures, late = measured(name), "comes late" in name
    assert measures.evictions <= 0.02 * measures.starts + 32 * late
    assert measures.lost <= 1.0 + 1.0 * late


@pytest.mark.parametrize("name", named(case for case in SHARE_CASES if not case.delay))
def test_the_cluster_is_used(name: str) -> None:
    assert measured(name).utilisation >= LESS_USED.get(name, USED)


@nightly
@pytest.mark.parametrize("name", ["flat queues", GANGS, PODS, "tree of three levels"])
def test_reservations_for_heads_of_queues_cost_little_utilisation(name: str) -> None:
    without = measure(replace(CASES[name], config=config()))
    assert measured(name).utilisation >= without.utilisation - 5


@pytest.mark.parametrize("name", named(GANG_CASES))
def test_a_large_gang_starts_in_time(name: str) -> None:
    wait = measured(name).waits["gang"]
    assert wait is not None
    assert wait <= WAITS[name]


@pytest.mark.parametrize("name", rows(CASES))
def test_every_job_starts_within_its_bound(name: str) -> None:
    """In terms of the longest run time, and of the time in which the share of its queue does the work before it."""
    assert measured(name).slowest <= SLOWEST


@pytest.mark.parametrize("name", named(GANG_CASES))
def test_reservations_cost_little_utilisation(name: str) -> None:
    assert measured(name).utilisation >= without_singles(CASES[name]).utilisation - 5


@pytest.mark.parametrize(
    "name", [USER_CASES[0].name, *(pytest.param(name, marks=nightly) for name in ("flat queues", f"{PODS}, reclaim"))]
)
def test_restarts_change_nothing(name: str) -> None:
    case = CASES[name]
    assert measure(replace(case, restarts=tuple(range(0, 70, 13))), cycles=70) == measure(case, cycles=70)
