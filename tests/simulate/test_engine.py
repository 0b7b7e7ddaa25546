"""The simulator: jobs start and end when they must, plans are valid, and the same seed gives the same outcome."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, default, parse
from volcanopy_lab.simulate.cluster_description import equal_nodes, queues, with_default_queue
from volcanopy_lab.simulate.engine import Options, Simulator
from volcanopy_lab.simulate.generators import ML_QUEUES, lublin, ml_mix, poisson
from volcanopy_lab.simulate.measures import Measures, bounded_slowdown, interval, measure
from volcanopy_lab.simulate.outcome import JobEviction, JobOutcome, Outcome
from volcanopy_lab.simulate.workload import Estimates, Job, JobAlternative, WorkloadError, load_of
from volcanopy_testing.notation import NOW, world

CHECKED = Options(checked=True)
TWO_NODES = with_default_queue(equal_nodes(2, {"cpu": "4"}))
EVICTING = DEFAULT.replace("enqueue, allocate, backfill", "enqueue, allocate, gangpreempt, gangreclaim, backfill")


def simulated(
    jobs: Sequence[Job], objects: Sequence[Object] = TWO_NODES, options: Options = CHECKED, config: str = ""
) -> Outcome:
    """Return the outcome of a run, of which every plan is checked."""
    chosen: SchedulerConfig = parse(config, builtin()) if config else default(builtin())
    return Simulator(objects, jobs, chosen, options).run()


def times(outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Return start and end of each job."""
    return {job.name: (job.start, job.end) for job in outcome.jobs}


def test_a_job_starts_when_it_is_admitted_and_has_its_pods_and_ends_after_its_run_time() -> None:
    outcome = simulated([Job("a", 10, 100, pods=8)])
    assert times(outcome) == {"a": (11, 111)}


def test_a_job_waits_until_another_ends() -> None:
    """It is admitted to its queue in one cycle, and started in the next."""
    outcome = simulated([Job("a", 0, 100, pods=8), Job("b", 5, 50)])
    assert times(outcome) == {"a": (1, 101), "b": (102, 152)}
    assert outcome.utilisation["cpu"] == pytest.approx((8 * 100 + 50) / (8 * 152))


@pytest.mark.parametrize(("mode", "start"), [("", 11), ("soft", 11), ("hard", 101)])
def test_a_gang_that_requires_a_hypernode_waits_until_one_has_room_for_it(mode: str, start: float) -> None:
    """Of four nodes, one in each of two racks is free."""
    racks = world("hypernode a tier=1: node-0 node-1\nhypernode b tier=1: node-2 node-3")
    objects = [*with_default_queue(equal_nodes(4, {"cpu": "4"})), *racks]
    blocking = [
        Job(name, 0, run_time, requests={"cpu": "4"}, node_selector={"kubernetes.io/hostname": node})
        for name, run_time, node in (("short", 100, "node-0"), ("long", 500, "node-2"))
    ]
    topology = core.NetworkTopology(mode=mode, highest_tier_allowed=1) if mode else None
    gang = Job("gang", 10, 10, pods=2, requests={"cpu": "4"}, topology=topology)
    assert times(simulated([*blocking, gang], objects))["gang"][0] == start


def test_a_job_is_ended_at_its_walltime() -> None:
    assert times(simulated([Job("a", 0, 100, walltime=60)])) == {"a": (1, 61)}


def test_a_job_without_end_runs_until_the_end_of_the_simulation() -> None:
    outcome = simulated([Job("a", 0, math.inf, pods=4)], options=Options(until=1000))
    assert times(outcome) == {"a": (1, -1)}
    assert outcome.allocated["cpu"] == 0.5


def test_admission_rejects_jobs_of_queues_that_do_not_exist() -> None:
    outcome = simulated([Job("a", 0, 10, queue="none"), Job("b", 0, 10)])
    assert list(outcome.rejected) == ["a"]
    assert 'queue "none"' in outcome.rejected["a"]
    assert [job.name for job in outcome.jobs] == ["b"]


def test_a_job_that_loses_its_pods_to_a_higher_priority_starts_again() -> None:
    jobs = [Job("low", 0, 100, pods=8, preemptable=True), Job("high", 50, 20, pods=4, priority=1000)]
    outcome = simulated(jobs, config=EVICTING)
    (eviction,) = outcome.evictions
    assert (eviction.job, eviction.preemptor) == ("low", "high")
    assert eviction.lost == 8 * 50
    low = next(job for job in outcome.jobs if job.name == "low")
    assert (low.start, low.lost) == (1, 50)
    assert low.end - low.start == pytest.approx(100 + 50 + 22, abs=3)


def test_the_same_seed_gives_the_same_outcome_and_valid_plans() -> None:
    nodes = equal_nodes(4, {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8"})
    jobs = ml_mix(24, gpus=32, days=0.2, seed=7)
    options = Options(checked=True, estimates="learnt", samples=20, heartbeat=3600)
    first, again = (
        simulated(jobs, with_default_queue([*nodes, *queues(ML_QUEUES)]), options, EVICTING) for _ in range(2)
    )
    assert first == again
    assert measure(first).never_started == 0


def test_shares_waits_and_evictions_of_a_small_trace_are_within_their_thresholds() -> None:
    jobs = poisson(60, cpus=16, load=1.5, sizes=(1, 1, 2), run_time=600, queues=("a", "b"), seed=1)
    objects = with_default_queue([*equal_nodes(2, {"cpu": "8"}), *queues({"a": 3, "b": 1})])
    measures = measure(simulated(jobs, objects, Options(checked=True, samples=20), EVICTING))
    assert measures.evictions > 0
    assert measures.thrash == 0
    assert measures.starved == 0
    assert measures.never_started == 0
    assert measures.fairness_distance < 0.05
    assert measures.lost < 0.1


def test_jobs_of_a_snapshot_end_by_their_walltime_or_stay() -> None:
    objects = world(
        """
        node n1 cpu=4
        queue default
        job runs note.volcanopy.io/walltime=100s: 2 x cpu=1 on=n1
        job stays: 1 x cpu=1 on=n1
        """
    )
    simulator = Simulator(
        objects, [Job("new", 0, 10, pods=3)], default(builtin()), Options(checked=True, until=500), start=NOW
    )
    jobs = {job.name: job for job in simulator.run().jobs}
    assert jobs["runs"].end <= 100
    assert jobs["stays"].end == -1
    assert jobs["new"].start >= jobs["runs"].end


def test_generated_workloads_have_their_load_and_follow_their_seed() -> None:
    for jobs, again, other in (
        (lublin(300, seed=1), lublin(300, seed=1), lublin(300, seed=2)),
        (poisson(300, seed=1), poisson(300, seed=1), poisson(300, seed=2)),
    ):
        assert jobs == again
        assert jobs != other
        assert load_of(jobs, {"cpu": 128_000}) == pytest.approx(0.9)
    work = sum(int(job.requests["nvidia.com/gpu"]) * job.pods * job.run_time for job in ml_mix())
    assert work == pytest.approx(0.9 * 128 * 3 * 86400)


def test_the_scheduler_is_given_the_estimates_of_the_option() -> None:
    job = Job("train-1", 0, 90, walltime=200, estimate=150)
    learning = Estimates("learnt")
    for run in (80, 90):
        learning.learn(replace(job, run_time=run))
    assert Estimates("none").annotations(job) == {}
    assert Estimates("exact").annotations(job) == {names.RUNNING_ESTIMATE: "90s"}
    assert Estimates("users").annotations(job) == {names.RUNNING_ESTIMATE: "150s", names.WALLTIME: "200s"}
    assert learning.annotations(job) == {names.LEARNT_ESTIMATE: "90s", names.WALLTIME: "200s"}
    new = replace(job, name="new-1", walltime=0)
    assert learning.annotations(new) == {names.LEARNT_ESTIMATE: "85s"}, (
        "the mean of the last two of the user or the queue"
    )
    assert learning.annotations(replace(new, walltime=200)) == {names.WALLTIME: "200s"}
    with pytest.raises(WorkloadError, match="estimates must be one of"):
        Estimates("guessed")


def test_names_of_jobs_are_unique() -> None:
    with pytest.raises(WorkloadError, match="two jobs have the name 'a'"):
        Simulator(TWO_NODES, [Job("a", 0, 1), Job("a", 1, 1)], default(builtin()))


def test_measures_of_a_job_and_intervals_over_seeds() -> None:
    job = JobOutcome("a", "q", "", 1, 1, 0, submit=0, start=90, end=95, run_time=5, evictions=0, lost=0, bound=1)
    assert bounded_slowdown(job) == 9.5  # 95 s, of which 10 s count as the run
    assert bounded_slowdown(job._replace(start=0, end=5)) == 1
    assert interval([1.0, 3.0]).mean == 2
    assert interval([1.0, 3.0]).half == pytest.approx(12.71 * math.sqrt(2) / math.sqrt(2))
    starving = job._replace(start=-1, end=-1, bound=20)
    evictions = (JobEviction(1, "a", "b", 2, 6.0), JobEviction(2, "c", "b", 1, 0.0), JobEviction(3, "b", "a", 1, 4.0))
    some = replace(
        simulated([]),
        jobs=(job, starving),
        evictions=evictions,
        end=100,
        utilisation={"cpu": 0.5},
        capacity={"cpu": 4.0},
    )
    measures = measure(some)
    assert (measures.jobs, measures.never_started, measures.starved) == (2, 1, 2)
    assert measures.slowest == 90
    assert (measures.evictions, measures.thrash) == (4, 1)
    assert measures.lost == 10 / (0.5 * 4 * 100)
    empty: Measures = measure(replace(simulated([]), jobs=()))
    assert empty.mean_wait == 0


def choosing(name: str, submit: float, cpu_time: float, pods: int = 1) -> Job:
    """A job that runs 100 seconds on a GPU, or longer on 4 cpus."""
    alternatives = (
        JobAlternative("gpu", {"cpu": "1", "nvidia.com/gpu": "1"}, 100, 100),
        JobAlternative("cpu", {"cpu": "4"}, cpu_time, cpu_time),
    )
    return Job(name, submit, 100, pods=pods, alternatives=alternatives)


GPU_AND_CPU = with_default_queue(
    [*equal_nodes(1, {"cpu": "8", "nvidia.com/gpu": "1"}), *equal_nodes(1, {"cpu": "8"}, "c")]
)


@pytest.mark.parametrize("estimates", ["exact", "users"])
def test_the_run_time_of_a_job_follows_from_the_selected_alternative(estimates: str) -> None:
    jobs = [choosing("a", 0, 300), choosing("b", 1, 150), choosing("c", 2, 900)]
    outcome = simulated(jobs, GPU_AND_CPU, Options(checked=True, estimates=estimates))
    # While "a" uses the GPU, "b" is done earlier on cpus, and "c" waits for the GPU.
    assert times(outcome) == {"a": (1, 101), "b": (2, 152), "c": (102, 202)}
    assert outcome.utilisation["gpu"] == pytest.approx(200 / 202)


def test_learnt_run_times_of_alternatives_are_used() -> None:
    jobs = [choosing(f"a-{number}", 1000 * number, 150) for number in range(3)]
    jobs += [choosing("a-3", 3000, 150), choosing("a-4", 3001, 150), choosing("a-5", 3002, 150)]
    outcome = simulated(jobs, GPU_AND_CPU, Options(checked=True, estimates="learnt"))
    # With the GPU 100 seconds are learnt; on cpus nothing is known, which counts as the assumed hour.
    assert [times(outcome)[f"a-{number}"][0] for number in (3, 4, 5)] == [3001, 3102, 3203]
