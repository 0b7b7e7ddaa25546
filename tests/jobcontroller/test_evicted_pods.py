"""A pod that failed because its node evicted it is no failure of the job: it is deleted and created again, and the cause is named."""

import pytest

from tests.jobcontroller.world import World, job, task

CAUSE = "its programs ended when the cluster was stopped or killed"


def evict(world: World, *names: str, phase: str = "Failed") -> World:
    """A kubelet ends pods because of the node."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": CAUSE}
    for name in names or tuple(world.pods):
        terminated = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
        world.pods[name]["status"] = {
            "phase": phase,
            "reason": "Evicted",
            "containerStatuses": [{"name": "main", "state": terminated}],
            "conditions": [condition | {"lastTransitionTime": world.now.isoformat()}],
        }
    return world


def warnings(world: World) -> list[tuple[str, str]]:
    """Reason and message of the job's warnings."""
    return [(event.reason, event.message) for event in world.events if event.type == "Warning"]


def test_a_gang_whose_node_was_lost_is_created_again_without_a_retry() -> None:
    world = World(job(task(replicas=2))).started()
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
    evict(world).settle()
    assert (world.phase, world.retries, sorted(world.pods)) == ("Pending", 0, sorted(before))
    assert all(pod["metadata"]["uid"] != before[name] for name, pod in world.pods.items())
    assert warnings(world) == [("PodEvicted", f"pod job-a-0 was evicted: {CAUSE}, and 1 more")]
    assert [(entry["by"], entry["pods"]) for entry in world.status["evictions"]] == [(CAUSE, 2)]
    assert world.run().settle().succeed().settle().phase == "Completed"


@pytest.mark.parametrize(
    ("event", "retries"), [("PodEvicted", 1), ("PodFailed", 0)], ids=["a policy for evictions", "one for failures"]
)
def test_only_policies_for_evictions_apply(event: str, retries: int) -> None:
    world = World(job(task(replicas=2), policies=[{"event": event, "action": "RestartJob"}])).started()
    evict(world, "job-a-1").settle()
    assert world.retries == retries
    assert world.again().phase == "Running"


def test_evictions_with_a_policy_end_when_the_retries_are_used_up() -> None:
    world = World(job(task(), policies=[{"event": "PodEvicted", "action": "RestartJob"}], maxRetry=2)).started()
    evict(world).settle()
    assert (world.phase, world.retries) == ("Pending", 1)
    world.again()
    evict(world).settle()
    assert world.phase == "Failed"
    assert world.message == f"pod job-a-0 was evicted: {CAUSE}: restart 2: maxRetry reached (2/2)"


def test_the_cause_of_an_eviction_is_named_although_the_pod_is_gone() -> None:
    world = World(job(task(replicas=2))).started()
    evict(world, "job-a-0", phase="Running")
    observed = world.disruptions()
    del world.pods["job-a-0"]
    world.disruptions = lambda: observed  # type: ignore[method-assign]
    world.settle()
    assert warnings(world) == [("PodEvicted", f"pod job-a-0 was evicted: {CAUSE}")]


def test_a_pod_that_a_person_deleted_is_no_eviction() -> None:
    world = World(job(task(replicas=2))).started().delete("job-a-0").settle()
    assert warnings(world) == []
    assert sorted(world.pods) == ["job-a-0", "job-a-1"]


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "CompleteJob"])
def test_an_evicted_pod_does_not_keep_a_job_from_its_end(action: str) -> None:
    world = World(job(task(replicas=2))).started()
    evict(world, "job-a-0").command(action).settle()
    assert world.phase in {"Aborted", "Terminated", "Completed"}
    assert world.status.get("terminating", 0) == 0


@pytest.mark.parametrize("effects", range(1, 4))
def test_a_crash_while_evicted_pods_are_replaced_loses_and_repeats_nothing(effects: int) -> None:
    world = World(job(task(replicas=2), policies=[{"event": "PodEvicted", "action": "RestartJob"}])).started()
    evict(world, "job-a-0").step(crash_after=effects)
    world.again()
    assert (world.phase, world.retries, sorted(world.pods)) == ("Running", 1, ["job-a-0", "job-a-1"])


def test_a_running_job_whose_evicted_pods_wait_for_admission_is_pending() -> None:
    world = World(job(task(replicas=2))).started()
    evict(world).admit("Pending")
    world.say_unschedulable("overcommit limit of the cluster exceeded: cpu requested 2, allocated 8, limit 9")
    world.settle()
    assert (world.phase, world.pods) == ("Pending", {})
    assert world.message == "overcommit limit of the cluster exceeded: cpu requested 2, allocated 8, limit 9"
    assert world.again().phase == "Running"


def test_a_running_job_that_has_its_minimum_stays_running_while_its_evicted_pods_wait_for_admission() -> None:
    world = World(job(task(replicas=3), minAvailable=2)).started()
    evict(world, "job-a-2").admit("Pending").settle()
    assert (world.phase, sorted(world.pods)) == ("Running", ["job-a-0", "job-a-1"])
