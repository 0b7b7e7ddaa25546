"""Workloads like the logs of archives: they have the figures of the log, and follow from the seed."""

from pathlib import Path

import pytest

from bench.quality.archive_like import LOGS, archive_like
from bench.quality.policies import Policy, start_times
from bench.quality.queueing import workload_of
from volcanopy_lab.simulate.workload import Job


@pytest.mark.parametrize("name", LOGS)
def test_jobs_have_the_load_and_the_limits_of_their_log(name: str) -> None:
    log = LOGS[name]
    jobs = archive_like(log, 1000, seed=7)
    span = jobs[-1].submit - jobs[0].submit
    assert sum(job.pods * job.run_time for job in jobs) / (span * log.processors) == pytest.approx(log.load, rel=0.01)
    assert len(jobs) / span == pytest.approx(
        log.jobs / log.days / 86400, rel=0.35
    )  # a week has more jobs than a weekend
    assert all(1 <= job.pods <= log.processors for job in jobs)
    assert all(job.run_time <= job.estimate <= log.limit for job in jobs)
    assert len({job.estimate for job in jobs}) <= 25
    assert jobs == archive_like(log, 1000, seed=7) != archive_like(log, 1000, seed=8)


def test_programs_are_repeated_with_about_the_same_run_time() -> None:
    by_program: dict[str, list[Job]] = {}
    for job in archive_like(LOGS["kth-sp2"], 1000, seed=7):
        by_program.setdefault(job.name.rpartition("-")[0], []).append(job)
    repeated = [runs for runs in by_program.values() if len(runs) > 1]
    assert sum(map(len, repeated)) > 500
    assert all(len({run.pods for run in runs}) == 1 for runs in repeated)
    assert max(max(run.run_time for run in runs) / min(run.run_time for run in runs) for runs in repeated) < 10


def test_a_trace_is_a_workload_scaled_to_a_load(tmp_path: Path) -> None:
    lines = [f"{number} {600 * number} 0 1200 2 -1 -1 2 3600 -1 1 7 1 1 3 -1 -1 -1" for number in range(1, 6)]
    (tmp_path / "trace.swf").write_text("; a comment\n" + "\n".join(lines))
    workload = workload_of(f"{tmp_path}/trace.swf:4:0.5")
    jobs = workload.generator(4, 42)
    assert [job.queue for job in jobs] == ["default"] * 4
    assert sum(job.pods * job.run_time for job in jobs) / (jobs[-1].submit - jobs[0].submit) / 4 == pytest.approx(0.5)


def test_a_policy_with_learnt_estimates_orders_a_repeated_job_by_its_earlier_run() -> None:
    """The estimates of users are wrong the other way round."""

    def job(name: str, submit: float, run_time: float, estimate: float) -> Job:
        return Job(name, submit, run_time, user=name[0], estimate=estimate)

    jobs = [
        job("a-0", 0.0, 10.0, 900.0),
        job("b-0", 10.0, 300.0, 60.0),
        job("c-0", 400.0, 50.0, 50.0),
        job("b-1", 410.0, 300.0, 60.0),
        job("a-1", 420.0, 10.0, 900.0),
    ]
    learnt, users = (start_times(jobs, 1, 1000, Policy("sjf", learnt=known)) for known in (True, False))
    assert (learnt["a-1"], learnt["b-1"]) == (450.0, 460.0)
    assert (users["b-1"], users["a-1"]) == (450.0, 750.0)
