"""Whole lives as lists of what is written, in order: what one would see on the wire (events apart)."""

from typing import Any

import pytest

from tests.jobcontroller.world import World, job, task

Json = dict[str, Any]
RESTART = {"event": "PodFailed", "action": "RestartJob"}
SVC: Json = {"svc": ["--disable-network-policy"]}


def writes(world: World) -> list[str]:
    """Reconcile until there is nothing more to do; what was written. Pods on their way out go in between."""
    lines: list[str] = []
    for _ in range(20):
        new = [line for line in str(world.step()).splitlines() if not line.startswith("event")]
        world.remove_terminated()
        if not new:
            return lines
        lines += new
    raise AssertionError(f"does not come to rest: {lines}")


def admitted(*pods: str) -> list[str]:
    """What follows an admission where no pod exists."""
    waits = f'status Pending: admitted to queue "default": 0/{len(pods)} required pods started'
    return [waits, *(f"create pod {name}" for name in pods), waits]


TWO = ("job-a-0", "job-a-1")


def test_a_successful_job() -> None:
    world = World(job(task(replicas=2), plugins=SVC))
    assert writes(world) == [
        'status Pending: waiting for admission to queue "default"',
        "apply ConfigMap/job-svc",
        "apply Service/job",
        "create podgroup job-u1",
    ]
    assert writes(world.admit()) == admitted(*TWO)
    assert writes(world.run()) == ["status Running: 2/2 pods running"]
    assert writes(world.succeed()) == [
        "status Completed: 2 pods succeeded",
        "delete podgroup job-u1",
        "delete ConfigMap/job-svc",
        "delete Service/job",
        "status Completed: 2 pods succeeded",
    ]
    assert (world.status["version"], world.status["succeeded"], sorted(world.pods)) == (0, 2, list(TWO))


def test_a_job_that_is_restarted_until_it_has_failed() -> None:
    world = World(job(task(replicas=2), policies=[RESTART], maxRetry=3)).started()
    for restart in (1, 2):
        world.wait(minutes=10)
        assert writes(world.fail("job-a-0")) == [
            f"status Restarting: pod job-a-0 failed with exit code 1: restart {restart}",
            "delete pod job-a-0",
            "delete pod job-a-1",
            "delete podgroup job-u1",
            'status Pending: waiting for admission to queue "default"',
            "create podgroup job-u1",
        ]
        assert writes(world.admit()) == admitted(*TWO)
        notes = world.pods["job-a-0"]["metadata"]["annotations"]
        assert notes["volcanopy.io/job-version"] == notes["volcanopy.io/job-retry-count"] == str(restart)
        assert writes(world.run()) == ["status Running: 2/2 pods running"]
    end = "status Failed: pod job-a-0 failed with exit code 1: restart 3: maxRetry reached (3/3)"
    assert writes(world.fail("job-a-0")) == [end, "delete pod job-a-1", "delete podgroup job-u1", end]
    assert list(world.pods) == ["job-a-0"]


def test_restarting_a_pod_changes_nothing_else() -> None:
    """Its PodGroup stays admitted, its service and its keys are not touched."""
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    world = World(job(task(replicas=2), plugins={"ssh": [], "svc": []}, policies=policies)).started()
    waits = 'status Pending: admitted to queue "default": 1/2 required pods started'
    assert writes(world.fail("job-a-1")) == [
        "status Restarting: pod job-a-1 failed with exit code 1: restart 1",
        "delete pod job-a-1",
        waits,
        "create pod job-a-1",
        waits,
    ]
    assert (world.status["version"], world.retries) == (0, 1)
    assert writes(world.run()) == ["status Running: 2/2 pods running"]


def test_a_job_that_is_suspended_and_resumed() -> None:
    world = World(job(task(replicas=2), plugins=SVC)).started()
    why = 'AbortJob requested by Command "c1"'
    assert writes(world.command("AbortJob")) == [
        f"status Aborting: {why}",
        "delete command c1",
        "delete pod job-a-0",
        "delete pod job-a-1",
        "delete podgroup job-u1",
        f"status Aborted: {why}",
        "delete ConfigMap/job-svc",
        "delete Service/job",
        f"status Aborted: {why}",
    ]
    assert writes(world.command("ResumeJob", "c2")) == [
        'status Pending: waiting for admission to queue "default"',
        "delete command c2",
        "apply ConfigMap/job-svc",
        "apply Service/job",
        "create podgroup job-u1",
    ]
    assert writes(world.admit()) == admitted(*TWO)
    assert writes(world.run()) == ["status Running: 2/2 pods running"]


def test_a_master_that_completes_the_job() -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    world = World(job(task("master", policies=policies), task("worker", 2))).started()
    assert writes(world.succeed("job-master-0")) == [
        'status Completing: all pods of task "master" succeeded',
        "delete pod job-worker-0",
        "delete pod job-worker-1",
        "delete podgroup job-u1",
        'status Completed: all pods of task "master" succeeded',
    ]
    assert list(world.pods) == ["job-master-0"]


def test_a_job_that_grows() -> None:
    world = World(job(task(replicas=2), minAvailable=2, plugins=SVC)).started()
    assert writes(world.edit(tasks=[task(replicas=4)], minAvailable=4)) == [
        "status Running: 2/4 pods running",
        "apply ConfigMap/job-svc",
        "update podgroup job-u1: minMember, minResources, minTaskMember",
        "create pod job-a-2",
        "create pod job-a-3",
        'status Pending: admitted to queue "default": 2/4 required pods started',
    ]
    assert writes(world.run()) == ["status Running: 4/4 pods running"]


def test_partitions_are_numbered_and_restarted_individually() -> None:
    policy = {"totalPartitions": 3, "partitionSize": 2}
    policies = [{"event": "PodFailed", "action": "RestartPartition"}]
    world = World(job(task(replicas=6, partitionPolicy=policy, policies=policies))).started()
    numbers = [pod["metadata"]["labels"]["volcanopy.io/partition-id"] for pod in world.pods.values()]
    assert numbers == ["0", "0", "1", "1", "2", "2"]
    assert [line for line in writes(world.fail("job-a-3")) if "pod job" in line and "status" not in line] == [
        "delete pod job-a-2",
        "delete pod job-a-3",
        "create pod job-a-2",
        "create pod job-a-3",
    ]


@pytest.mark.parametrize(("least", "needed"), [({"minPartitions": 2}, 4), ({}, 6)])
def test_how_many_pods_a_task_of_partitions_needs(least: Json, needed: int) -> None:
    policy = {"totalPartitions": 3, "partitionSize": 2} | least
    world = World(job(task(replicas=6, partitionPolicy=policy))).settle()
    assert world.pod_group is not None
    assert world.pod_group["spec"]["minTaskMember"] == {"a": needed}
    assert world.pod_group["spec"]["minMember"] == needed


class TestEarlierVersions:
    """What happened to pods that the job has done with, or never had, is no reason to act."""

    def test_a_pod_of_an_earlier_version_that_fails(self) -> None:
        world = World(job(task(replicas=2), policies=[RESTART])).started()
        world.fail("job-a-0").step()
        world.fail("job-a-1").settle()
        assert world.retries == 1

    def test_a_pod_of_an_earlier_job_of_the_name(self) -> None:
        world = World(job(task(replicas=2), policies=[RESTART])).started()
        stranger = {**world.pods["job-a-0"], "status": {"phase": "Failed"}}
        stranger["metadata"] = {
            **stranger["metadata"],
            "name": "job-a-9",
            "uid": "x",
            "ownerReferences": [{"uid": "u0"}],
        }
        world.pods["job-a-9"] = stranger
        world.settle()
        assert (world.phase, world.retries) == ("Running", 0)

    def test_a_group_that_is_unknown_counts_in_every_version(self) -> None:
        world = World(job(task(replicas=2), policies=[{"event": "Unknown", "action": "AbortJob"}])).started()
        for number in range(2):
            world.command("RestartJob", f"r{number}").again()
        assert world.status["version"] == 2
        assert world.admit("Unknown").settle().phase == "Aborted"
