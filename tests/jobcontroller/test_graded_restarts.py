"""A pod is restarted first, and the job only if the pod does not run again in time."""

from typing import Any

from tests.jobcontroller.world import World, job, task

GRADED: list[dict[str, Any]] = [
    {"event": "PodFailed", "action": "RestartPod"},
    {"event": "PodEvicted", "action": "RestartJob", "timeout": "10m"},
]


def restarted_pod(minutes: float, runs: bool = False) -> World:
    """A job whose failed pod was restarted so many minutes ago."""
    world = World(job(task(replicas=2), policies=GRADED)).started().fail("job-a-0").settle()
    assert (world.retries, sorted(world.pods)) == (1, ["job-a-0", "job-a-1"])
    if runs:
        world.run().settle()
    return world.wait(minutes=minutes).settle()


def test_a_job_is_restarted_if_a_restarted_pod_does_not_run_in_time() -> None:
    world = restarted_pod(11)
    assert (world.retries, world.phase, world.pods) == (2, "Pending", {})
    assert restarted_pod(9).retries == 1


def test_a_job_is_not_restarted_if_a_restarted_pod_runs_again() -> None:
    assert restarted_pod(11, runs=True).retries == 1


def test_a_restarted_pod_causes_no_action_of_a_policy_for_evictions_without_a_timeout() -> None:
    policies = [GRADED[0], {"event": "PodEvicted", "action": "AbortJob"}]
    world = World(job(task(replicas=2), policies=policies)).started().fail("job-a-0").settle()
    assert (world.phase, world.retries) == ("Pending", 1)


def test_a_delayed_restart_of_a_pod_is_dropped_when_its_task_is_scaled_down_below_it() -> None:
    policies = [{"event": "PodFailed", "action": "RestartPod", "timeout": "30s"}]
    world = World(job(task(replicas=3, minAvailable=1), policies=policies, maxRetry=1)).started()
    world.fail("job-a-2").settle()
    world.edit(tasks=[task(replicas=2, minAvailable=1)]).settle().wait(minutes=1).settle()
    assert (world.phase, world.retries, sorted(world.pods)) == ("Running", 0, ["job-a-0", "job-a-1"])
