"""The pause before restarts: exponential, bounded, kept in the status, and only for what fails soon."""

from datetime import datetime, timedelta

import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.api.batch import BatchJobStatus
from volcanopy.jobcontroller.restart_pause import LONGEST, is_pausing, with_pause

NOW = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
RESTART = {"event": "PodFailed", "action": "RestartJob"}


def pauses(count: int) -> list[float]:
    """The pauses of so many restarts, each decided when the previous pause is over."""
    status, now, result = BatchJobStatus(), NOW, []
    for _ in range(count):
        status = with_pause(status, timedelta(seconds=1), now)
        until = status.restart_at or now
        result.append((until - now).total_seconds())
        now = until
    return result


def test_pauses_grow_from_nothing_to_five_minutes() -> None:
    assert pauses(12) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert pauses(100)[-1] == LONGEST.total_seconds()


def test_a_million_restarts_take_years() -> None:
    assert sum(pauses(100)) > 7 * 3600


def test_a_restart_after_a_long_run_does_not_wait() -> None:
    status = BatchJobStatus(quick_restarts=9)
    assert with_pause(status, timedelta(minutes=10), NOW).restart_at is None


def test_restarts_during_a_pause_do_not_extend_it() -> None:
    status = with_pause(BatchJobStatus(quick_restarts=5), timedelta(0), NOW)
    assert is_pausing(status, NOW)
    assert with_pause(status, timedelta(0), NOW + timedelta(seconds=3)) == status


def quick_restarts(world: World, count: int) -> World:
    """The job fails so often, each time a second after its start."""
    for _ in range(count):
        world.wait(seconds=1).fail("job-a-0").settle()
        world.wait(minutes=5).settle()
        world.admit().settle().run().settle()
    return world


@pytest.mark.parametrize("restarts", [1, 3, 6])
def test_no_pods_and_no_group_are_created_during_the_pause(restarts: int) -> None:
    world = World(job(task(replicas=2), policies=[RESTART], maxRetry=100)).started()
    quick_restarts(world, restarts)
    world.wait(seconds=1).fail("job-a-0").settle()
    assert (world.phase, world.pods, world.pod_group) == ("Pending", {}, None)
    assert world.status["state"]["reason"] == "RestartBackOff"
    assert f"{restarts + 1} quick restarts" in world.message
    due = datetime.fromisoformat(world.status["restartAt"])
    assert due - world.now == timedelta(seconds=2 ** (restarts - 1))
    assert world.plan().again == due
    world.now = due - timedelta(seconds=1)
    assert world.settle().pod_group is None
    world.now = due
    assert world.settle().pod_group is not None
    world.admit().settle()
    assert len(world.pods) == 2


def pausing() -> World:
    """A job that waits for the end of a pause of 8 seconds."""
    world = quick_restarts(World(job(task(replicas=2), policies=[RESTART], maxRetry=100)).started(), 4)
    world.wait(seconds=1).fail("job-a-0").settle()
    assert (world.pod_group, world.status["state"]["reason"]) == (None, "RestartBackOff")
    return world


def test_a_restart_by_a_command_does_not_wait() -> None:
    world = World(job(task(replicas=2), policies=[RESTART], maxRetry=100)).started()
    quick_restarts(world, 4)
    world.command("RestartJob").settle()
    assert world.pod_group is not None


def test_a_restart_by_a_command_ends_a_pause() -> None:
    world = pausing().command("RestartJob").settle()
    assert world.pod_group is not None
    assert world.again().phase == "Running"


def test_a_job_that_was_suspended_during_a_pause_is_resumed_at_once() -> None:
    world = pausing().edit(suspend=True).settle()
    assert world.phase == "Aborted"
    assert world.edit(suspend=False).settle().pod_group is not None


def test_a_pause_of_a_clock_that_was_a_day_ahead_is_over() -> None:
    world = pausing().wait(days=-1)
    assert world.settle().pod_group is not None


def test_several_pods_that_fail_together_are_one_restart() -> None:
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    world = World(job(task(replicas=8), policies=policies, maxRetry=100)).started()
    world.fail(*(f"job-a-{number}" for number in range(8))).settle()
    assert len(world.pods) == 8
    assert "restartAt" not in world.status


def test_a_job_that_runs_on_without_the_paused_pods_says_so() -> None:
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    world = World(job(task(replicas=2), policies=policies, maxRetry=100, minAvailable=1)).started()
    for _ in range(2):
        world.wait(seconds=1).fail("job-a-0").settle().run().settle()
    assert (world.phase, sorted(world.pods)) == ("Running", ["job-a-1"])
    assert world.status["state"]["reason"] == "RestartBackOff"
    assert world.message.startswith(f"1/2 pods running; restart 2 waits until {world.status['restartAt']}: ")
    world.wait(seconds=5).settle().run().settle()
    assert (world.message, world.status["state"]["reason"]) == ("2/2 pods running", "Started")
