"""reservation: which jobs are backfilled before a reserved one, by their expected run times."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.plugins.cluster_over_time import ClusterOverTime
from tests.scheduler.plugins.test_reservation import HALF, LIMITED, bound, configured, explanation
from volcanopy.api import names
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import SchedulerConfig, parse
from volcanopy_testing.notation import decide

ESTIMATE = f"note.{names.RUNNING_ESTIMATE}"
LEARNT = f"note.{names.LEARNT_ESTIMATE}"


@pytest.mark.parametrize("estimate", [ESTIMATE, LEARNT])
def test_estimates_let_jobs_run_ahead(estimate: str) -> None:
    half = HALF.replace(f"job run: 1 x cpu=4 on=n1 {LIMITED}=30m", f"job run {estimate}=30m: 1 x cpu=4 on=n1")
    assert bound(decide(f"{half}job small {estimate}=29m: 1 x cpu=2", configured())) == {"small-0": "n2"}
    assert bound(decide(f"{half}job small {estimate}=31m: 1 x cpu=2", configured())) == {}
    assert bound(decide(f"{half}job small: 1 x cpu=2", configured())) == {}
    assert explanation(decide(half, configured()), "big").numbers["expected"] == "2030-01-02T00:30:00Z"


def test_the_basis_walltime_only_uses_estimates_to_choose_nodes() -> None:
    limits = configured({"after": "5m", "basis": "walltime"})
    assert bound(decide(f"{HALF}job small {ESTIMATE}=1m: 1 x cpu=2", limits)) == {}
    world = f"""
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=4
    job a {ESTIMATE}=50m: 1 x cpu=4 on=n1
    job b {ESTIMATE}=10m: 1 x cpu=4 on=n2
    job c {ESTIMATE}=20m: 1 x cpu=4 on=n3
    job big: 2 x cpu=4
    """
    numbers = explanation(decide(world, limits), "big").numbers
    assert numbers["reserved"] == "n2, n3"
    assert "expected" not in numbers
    assert explanation(decide(world, configured()), "big").numbers["expected"] == "2030-01-02T00:20:00Z"


def test_the_basis_assumed_takes_the_assumed_run_time_of_others_as_known() -> None:
    world = f"{HALF.replace(f' {LIMITED}=30m', '')}job small {{}}: 1 x cpu=2"
    assumed = configured({"after": "5m", "basis": "assumed", "assumedRuntime": "2h"})
    assert bound(decide(world.format(""), configured())) == {}
    assert bound(decide(world.format(f"{ESTIMATE}=119m"), assumed)) == {"small-0": "n2"}
    assert bound(decide(world.format(f"{ESTIMATE}=121m"), assumed)) == {}


@pytest.mark.parametrize(
    ("known", "limit", "ends"),
    [
        (f"{ESTIMATE}=30m", "", 60),
        (f"{LEARNT}=30m", "", 120),
        (f"{LEARNT}=30m note.{names.WALLTIME}=10h", "", 60),
        (f"{LEARNT}=30m", f"{LIMITED}=10h", 60),
    ],
)
def test_an_overdue_job_is_expected_to_run_twice_as_long_and_without_a_declared_time_four_times(
    known: str, limit: str, ends: int
) -> None:
    time = ClusterOverTime(f"node n1 cpu=4\nnode n2 cpu=4\njob run {known}: 1 x cpu=4 on=n1 {limit}", configured())
    time.come("job big: 2 x cpu=4")
    for _ in range(40):
        time.cycle()
    time.come(f"job late {ESTIMATE}={ends - 39}m: 1 x cpu=2\njob short {ESTIMATE}={ends - 41}m: 1 x cpu=2")
    time.cycle()
    assert (time.runs_on("short-0"), time.runs_on("late-0")) == ("n2", ""), "it has run for 40 minutes"
    assert time.runs_on("run-0") == "n1"


def test_a_learnt_time_that_was_too_short_doubles_once_for_jobs_that_started_late_in_the_wait() -> None:
    time = ClusterOverTime(f"node n1 cpu=4\nnode n2 cpu=4\njob run {ESTIMATE}=20m: 1 x cpu=4 on=n1", configured())
    time.come("job big: 2 x cpu=4")
    for _ in range(10):
        time.cycle()
    time.come(f"job ahead {LEARNT}=5m: 1 x cpu=2")
    for _ in range(6):
        time.cycle()
    time.come(f"job late {ESTIMATE}=6m: 1 x cpu=2\njob short {ESTIMATE}=3m: 1 x cpu=2")
    time.cycle()
    assert time.runs_on("ahead-0") == "n2"
    assert (time.runs_on("short-0"), time.runs_on("late-0")) == ("n2", ""), "the big job starts after 20 minutes"


def test_the_reservation_of_a_second_job_begins_when_the_first_has_ended() -> None:
    walltime = f"note.{names.WALLTIME}"
    world = f"""
    node n1 cpu=4
    node n2 cpu=4
    job run {walltime}=30m: 1 x cpu=4 on=n1
    job big {ESTIMATE}=20m: 2 x cpu=4
    job next {ESTIMATE}=60m: 2 x cpu=3
    job short {ESTIMATE}=29m: 1 x cpu=2
    """
    plan = decide(world, configured({"heads": 2, "after": "0s"}))
    assert explanation(plan, "big").numbers["expected"] == "2030-01-02T00:30:00Z"
    assert explanation(plan, "next").numbers["expected"] == "2030-01-02T00:50:00Z"
    assert bound(plan) == {"short-0": "n2"}


Ends = list[tuple[int, int]]
"""Of each job: its cpus and its estimated run time in minutes."""


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from((10, 20, 30, 120))), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from((5, 15, 20, 180))), max_size=5),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
)
def test_no_reserved_job_is_delayed_by_a_job_whose_estimate_holds(
    running: Ends, coming: Ends, gang: tuple[int, int]
) -> None:
    """The earliest start of the gang, found by trying all ends in turn, is the same with the jobs that are backfilled."""
    lines = [f"node n{number} cpu=4" for number in range(1, 4)]
    free, ends = dict.fromkeys(("n1", "n2", "n3"), 4), list[tuple[int, str, int]]()
    for number, (cpu, minutes) in enumerate(running):
        node = f"n{number % 3 + 1}"
        if free[node] >= cpu:
            free[node] -= cpu
            ends.append((minutes, node, cpu))
            lines.append(f"job r{number} {ESTIMATE}={minutes}m: 1 x cpu={cpu} on={node}")
    lines.append(f"job big: {gang[0]} x cpu={gang[1]}")
    lines += [f"job c{number} {ESTIMATE}={minutes}m: 1 x cpu={cpu}" for number, (cpu, minutes) in enumerate(coming)]

    def earliest(free: dict[str, int], ends: list[tuple[int, str, int]]) -> int | None:
        left = dict(free)
        for minute in sorted({0, *(minutes for minutes, _, _ in ends)}):
            for _, node, cpu in (each for each in ends if each[0] == minute):
                left[node] += cpu
            if sum(amount // gang[1] for amount in left.values()) >= gang[0]:
                return minute
        return None

    places = bound(decide("\n".join(lines), configured()))
    if "big-0" in places:
        return
    expected = earliest(free, ends)
    for number, (cpu, minutes) in enumerate(coming):
        if f"c{number}-0" in places:
            free[places[f"c{number}-0"]] -= cpu
            ends.append((minutes, places[f"c{number}-0"], cpu))
    assert earliest(free, ends) == expected


CLAIMED = f"""
node n1 cpu=8
node n2 cpu=8
queue a
queue b
job run queue=a {ESTIMATE}=30m: 2 x cpu=5 on=n1,n2
job big queue=b: 1 x cpu=6
"""
"""Queue b is below its share and claims the 6 cpus that are free, of which its job cannot use any before a job of queue a ends."""


def with_shares(arguments: Mapping[str, str], actions: str = "enqueue, allocate") -> SchedulerConfig:
    """Return a configuration with fair shares by weight."""
    first = [{"name": "priority"}, {"name": "gang"}, {"name": "reservation", "arguments": dict(arguments)}]
    second = [{"name": "proportion"}, {"name": "predicates"}]
    document = {"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]}
    return parse(msgspec.json.encode(document).decode(), builtin())


def test_a_job_with_a_run_time_is_lent_what_a_queue_with_a_reservation_claims() -> None:
    short = f"{CLAIMED}job short queue=a {ESTIMATE}=29m: 1 x cpu=2"
    assert bound(decide(short, with_shares({"after": "5m"}))) in ({"short-0": "n1"}, {"short-0": "n2"})
    assert bound(decide(short, with_shares({"after": "never"}))) == {}, (
        "no reservation keeps the start of the job of queue b"
    )
    assert bound(decide(short, with_shares({"after": "5m"}, "enqueue, allocate, reclaim"))) == {}, (
        "it would be reclaimed"
    )


def test_a_queue_does_not_claim_what_its_job_with_a_reservation_cannot_use() -> None:
    other = f"{CLAIMED}job other queue=a: 1 x cpu=3"
    assert len(bound(decide(other, with_shares({"after": "5m"})))) == 1
    assert bound(decide(other, with_shares({"after": "never"}))) == {}
    assert bound(decide(other, with_shares({"after": "5m"}, "enqueue, allocate, reclaim"))) == {}
    both = f"{CLAIMED}job other queue=a: 2 x cpu=3"
    assert bound(decide(both, with_shares({"after": "5m"}))) == {}, "one node is reserved"


def test_a_lent_job_does_not_delay_the_reserved_one_of_the_other_queue() -> None:
    both = f"{CLAIMED}job long queue=a {ESTIMATE}=31m: 2 x cpu=3"
    assert bound(decide(both, with_shares({"after": "5m"}))) == {}
    one = f"{CLAIMED}job long queue=a {ESTIMATE}=31m: 1 x cpu=3"
    assert len(bound(decide(one, with_shares({"after": "5m"})))) == 1, "the other node is reserved"
