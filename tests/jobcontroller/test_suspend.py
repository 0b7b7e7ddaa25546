"""spec.suspend: declarative suspension beside Commands; and the parallelism of a task."""

from typing import Any

from tests.jobcontroller.world import World, job, task


def running(**spec: Any) -> World:
    return World(job(task(replicas=2), **spec)).settle().admit().settle().run().settle()


def changed(world: World, **spec: Any) -> World:
    return world.edit(**spec).settle()


def test_a_job_that_is_created_suspended_has_no_pods_until_it_is_resumed() -> None:
    world = World(job(task(replicas=2), suspend=True)).settle()
    assert (world.phase, world.status["state"]["reason"], world.pods) == ("Aborted", "Suspended", {})
    assert world.message == "spec.suspend is true"
    changed(world, suspend=False).admit().settle().run().settle()
    assert (world.phase, len(world.pods)) == ("Running", 2)
    assert not world.status.get("retryCount")


def test_a_running_job_is_suspended_and_resumed() -> None:
    world = changed(running(), suspend=True)
    assert (world.phase, world.pods, world.pod_group) == ("Aborted", {}, None)
    assert changed(world, suspend=False).admit().settle().run().settle().phase == "Running"


def test_a_resumed_job_runs_failed_pods_again_and_succeeded_ones_not() -> None:
    """A gang that lacks a pod which has failed could never start."""
    world = World(job(task(replicas=3), policies=[{"event": "PodFailed", "action": "AbortJob"}])).started()
    world.succeed("job-a-0").fail("job-a-1").settle()
    assert (world.phase, sorted(world.pods)) == ("Aborted", ["job-a-0", "job-a-1"])
    world.command("ResumeJob").settle().admit().settle().run("job-a-1", "job-a-2").settle()
    assert sorted(world.created[3:]) == ["job-a-1", "job-a-2"]
    assert world.phase == "Running"
    assert world.succeed().settle().phase == "Completed"


def test_a_command_does_not_resume_a_job_whose_spec_suspends_it() -> None:
    world = changed(running(), suspend=True)
    world.command("ResumeJob").settle()
    assert world.phase == "Aborted"
    assert "spec.suspend of the job is true: set it to false" in [event.message for event in world.events][-1]


def test_a_job_that_a_command_has_suspended_stays_so() -> None:
    world = running()
    world.command("AbortJob").settle()
    assert (world.phase, world.status["state"]["reason"]) == ("Aborted", "CommandIssued")
    assert world.settle().phase == "Aborted"
    world.command("ResumeJob", name="c2").settle().admit().settle()
    assert world.phase == "Pending"


def test_suspending_a_finished_job_changes_nothing() -> None:
    world = running().succeed().settle()
    assert changed(world, suspend=True).phase == "Completed"


def test_no_more_pods_than_the_parallelism_exist_at_a_time() -> None:
    array = task(replicas=5, minAvailable=1, parallelism=2)
    world = World(job(array, minAvailable=1, minSuccess=5)).settle().admit().settle().run().settle()
    assert sorted(world.pods) == ["job-a-0", "job-a-1"]
    world.succeed("job-a-1").settle()
    assert sorted(world.pods) == ["job-a-0", "job-a-1", "job-a-2"]
    for _ in range(3):
        world.run().succeed().settle()
    assert (world.phase, world.status["succeeded"]) == ("Completed", 5)
