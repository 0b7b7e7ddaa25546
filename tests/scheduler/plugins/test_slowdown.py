"""slowdown: the order of jobs by their expected slowdown."""

from collections.abc import Mapping
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
from volcanopy.scheduler.framework.config import SchedulerConfig, default, parse
from volcanopy.scheduler.model.plan import Explain
from volcanopy.testing.notation import NOW, world

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


def order(jobs: Mapping[str, Waiting], config: SchedulerConfig | None = None, **arguments: str) -> list[str]:
    """Return the names of jobs that wait in a full cluster, by position."""
    text = "node n1 cpu=1\njob run: 1 x cpu=1 on=n1\n" + "\n".join(f"job {name}: 1 x cpu=1" for name in jobs)
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
    assert order({"long": (30, 0, 600, False), "short": (30, 0, 5, False)}) == ["short", "long"]


def test_a_long_job_that_has_waited_long_enough_precedes_a_short_one() -> None:
    jobs = {"short": (4, 0, 5, False), "long": (479, 0, 600, False)}
    assert order(jobs, longestWait="0s") == ["short", "long"]
    assert order(jobs | {"long": (481, 0, 600, False)}, longestWait="0s") == ["long", "short"]


@pytest.mark.parametrize("known", [(5, 0, False), (0, 5, False), (0, 5, True), (5, 90, False), (90, 5, False)])
def test_limits_and_declared_and_learnt_estimates_count(known: tuple[int, int, bool]) -> None:
    assert order({"unknown": (30, 0, 0, False), "short": (30, *known)}) == ["short", "unknown"]


def test_jobs_without_estimates_are_ordered_by_age() -> None:
    assert order({"a": (1, 0, 0, False), "b": (50, 0, 0, False), "c": (7, 0, 0, False)}) == ["b", "c", "a"]


def test_the_default_configuration_uses_run_times_where_there_are_any() -> None:
    jobs = {"a": (1, 0, 0, False), "b": (50, 0, 0, False), "c": (7, 0, 0, False)}
    assert order(jobs, default(builtin())) == ["b", "c", "a"]
    assert order({**jobs, "short": (7, 0, 5, True)}, default(builtin())) == ["short", "b", "c", "a"]


def test_jobs_that_have_waited_too_long_come_first_by_age() -> None:
    jobs = {"short": (60, 0, 5, False), "long": (61, 0, 6000, False), "longer": (62, 0, 9000, False)}
    assert order(jobs) == ["short", "long", "longer"]
    assert order(jobs, longestWait="1h") == ["longer", "long", "short"]


def test_by_default_jobs_come_first_that_have_waited_longer_than_the_backlog_takes() -> None:
    jobs = {"short": (60, 0, 5, True), "long": (151, 0, 60, True), "longest": (150, 0, 95, True)}
    assert order(jobs) == ["short", "long", "longest"], "160 minutes of work: the limit is 240"
    jobs |= {"long": (241, 0, 60, True)}
    assert order(jobs) == ["long", "short", "longest"]


def test_declared_run_times_count_a_third_for_the_backlog() -> None:
    jobs = {"short": (60, 0, 15, False), "long": (239, 0, 465, False)}
    assert order(jobs) == ["short", "long"], "a third of 480 minutes of work: the limit is 240"
    assert order(jobs | {"long": (241, 0, 465, False)}) == ["long", "short"]


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
        slowdown = float("inf") if waited > 600 else (waited * 60 + run_time * 60) / (run_time * 60)
        return -slowdown, -waited, f"default/{name}"

    assert order(named, longestWait="10h") == sorted(named, key=key)


def test_invalid_arguments_are_rejected() -> None:
    assert "longestWait" in argument_error("slowdown", {"longestWait": "long"})
