"""Seeds of the simulation: no rule is broken, and the same seed gives the same events."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import nightly
from tests.e2e.world import batch_job
from tests.simulation import __main__ as simulation
from tests.simulation import virtual_time
from tests.simulation.__main__ import HASH_SEED, minimised
from tests.simulation.run import Outcome, run
from tests.simulation.scenario import PAIRS, Scenario, Step, coverage
from volcanopy.services.controllers.job_cache import JobCache
from volcanopy.services.controllers.worker import Worker
from volcanopy.services.scheduler.state.store import Store

ROOT = Path(__file__).resolve().parents[2]
SEEDS, NIGHTLY_SEEDS = 6, 100
"""How many seeds a process runs, which takes as long to start as five."""
FOUND_DEFECTS = (347, 21326, 100010, 327570, 328088, 432079, 506483, 508333)
"""Seeds that have failed once."""
RARE_FAULTS = (31, 410, 1091, 1388, 1567, 1908, 2136, 2147)
"""Seeds with the faults that the others of the day lack."""


def simulated(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own, whose hash seed is fixed."""
    environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow("each test runs the services of a cluster through many faults")
@pytest.mark.parametrize("seeds", nightly.seeds(SEEDS, 2500, SEEDS, NIGHTLY_SEEDS))
def test_no_rule_is_broken(seeds: range) -> None:
    also = (*RARE_FAULTS, *FOUND_DEFECTS) if seeds.start == 0 else ()
    ended = simulated(str(seeds.start), str(seeds.stop), "--also", ",".join(map(str, also)))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(seeds) + len(also)} seeds run, 0 failed" in ended.stdout


def test_the_seeds_contain_each_fault_of_each_process() -> None:
    covered = coverage((*range(SEEDS), *RARE_FAULTS, *FOUND_DEFECTS))
    everywhere = ("kill", "kill_at_write", "cut", "pause", "reset", "lag_watches")
    assert {(what, process) for what in everywhere for process in PAIRS} <= covered
    assert {(what, "kubelet") for what in everywhere} <= covered
    assert {(what, "admission") for what in ("kill", "cut", "pause", "reset", "lag_watches")} <= covered
    assert {("turn_clock", process) for process in PAIRS} <= covered
    whole = {"reject", "lose_answers", "repeat_events", "halve_lists", "stop_server", "forget_history", "fail_node"}
    whole |= {"replace_node", "slow_reviews", "fail_reviews", "submit_invalid"}
    by_hand = {"delete_pod", "delete_group", "delete_job", "scale", "command", "close_queue", "label", "hold_pod"}
    assert whole | by_hand | {"weigh_queue"} <= {what for what, _ in covered}


def test_the_same_seed_gives_the_same_events_in_each_process() -> None:
    first, second = (simulated("12", "--trace") for _ in range(2))
    assert "batchjobs" in first.stdout
    assert first.stdout == second.stdout


def small_life(*steps: Step, jobs: int = 3, delay: tuple[float, float] = (0.0002, 0.003)) -> Scenario:
    """Return a scenario of two nodes of four cpus: gangs of four pods of one cpu are submitted within a second, each to run for ten."""
    gangs = (batch_job(f"job-{number}", 4, "1", duration="10s", minAvailable=4) for number in range(jobs))
    submitted = (Step(10 + number / 10, "submit", (gang,)) for number, gang in enumerate(gangs))
    return Scenario(1, (("node-0", 4), ("node-1", 4)), (), (*submitted, *steps), delay)


def test_gangs_of_a_small_life_complete() -> None:
    outcome = run(small_life())
    assert outcome.faults == []
    assert outcome.phases == {"job-0": "Completed", "job-1": "Completed", "job-2": "Completed"}


def test_a_scheduler_that_forgets_its_binds_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "assume", lambda *_: None)
    assert run(small_life(delay=(0.05, 0.3))).faults


def test_a_controller_that_forgets_the_success_of_a_deleted_pod_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The third pod starts when the first two have ended.
    job = batch_job("job-0", 3, "1", duration="10s", minAvailable=1)
    steps = Step(10, "submit", (job,)), Step(25, "replace_node", (("node-0", 2), 3.0))
    life = Scenario(1, (("node-0", 2),), (), steps)
    assert run(life).faults == []
    monkeypatch.setattr(JobCache, "_note_removed", lambda *_: None)
    assert any("runs again after its success" in fault for fault in run(life).faults)


def test_a_controller_that_gives_up_after_an_error_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def once(worker: Worker) -> None:
        while True:
            key = await worker.queue.get()
            try:
                await worker.reconcile(key)
            except Exception:
                worker.queue.forget(key)
            finally:
                worker.queue.done(key)

    monkeypatch.setattr(Worker, "work", once)
    refusals = Step(7.0, "reject", (8.0, 500, 0.9))
    assert any("job has not ended" in fault for fault in run(small_life(refusals)).faults)


def test_a_run_that_does_not_end_is_reported_with_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "MOST_STEPS", 300)
    (fault,) = run(small_life()).faults
    assert "has not ended after 300 steps" in fault
    assert "not ready: ['kubelet'" in fault


def test_steps_that_a_failure_does_not_need_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_with_both(life: Scenario) -> Outcome:
        names = {str(step.arguments[0]) for step in life.steps if step.what == "reset"}
        return Outcome(["broken"] if {"b", "d"} <= names else [], 0.0)

    monkeypatch.setattr(simulation, "run", fails_with_both)
    life = replace(small_life(), steps=tuple(Step(1.0, "reset", (name,)) for name in "abcd"))
    assert minimised(life) == [0, 2]
