"""Estimated starts: by walltimes, estimates and learnt run times, in the order in which jobs start; or why they are unknown."""

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.nightly import examples
from tests.whatif.asking import batch_job, bodies, engine, loaded
from volcanopy.api import names
from volcanopy.api.core import PodGroup
from volcanopy.scheduler.model.run_times import RunTime, run_time
from volcanopy.scheduler.policy.config import SchedulerConfig
from volcanopy.whatif.engine import Budget
from volcanopy.whatif.expected import StartEstimate, estimated_starts
from volcanopy_testing.notation import NOW, config

WALLTIME, ESTIMATE, LEARNT = (f"note.{key}" for key in (names.WALLTIME, names.RUNNING_ESTIMATE, names.LEARNT_ESTIMATE))
RULES = config("priority, gang, predicates, proportion", "enqueue, allocate, backfill")


def starts(text: str, *new: dict[str, object], rules: SchedulerConfig = RULES, cycles: int = 2000) -> dict[str, str]:
    """The estimated starts of the waiting jobs of a world, in minutes from now, by name."""
    cluster = engine(loaded([*bodies(text), *new]).cluster, rules)
    result = estimated_starts(cluster, Budget(cycles))
    return {group.partition("/")[2].partition("-")[0]: _text(estimate) for group, estimate in result.items()}


def _text(estimate: StartEstimate) -> str:
    if estimate.time is None:
        return estimate.message
    return f"{(estimate.time - NOW) / timedelta(minutes=1):g} {estimate.basis}"


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (f"{WALLTIME}=2h", "120 walltime"),
        (f"{ESTIMATE}=30m", "30 estimate"),
        (f"{WALLTIME}=2h {ESTIMATE}=30m", "30 estimate"),
        (f"{WALLTIME}=20m {ESTIMATE}=30m", "20 walltime"),
        (f"{LEARNT}=10m", "10 learnt"),
        (f"{LEARNT}=10m {ESTIMATE}=30m", "30 estimate"),
        ("", "job run declares no run time"),
    ],
)
def test_a_job_starts_when_the_one_before_it_is_expected_to_end(note: str, expected: str) -> None:
    assert starts(f"node n1 cpu=4\njob run {note}: 1 x cpu=4 on=n1\njob next: 1 x cpu=4") == {"next": expected}


def test_the_run_time_of_a_job_is_read_once_for_all_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[str] = []

    def counted(group: PodGroup) -> RunTime:
        jobs.append(group.metadata.name)
        return run_time(group)

    monkeypatch.setattr("volcanopy.whatif.engine.run_time", counted)
    starts("node n1 cpu=4\njob run: 4 x cpu=1 on=n1\njob next: 1 x cpu=4")
    assert jobs == ["run", "run"], "for the ends of its pods, and for the jobs without an end"


def test_jobs_that_wait_follow_each_other() -> None:
    text = f"""
    node n1 cpu=4
    job run {WALLTIME}=1h: 1 x cpu=4 on=n1
    job a {ESTIMATE}=30m: 1 x cpu=4
    job b {LEARNT}=10m: 1 x cpu=4
    job c: 1 x cpu=4
    job d: 1 x cpu=4
    """
    assert starts(text) == {
        "a": "60 walltime",
        "b": "90 estimate",
        "c": "100 learnt",
        "d": "job c declares no run time",
    }


def test_a_gang_waits_for_all_the_nodes_that_it_needs() -> None:
    text = f"""
    node n1 cpu=4
    node n2 cpu=4
    node n3 cpu=4
    job a {ESTIMATE}=10m: 1 x cpu=4 on=n1
    job b {ESTIMATE}=50m: 1 x cpu=4 on=n2
    job c: 1 x cpu=4 on=n3
    job wide: 2 x cpu=4
    job wider: 3 x cpu=4
    """
    assert starts(text) == {"wide": "50 estimate", "wider": "job wide and 1 other job declare no run time"}


def test_a_job_that_fits_starts_now() -> None:
    assert starts("node n1 cpu=4\njob a: 1 x cpu=4") == {"a": "0 now"}


def test_a_job_that_never_fits_has_no_estimate() -> None:
    text = f"node n1 cpu=4\njob run {ESTIMATE}=1h: 1 x cpu=4 on=n1\njob big: 1 x cpu=8"
    assert starts(text) == {"big": "it does not start when other jobs have ended"}


def test_the_reason_is_no_job_without_a_run_time_if_its_end_would_not_help() -> None:
    """Those jobs end first, and those that start meanwhile: only then it is known what does not start."""
    text = """
    node n1 cpu=4
    node n2 cpu=4
    job run: 1 x cpu=4 on=n1
    job wide: 2 x cpu=4
    job wider: 2 x cpu=3
    job widest: 3 x cpu=4
    job apart: 3 x cpu=1 port=80
    """
    never = "it does not start when other jobs have ended"
    unknown = "job run declares no run time"
    assert starts(text) == {"wide": unknown, "wider": unknown, "widest": never, "apart": never}


def test_a_running_job_that_has_a_pod_left_to_run_is_the_reason_for_the_job_behind_it() -> None:
    text = "node n1 cpu=6\njob run min=3: 3 x cpu=2 on=n1, 1 x cpu=2\njob next phase=Pending minres.cpu=6: 2 x cpu=3"
    assert starts(text) == {"next": "job run declares no run time"}


def test_new_jobs_are_submitted_with_their_run_times() -> None:
    first, second = batch_job("first", 1, "4", activeDeadlineSeconds=600), batch_job("second", 1, "4")
    assert starts("node n1 cpu=4\nqueue default", first, second) == {"first": "0 now", "second": "10 walltime"}


def test_an_overdue_job_ends_later_and_is_not_forgotten() -> None:
    text = f"node n1 cpu=4\njob run {ESTIMATE}=30m: 1 x cpu=4 on=n1\njob next: 1 x cpu=4"
    made = engine(loaded(bodies(text)).cluster, RULES)
    began, pod = NOW, made.cluster.pod("default/run-0")
    assert pod is not None
    made.cluster.put(replace(pod, status=replace(pod.status, start_time=began)))
    for minutes, expected, basis in ((29, 30, "estimate"), (30, 60, "overdue"), (100, 120, "overdue")):
        made.now = began + timedelta(minutes=minutes)
        (estimate,) = estimated_starts(made, Budget(100)).values()
        assert (estimate.time, estimate.basis) == (began + timedelta(minutes=expected), basis)


def _is_later(before: StartEstimate, after: StartEstimate) -> bool:
    assert before.time is not None
    assert after.time is not None
    return after.time > before.time


@examples(25)
@given(
    ends=st.lists(st.integers(1000, 9000), min_size=2, max_size=6),
    times=st.lists(st.integers(1, 900), min_size=1, max_size=6).map(sorted),
)
@example(ends=[1000, 1049, 1060], times=[100])
def test_an_estimate_does_not_move_later_while_nothing_changes(ends: list[int], times: list[int]) -> None:
    """Time passes, but no job ends, starts or becomes overdue."""
    running = "\n".join(
        f"node n{number} cpu=1\njob r{number} {ESTIMATE}={end}s: 1 x cpu=1 on=n{number}"
        for number, end in enumerate(ends)
    )
    waiting = "\n".join(f"job w{number} {ESTIMATE}=700s: 1 x cpu=1" for number in range(len(ends)))
    made = engine(loaded(bodies(f"{running}\n{waiting}")).cluster, RULES)
    for number in range(len(ends)):
        pod = made.cluster.pod(f"default/r{number}-0")
        assert pod is not None
        made.cluster.put(replace(pod, status=replace(pod.status, start_time=NOW)))
    before = estimated_starts(made, Budget(1000))
    for seconds in times:
        made.now = NOW + timedelta(seconds=seconds)
        after = estimated_starts(made, Budget(1000))
        later = {job: (start.time, after[job].time) for job, start in before.items() if _is_later(start, after[job])}
        assert not later
        before = after


def test_a_budget_that_ends_is_the_reason() -> None:
    text = f"node n1 cpu=4\njob run {ESTIMATE}=30m: 1 x cpu=4 on=n1\njob next: 1 x cpu=4"
    assert starts(text, cycles=1) == {"next": "the search took too long"}


def test_many_ends_are_taken_together_with_a_small_error() -> None:
    running = "\n".join(
        f"node n{number} cpu=1\njob r{number} {ESTIMATE}={number + 60}m: 1 x cpu=1 on=n{number}" for number in range(60)
    )
    made = engine(loaded(bodies(f"{running}\njob wide: 60 x cpu=1")).cluster, RULES)
    budget = Budget(2000)
    estimate = estimated_starts(made, budget)["default/wide"]
    assert estimate.time == NOW + timedelta(minutes=119)
    assert budget.used < 60


def test_a_job_with_alternatives_starts_with_the_one_that_finishes_first() -> None:
    def changed(**requests: str) -> list[dict[str, object]]:
        containers = [{"name": "main", "resources": {"requests": requests}}]
        return [{"name": "w", "template": {"spec": {"containers": containers}}}]

    world = f"""
    node c1 cpu=4
    node g1 cpu=4 gpu=1
    job run {WALLTIME}=10m: 1 x gpu=1 on=g1
    """

    def job(cpu_time: str) -> dict[str, object]:
        alternatives = [
            {"name": "gpu", "runningEstimate": "10m", "tasks": changed(**{"nvidia.com/gpu": "1"})},
            {"name": "cpu", "runningEstimate": cpu_time, "tasks": changed(cpu="4")},
        ]
        body = batch_job("next", 1, cpu="1")
        return {**body, "spec": {**body["spec"], "alternatives": alternatives}}

    rules = config("priority, gang, overcommit, predicates, proportion", "enqueue, allocate, backfill")
    assert starts(world, job("15m"), rules=rules) == {"next": "0 now"}
    assert starts(world, job("1h"), rules=rules) == {"next": "10 walltime"}
