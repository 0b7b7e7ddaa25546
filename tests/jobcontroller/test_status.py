"""When a job is over, and how it ended: the vectors of the specification."""

from typing import Any

import msgspec
import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.api.batch_read import BatchJob
from volcanopy.client.jobs import status


@pytest.mark.parametrize(
    ("spec", "phases", "expected"),
    [
        (job(task(replicas=3, minAvailable=3), minAvailable=3), "SSS", "Completed"),
        (job(task(replicas=3, minAvailable=3), minAvailable=3), "SSF", "Failed"),
        (job(task(replicas=3, minAvailable=2), minAvailable=2), "SSF", "Completed"),
        (job(task(replicas=3, minAvailable=3), minAvailable=1), "SFF", "Completed"),
        (job(task("a", 2, minAvailable=1), task("b", 2, minAvailable=1), minAvailable=2), "SSFF", "Failed"),
        (job(task(replicas=4), minAvailable=4, minSuccess=2), "SSRR", "Completed"),
        (job(task(replicas=4, minAvailable=1), minAvailable=1, minSuccess=3), "SSFF", "Failed"),
        (job(task(replicas=4, minAvailable=3), minAvailable=3), "PPRR", "Pending"),
        (job(task(replicas=4, minAvailable=3), minAvailable=3), "PRRR", "Running"),
        (job(task(replicas=2)), "UR", "Running"),
    ],
)
def test_the_next_phase_of_a_running_job(spec: dict[str, Any], phases: str, expected: str) -> None:
    words = {"S": "Succeeded", "F": "Failed", "R": "Running", "P": "Pending", "U": "Unknown"}
    world = World(spec).started()
    for name, letter in zip(sorted(world.pods), phases, strict=True):
        world.set_phase(words[letter], name)
    assert world.settle().phase == expected


def test_a_job_is_completed_by_enough_pods_that_succeed_while_others_wait_again() -> None:
    world = World(job(task(replicas=4), minSuccess=2)).started()
    assert world.set_phase("Pending", "job-a-2", "job-a-3").settle().phase == "Pending"
    assert world.succeed("job-a-0", "job-a-1").settle().phase == "Completed"


def test_the_running_time_of_a_job_excludes_waiting() -> None:
    world = World(job()).settle().wait(minutes=10).admit().settle().run().settle().wait(minutes=5)
    assert world.succeed().settle().status["runningDuration"] == "5m0s"


@pytest.mark.parametrize(
    ("spec", "phases", "message"),
    [
        (job(task(replicas=2)), "SF", 'task "a": 1/2 required pods succeeded: pod job-a-1 failed with exit code 137'),
        (
            job(task("a", 2), task("b", 4)),
            "SSSFFF",
            'task "b": 1/4 required pods succeeded: pod job-b-1 failed with exit code 137, and 2 more',
        ),
        (job(task(replicas=2, minAvailable=1), minAvailable=1), "SF", "1 pod succeeded, 1 failed"),
        (
            job(task(replicas=2, minAvailable=0), minSuccess=2),
            "SF",
            "1/2 required pods succeeded, 1 failed: pod job-a-1 failed with exit code 137",
        ),
        (
            job(task(replicas=12, minAvailable=0), minSuccess=3),
            "SSFFFFFFFFFF",
            "2/3 required pods succeeded, 10 failed: pod job-a-2 failed with exit code 137, and 9 more",
        ),
        (job(task(replicas=3), minSuccess=1), "SRR", "1/1 required pods succeeded"),
    ],
)
def test_a_finished_job_has_a_message(spec: dict[str, Any], phases: str, message: str) -> None:
    world = World(spec).started()
    for name, letter in zip(world.pods, phases, strict=True):
        world.set_phase({"S": "Succeeded", "F": "Failed", "R": "Running"}[letter], name, exit_code=137)
    assert world.settle().message == message


def test_a_pod_lost_with_its_node_has_a_reason() -> None:
    world = World(job()).started()
    world.pods["job-a-0"]["status"] = {"phase": "Failed", "reason": "Evicted"}
    assert world.settle().message == 'task "a": 0/1 required pods succeeded: pod job-a-0 failed: Evicted'


def test_a_running_job_names_why_its_missing_pods_cannot_be_created() -> None:
    world = World(job(task(replicas=2))).started()
    world.pods.popitem()
    world.trouble = 'pods "job-a-1" is forbidden: exceeded quota: compute'
    world.step()
    state = world.status["state"]
    assert (state["phase"], state["reason"]) == ("Running", "FailedSync")
    assert state["message"] == f"1/2 pods running; {world.trouble}"
    assert status.reason(msgspec.convert(world.job, BatchJob)) == state["message"]
    world.trouble = ""
    world.settle().run().settle()
    assert world.status["state"]["message"] == "2/2 pods running"
