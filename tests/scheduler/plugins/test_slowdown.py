"""slowdown: the order of jobs by the times at which they are due."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.plugins.scene import argument_error
from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Explain
from volcanopy.scheduler.policy.config import SchedulerConfig, default, parse
from volcanopy_testing.notation import NOW, world

Waiting = tuple[int, int, int, bool]
"""The minutes that a job has waited, its walltime and its estimate in minutes (0 without), and whether that was learnt."""


def configured(arguments: Mapping[str, Any]) -> SchedulerConfig:
    plugins = [
        {"name": "priority"},
        {"name": "gang"},
        {"name": "slowdown", "arguments": arguments},
        {"name": "predicates"},
    ]
    return parse(msgspec.json.encode({"actions": "allocate", "tiers": [{"plugins": plugins}]}).decode(), builtin())


def order(
    jobs: Mapping[str, Waiting], config: SchedulerConfig | None = None, large: Collection[str] = (), **arguments: str
) -> list[str]:
    """Return the names of jobs that wait in a full cluster of 1,000 cpus, by position; they request 1 cpu, large ones all."""
    sizes = {name: 1000 if name in large else 1 for name in jobs}
    waiting = "\n".join(f"job {name}: 1 x cpu={size}" for name, size in sizes.items())
    text = f"node n1 cpu=1000\njob run: 1 x cpu=1000 on=n1\n{waiting}"
    state = State()
    for item in world(text):
        name = item.metadata.name
        if not isinstance(item, core.PodGroup) or name not in jobs:
            state.upsert(item)
        else:
            waited, walltime, estimate, learnt = jobs[name]
            notes = {names.WALLTIME: f"{walltime}m"} if walltime else {}
            if estimate:
                notes[names.LEARNT_ESTIMATE if learnt else names.RUNNING_ESTIMATE] = f"{estimate}m"
            meta = msgspec.structs.replace(
                item.metadata, annotations=notes, creation_timestamp=NOW - timedelta(minutes=waited)
            )
            state.upsert(msgspec.structs.replace(item, metadata=meta))
    plan = schedule(state.snapshot(NOW, "test"), config or configured(arguments))
    positions = {each.job.removeprefix("default/"): int(each.numbers["position"]) for each in plan.of(Explain)}
    return sorted(positions, key=positions.__getitem__)


def test_a_short_job_precedes_a_long_one_that_waits_as_long() -> None:
    assert order({"long": (30, 0, 600, False), "short": (30, 0, 5, False)}, longestWait="168h") == ["short", "long"]


def test_a_long_job_that_has_waited_long_enough_precedes_a_short_one() -> None:
    jobs = {"short": (4, 0, 5, False), "long": (4763, 0, 600, False)}
    assert order(jobs, longestWait="0s") == ["short", "long"], "due in 36 and 37 minutes"
    assert order(jobs | {"long": (4765, 0, 600, False)}, longestWait="0s") == ["long", "short"]


@pytest.mark.parametrize("known", [(5, 0, False), (0, 5, False), (0, 5, True), (5, 90, False), (90, 5, False)])
def test_limits_and_declared_and_learnt_estimates_count(known: tuple[int, int, bool]) -> None:
    assert order({"unknown": (30, 0, 0, False), "short": (30, *known)}, longestWait="168h") == ["short", "unknown"]


def test_jobs_without_estimates_are_ordered_by_age() -> None:
    assert order({"a": (1, 0, 0, False), "b": (50, 0, 0, False), "c": (7, 0, 0, False)}) == ["b", "c", "a"]


def test_the_default_configuration_uses_run_times_where_there_are_any() -> None:
    jobs = {"a": (1, 0, 0, False), "b": (50, 0, 0, False), "c": (7, 0, 0, False)}
    assert order(jobs, default(builtin())) == ["b", "c", "a"]
    jobs["short"] = (7, 0, 5, True)
    assert order(jobs, default(builtin()), large=jobs) == ["short", "b", "c", "a"]


def test_jobs_are_due_after_the_longest_wait_whatever_their_run_times() -> None:
    jobs = {"short": (30, 0, 5, False), "long": (60, 0, 6000, False), "longer": (61, 0, 9000, False)}
    assert order(jobs, longestWait="0s") == ["short", "long", "longer"]
    assert order(jobs, longestWait="50m") == ["longer", "long", "short"]


def test_a_job_that_takes_a_thousandth_of_the_longest_wait_precedes_those_that_have_waited_as_long() -> None:
    jobs = {"short": (0, 0, 9, False), "long": (170 * 60, 0, 6000, False)}
    assert order(jobs, longestWait="168h") == ["short", "long"]
    assert order(jobs | {"short": (0, 0, 11, False)}, longestWait="168h") == ["long", "short"]


def test_short_jobs_precede_no_job_that_has_waited_twice_the_longest_wait() -> None:
    jobs = {"short": (0, 0, 1, False), "long": (2 * 168 * 60, 0, 6000, False)}
    assert order(jobs, longestWait="168h") == ["long", "short"]


@pytest.mark.parametrize(("minutes", "learnt"), [(150, True), (450, False)])
def test_by_default_the_longest_wait_is_one_and_a_half_times_the_time_that_the_waiting_work_takes(
    minutes: int, learnt: bool
) -> None:
    """Users are taken to declare three times what their jobs run, before earlier runs show how much it is."""
    jobs = {"short": (0, 0, 10, learnt), "long": (139, 0, minutes, learnt)}
    assert order(jobs, large=["long"]) == ["short", "long"], "due in 80 and 86 minutes: 225 after its submission"
    assert order(jobs | {"long": (146, 0, minutes, learnt)}, large=["long"]) == ["long", "short"]


def test_what_users_declare_too_much_is_measured_from_earlier_runs() -> None:
    """Earlier runs of 30 jobs took a tenth of what is declared: with the prior of 10 jobs users declare 8.25 times too much."""
    past = {f"past{number}": (0, 600, 60, True) for number in range(30)}
    jobs = {"short": (0, 0, 10, False), "long": (75, 0, 825, False)}
    assert order(past | jobs, large=["long"])[:2] == ["long", "short"], (
        "100 minutes of work, 2 of the others: due in 78"
    )
    assert order(jobs, large=["long"]) == ["short", "long"], "275 minutes of work"


def test_jobs_without_a_run_time_count_with_the_assumed_one_for_the_bound() -> None:
    jobs = {"short": (0, 0, 15, True), "unknown": (119, 0, 0, False)}
    assert order(jobs, large=["unknown"], assumedRuntime="160m") == ["short", "unknown"], "due in 120 and 121 minutes"
    jobs["unknown"] = (121, 0, 0, False)
    assert order(jobs, large=["unknown"], assumedRuntime="160m") == ["unknown", "short"]


def test_the_assumed_run_time_is_that_of_jobs_without_an_estimate() -> None:
    jobs = {"unknown": (30, 0, 0, False), "known": (30, 0, 20, False)}
    assert order(jobs, longestWait="0s") == ["known", "unknown"]
    assert order(jobs, longestWait="0s", assumedRuntime="10m") == ["unknown", "known"]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 900), st.sampled_from((0, 0, 7, 80)), st.sampled_from((0, 3, 30, 300)), st.booleans()),
        min_size=2,
        max_size=8,
    )
)
def test_the_order_is_that_of_the_formula(jobs: list[Waiting]) -> None:
    named = {f"j{number}": job for number, job in enumerate(jobs)}

    def key(name: str) -> tuple[float, int, str]:
        waited, walltime, estimate, _ = named[name]
        run_time = min([each for each in (walltime, estimate) if each], default=60)
        return min(-waited + min(8 * run_time, 600), -600 + 1000 * run_time), -waited, f"default/{name}"

    assert order(named, longestWait="10h") == sorted(named, key=key)


def test_invalid_arguments_are_rejected() -> None:
    assert "longestWait" in argument_error("slowdown", {"longestWait": "long"})
