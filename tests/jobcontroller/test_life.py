"""The lifecycle of a job: events, actions of the controller, and the resulting phase."""

from typing import Any

import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.jobcontroller.plan import CreatePod, DeletePod, UpdateStatus

Json = dict[str, Any]
FAILED_RESTARTS = {"event": "PodFailed", "action": "RestartJob"}


def test_no_pod_is_made_before_the_gang_is_admitted() -> None:
    world = World(job(task(replicas=3))).settle()
    assert world.pod_group is not None
    assert world.pods == {}
    assert (world.phase, world.status["state"]["reason"]) == ("Pending", "NotAdmitted")
    assert world.events == []
    world.admit().settle()
    assert list(world.pods) == ["job-a-0", "job-a-1", "job-a-2"]


def test_a_job_runs_when_enough_pods_run_and_completes_when_they_have_succeeded() -> None:
    world = World(job(task(replicas=2))).started()
    assert (world.phase, world.message) == ("Running", "2/2 pods running")
    world.succeed().settle()
    assert (world.phase, world.message) == ("Completed", "2 pods succeeded")
    assert world.pod_group is None
    assert [c["type"] for c in world.status["conditions"] if c["status"] == "True"] == ["Completed"]


def test_a_finished_job_keeps_its_counts_when_its_pods_are_gone() -> None:
    world = World(job(task(replicas=2))).started().succeed().settle()
    world.pods.clear()
    world.settle()
    assert world.status["succeeded"] == 2
    assert world.status["taskStatusCount"] == {"a": {"phase": {"Succeeded": 2}}}


def test_a_waiting_job_has_the_message_of_the_scheduler() -> None:
    world = World(job(task(replicas=2))).settle().admit().settle()
    world.say_unschedulable("0/2 nodes are available: 2 Insufficient cpu.")
    world.settle()
    assert world.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert world.status["conditions"][-1]["message"] == world.message
    assert world.events[-1].reason == "NotEnoughResources"


def test_a_settled_job_causes_no_requests() -> None:
    world = World(job(task(replicas=2))).started()
    assert world.plan().effects == ()


def test_a_burst_of_pod_changes_causes_one_status_write() -> None:
    world = World(job(task(replicas=500))).settle().admit().settle()
    writes = world.status_writes
    world.run().settle()
    assert world.status_writes == writes + 1


def minor(world: World) -> list[bool]:
    return [effect.minor for effect in world.step().effects if isinstance(effect, UpdateStatus)]


def test_a_status_is_minor_if_it_has_other_counts_only_or_is_the_first_of_a_waiting_job() -> None:
    world = World(job(task(replicas=3), minAvailable=2))
    assert minor(world) == [True], "the first"
    world.settle().admit()
    assert minor(world) == [True], "the message of the admission"
    world.settle().run("job-a-0")
    assert minor(world) == [True], "a count"
    world.run("job-a-1")
    assert minor(world) == [False], "another phase"
    world.say_unschedulable("0/2 nodes are available: 2 Insufficient cpu.")
    assert minor(world) == [], "a running job shows its pods"


def test_a_status_with_a_reason_to_act_or_with_objects_to_delete_later_is_not_minor() -> None:
    assert minor(World(job(task(), plugins={"svc": []}))) == [False]
    world = World(job(task(replicas=2))).settle().admit().settle()
    world.say_unschedulable("0/2 nodes are available: 2 Insufficient cpu.")
    assert minor(world) == [False]


class TestRestartJob:
    def test_all_pods_are_replaced_and_the_group_is_admitted_again(self) -> None:
        world = World(job(task(replicas=2), policies=[FAILED_RESTARTS])).started()
        world.fail("job-a-0", exit_code=3)
        plan = world.step()
        assert isinstance(plan.effects[0], UpdateStatus)
        assert str(plan).splitlines() == [
            "status Restarting: pod job-a-0 failed with exit code 3: restart 1",
            "event Warning Restarting: pod job-a-0 failed with exit code 3: restart 1",
            "delete pod job-a-0",
            "delete pod job-a-1",
            "delete podgroup job-u1",
        ]
        world.settle()
        assert (world.phase, world.pods) == ("Pending", {})
        world.admit().settle()
        notes = world.pods["job-a-0"]["metadata"]["annotations"]
        assert (notes["volcanopy.io/job-version"], notes["volcanopy.io/job-retry-count"]) == ("1", "1")
        assert world.run().settle().phase == "Running"

    @pytest.mark.parametrize("limit", [1, 2, 3])
    def test_reaching_max_retry_fails_the_job_and_keeps_ended_pods(self, limit: int) -> None:
        world = World(job(task(replicas=2), policies=[FAILED_RESTARTS], maxRetry=limit)).started()
        for _ in range(limit - 1):
            world.wait(minutes=10).fail("job-a-0").again()
            assert world.phase == "Running"
        world.fail("job-a-0").settle()
        assert (world.phase, world.retries, list(world.pods)) == ("Failed", limit, ["job-a-0"])
        assert world.status["failed"] == 1

    def test_two_failures_at_once_are_one_restart(self) -> None:
        world = World(job(task(replicas=3), policies=[FAILED_RESTARTS])).started()
        world.fail("job-a-0", "job-a-2").settle()
        assert world.retries == 1

    def test_pods_deleted_by_the_controller_are_not_evicted(self) -> None:
        policies = [FAILED_RESTARTS, {"event": "PodEvicted", "action": "TerminateJob"}]
        world = World(job(task(replicas=3), policies=policies)).started()
        world.fail("job-a-0").again()
        assert (world.phase, world.retries) == ("Running", 1)


class TestPartialRestart:
    def test_only_the_failed_pod_is_replaced_and_the_group_stays(self) -> None:
        policies = [{"event": "PodFailed", "action": "RestartPod"}]
        world = World(job(task(replicas=3), policies=policies)).started()
        before = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
        world.fail("job-a-1").settle()
        after = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
        assert [name for name in before if after[name] != before[name]] == ["job-a-1"]
        assert (world.phase, world.retries) == ("Pending", 1)
        assert world.run().settle().phase == "Running"
        assert world.status.get("restarts") is None

    def test_a_pod_that_fails_again_during_the_restart_costs_another_retry(self) -> None:
        policies = [{"event": "PodFailed", "action": "RestartPod"}]
        world = World(job(task(replicas=2), policies=policies, maxRetry=9)).started()
        world.fail("job-a-0", "job-a-1")
        world.step()
        assert world.retries == 1
        del world.pods["job-a-0"]
        world.step()
        world.fail("job-a-0")
        world.step()
        assert (world.phase, world.retries) == ("Restarting", 2)

    def test_a_partition_is_replaced_as_a_whole(self) -> None:
        policy = {"totalPartitions": 3, "partitionSize": 2}
        policies = [{"event": "PodFailed", "action": "RestartPartition"}]
        world = World(job(task(replicas=6, partitionPolicy=policy, policies=policies))).started()
        made = len(world.created)
        world.fail("job-a-3").settle()
        assert world.created[made:] == ["job-a-2", "job-a-3"]

    def test_a_task_is_replaced_and_the_other_is_left(self) -> None:
        policies = [{"exitCode": 3, "action": "RestartTask"}]
        world = World(job(task("a", 2, policies=policies), task("b", 2))).started()
        made = len(world.created)
        world.fail("job-a-0", exit_code=3).settle()
        assert world.created[made:] == ["job-a-0", "job-a-1"]


class TestEviction:
    def test_a_lost_pod_is_recreated_without_a_policy(self) -> None:
        world = World(job(task(replicas=2))).started()
        world.delete("job-a-1").settle()
        assert sorted(world.pods) == ["job-a-0", "job-a-1"]
        assert world.retries == 0

    @pytest.mark.parametrize("grace", [True, False])
    def test_a_lost_pod_is_an_eviction_even_without_a_watch_event(self, grace: bool) -> None:
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        world = World(job(task(replicas=2), policies=policies)).started()
        world.grace = grace
        world.delete("job-a-1")
        world.grace = True
        world.again()
        assert (world.phase, world.retries) == ("Running", 1)

    def test_scaling_down_is_no_eviction_and_takes_the_highest_index(self) -> None:
        policies = [{"event": "PodEvicted", "action": "TerminateJob"}]
        world = World(job(task(replicas=4, minAvailable=1), policies=policies)).started()
        world.edit(tasks=[task(replicas=2, minAvailable=1)]).settle()
        assert (world.phase, sorted(world.pods)) == ("Running", ["job-a-0", "job-a-1"])

    def test_failure_and_eviction_policies_are_independent(self) -> None:
        policies = [
            {"event": "PodFailed", "action": "RestartPod"},
            {"event": "PodEvicted", "action": "TerminateJob", "timeout": "5m"},
        ]
        world = World(job(task(replicas=2), policies=policies)).started()
        world.fail("job-a-0").settle().run().settle().wait(minutes=6).settle()
        assert world.phase == "Running"


class TestCommands:
    def test_suspend_and_resume(self) -> None:
        world = World(job(task(replicas=2), plugins={"svc": []})).started().succeed("job-a-0").settle()
        world.command("AbortJob").settle()
        assert (world.phase, list(world.pods), world.pod_group) == ("Aborted", ["job-a-0"], None)
        assert (world.objects, world.commands) == ({}, {})
        world.command("ResumeJob", "c2").settle().admit().settle()
        assert (world.retries, sorted(world.pods)) == (0, ["job-a-0", "job-a-1"])
        assert "Service/job" in world.objects
        world.run("job-a-1").settle()
        assert world.phase == "Running"
        assert world.succeed().settle().phase == "Completed"

    def test_repeated_suspension_does_not_count_as_retry(self) -> None:
        world = World(job(maxRetry=2)).started()
        for number in range(5):
            world.command("AbortJob", f"a{number}").settle().command("ResumeJob", f"r{number}").again()
        assert (world.phase, world.retries) == ("Running", 0)

    def test_a_restarting_job_can_be_suspended(self) -> None:
        world = World(job(task(replicas=2), policies=[FAILED_RESTARTS])).started()
        world.fail("job-a-0").step()
        assert world.phase == "Restarting"
        assert world.command("AbortJob").settle().phase == "Aborted"

    @pytest.mark.parametrize(("action", "phase"), [("TerminateJob", "Terminated"), ("CompleteJob", "Completed")])
    def test_a_job_is_aborted_or_terminated_by_command(self, action: str, phase: str) -> None:
        assert World(job(task(replicas=2))).started().command(action).settle().phase == phase

    def test_commands_are_executed_in_order_once(self) -> None:
        world = World(job(task(replicas=2), maxRetry=9)).started()
        world.command("RestartJob", "c1").command("AbortJob", "c2").settle()
        assert (world.phase, world.retries, world.commands) == ("Aborted", 1, {})

    def test_a_command_for_an_earlier_job_of_the_same_name_is_rejected(self) -> None:
        world = World(job()).started().command("AbortJob", uid="old").settle()
        assert (world.phase, world.commands) == ("Running", {})
        assert world.events[-1].message == 'Command "c1" rejected: target.uid does not match the UID of the job'


class TestEnds:
    def test_task_completed_completes_the_job_and_stops_the_others(self) -> None:
        policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        world = World(job(task("master", policies=policies), task("worker", 2))).started()
        world.succeed("job-master-0").settle()
        assert (world.phase, list(world.pods), world.retries) == ("Completed", ["job-master-0"], 0)

    def test_a_task_that_completed_while_suspended_completes_the_job_when_resumed(self) -> None:
        policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
        world = World(job(task("master", policies=policies), task("worker", 2))).started()
        world.succeed("job-master-0").command("AbortJob").settle()
        assert world.phase == "Aborted"
        assert world.command("ResumeJob", "c2").settle().phase == "Completed"

    def test_restarting_containers_fail_a_task(self) -> None:
        policies = [{"event": "TaskFailed", "action": "TerminateJob"}]
        world = World(job(task(replicas=2, maxRetry=4, policies=policies))).started()
        for pod in world.pods.values():
            pod["status"]["containerStatuses"][0]["restartCount"] = 2
        assert world.settle().phase == "Terminated"

    def test_min_success_completes_early(self) -> None:
        world = World(job(task(replicas=4), minSuccess=2)).started()
        world.succeed("job-a-0", "job-a-1").settle()
        assert (world.phase, sorted(world.pods)) == ("Completed", ["job-a-0", "job-a-1"])

    def test_a_finished_job_is_deleted_after_its_ttl(self) -> None:
        world = World(job(ttlSecondsAfterFinished=60)).started().succeed().settle()
        assert (world.plan().again, world.plan().effects) == (world.wait(seconds=60).now, ())
        world.step()
        assert world.job is None

    def test_a_finished_job_without_a_ttl_stays(self) -> None:
        world = World(job()).started().succeed().settle().wait(days=99).settle()
        assert world.phase == "Completed"

    def test_a_terminating_job_is_ignored(self) -> None:
        world = World(job(task(replicas=2))).started()
        assert world.job is not None
        world.job["metadata"]["deletionTimestamp"] = world.now.isoformat()
        world.pods.clear()
        assert world.plan().effects == ()


PENDING_TOO_LONG = {"event": "PodPending", "action": "RestartJob", "timeout": "10m"}


class TestTimeouts:
    def test_a_pod_pending_timeout_triggers_its_action(self) -> None:
        world = World(job(task(replicas=2), policies=[PENDING_TOO_LONG])).settle().admit().settle()
        world.run("job-a-0").settle()
        again = world.plan().again
        assert again is not None
        assert (again - world.now).total_seconds() == 600
        world.wait(minutes=10).step()
        assert (world.phase, world.retries) == ("Restarting", 1)

    def test_a_pod_that_starts_before_the_timeout_is_kept(self) -> None:
        world = World(job(task(replicas=2), policies=[PENDING_TOO_LONG])).started().wait(minutes=11).settle()
        assert (world.phase, world.retries) == ("Running", 0)

    def test_a_delayed_action_survives_the_controller(self) -> None:
        policies = [{"event": "PodEvicted", "action": "TerminateJob", "timeout": "5m"}]
        world = World(job(task(replicas=2), policies=policies)).started()
        world.delete("job-a-0").settle()
        assert world.status["delayed"][0]["action"] == "TerminateJob"
        assert sorted(world.pods) == ["job-a-0", "job-a-1"]
        assert world.wait(minutes=5).settle().phase == "Terminated"

    def test_a_delayed_action_is_dropped_when_the_pod_runs_again(self) -> None:
        policies = [{"event": "PodEvicted", "action": "TerminateJob", "timeout": "5m"}]
        world = World(job(task(replicas=2), policies=policies)).started()
        world.delete("job-a-0").settle().run().settle().wait(minutes=6).settle()
        assert (world.phase, world.status.get("delayed")) == ("Running", None)


def test_a_job_is_not_failed_while_a_restart_is_delayed() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob", "timeout": "5m"}]
    world = World(job(task(replicas=2), policies=policies)).started().fail().settle()
    assert (world.phase, world.message) == ("Running", "0/2 pods running, 2 failed")
    world.wait(minutes=5).again()
    assert (world.phase, world.retries) == ("Running", 1)
    assert world.succeed().settle().phase == "Completed"


class TestScale:
    def test_scaling_up_adds_pods_and_enlarges_the_gang(self) -> None:
        world = World(job(task(replicas=2))).started()
        world.edit(tasks=[task(replicas=4)]).settle()
        assert len(world.pods) == 4
        assert world.pod_group is not None
        assert world.pod_group["spec"]["minMember"] == 4
        assert world.pod_group["spec"]["minResources"]["cpu"] == "4"

    def test_scaling_to_zero_and_back(self) -> None:
        world = World(job(task(replicas=2))).started()
        world.edit(tasks=[task(replicas=0)]).settle()
        assert (world.phase, world.pods) == ("Running", {})
        world.edit(tasks=[task(replicas=2)]).settle().run().settle()
        assert (world.phase, len(world.pods)) == ("Running", 2)


def test_a_task_waits_for_those_it_depends_on_and_the_gang_does_not_wait_for_it() -> None:
    world = World(job(task("master"), task("worker", 2, dependsOn={"name": ["master"]}))).settle()
    assert world.pod_group is not None
    assert world.pod_group["spec"]["minTaskMember"] == {"master": 1}
    world.admit().settle()
    assert list(world.pods) == ["job-master-0"]
    world.run().settle()
    assert len(world.pods) == 3
    assert world.pod_group["spec"]["minMember"] == 3
    assert world.run().settle().phase == "Running"


@pytest.mark.parametrize(
    ("tasks", "phase"),
    [
        ([task("a"), task("b", 2, dependsOn={"name": ["a"]})], "Failed"),
        ([task("a"), task("b", dependsOn={"name": ["a"]}), task("c", dependsOn={"name": ["b"]})], "Failed"),
        ([task("a"), task("x"), task("b", dependsOn={"name": ["a", "x"]})], "Failed"),
        ([task("a"), task("x"), task("b", dependsOn={"name": ["a", "x"], "iteration": "any"})], "Pending"),
        ([task("a", minAvailable=0), task("b", dependsOn={"name": ["a"]})], "Running"),
    ],
)
def test_a_task_with_an_unsatisfiable_dependency_does_not_block_its_job(tasks: list[Json], phase: str) -> None:
    world = World(job(*tasks)).settle().admit().settle()
    for name in world.going():
        world.succeed(name) if name == "job-x-0" else world.fail(name, exit_code=3)
        world.settle()
        if name == "job-a-0":
            break
    if "job-x-0" in world.pods:
        world.succeed("job-x-0").settle()
    assert world.phase == phase
    if phase == "Failed":
        assert world.message == 'task "a": 0/1 required pods succeeded: pod job-a-0 failed with exit code 3'


def test_a_growing_admitted_gang_is_not_reported_as_pending_admission() -> None:
    world = World(job(task("master"), task("worker", 2, dependsOn={"name": ["master"]}))).settle()
    world.admit().settle().run("job-master-0").settle()
    world.admit("Pending").settle()
    state = world.status["state"]
    assert state["reason"] == "WaitingForPods"
    assert state["message"] == '1/3 required pods started: waiting for admission to queue "default"'
    assert world.admit("Running").settle().message == ('admitted to queue "default": 1/3 required pods started')


def test_an_unknown_plugin_keeps_the_job_pending_with_a_message() -> None:
    world = World(job(plugins={"nope": []})).settle()
    assert (world.phase, world.pod_group) == ("Pending", None)
    assert world.message.startswith('Not found: job plugin "nope": job plugins are "env", "svc", "ssh", ')


def test_the_unknown_policy_applies_once_per_unknown_phase() -> None:
    world = World(job(task(replicas=2), policies=[{"event": "Unknown", "action": "AbortJob"}])).started()
    world.admit("Unknown").settle()
    assert world.phase == "Aborted"
    world.command("ResumeJob").again()
    assert world.phase == "Running"


def test_a_changed_job_can_be_restarted() -> None:
    policies = [{"event": "JobUpdated", "action": "RestartJob"}]
    world = World(job(task(replicas=2), policies=policies)).started()
    world.edit(priorityClassName="high").settle()
    assert world.retries == 1


def test_pods_of_an_old_version_are_deleted() -> None:
    world = World(job(task(replicas=2))).started()
    world.command("AbortJob").settle().command("ResumeJob", "c2").started()
    world.pods["job-a-0"]["metadata"]["annotations"]["volcanopy.io/job-version"] = "0"
    effects = world.plan().effects
    assert [effect.name for effect in effects if isinstance(effect, DeletePod)] == ["job-a-0"]
    assert not [effect for effect in effects if isinstance(effect, CreatePod)]


def test_the_status_of_a_waiting_job_has_the_estimated_start_of_its_pod_group() -> None:
    world = World(job()).settle()
    assert world.pod_group is not None
    estimate = {"time": "2026-01-01T01:00:00Z", "basis": "learnt"}
    world.pod_group["status"]["estimatedStart"] = estimate
    assert world.settle().status["estimatedStart"] == {**estimate, "message": ""}
    world.admit().settle().run().settle()
    assert "estimatedStart" not in world.status


def test_a_pod_that_had_succeeded_before_it_was_deleted_does_not_run_again() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    world = World(job(task(replicas=3), policies=policies)).started()
    world.succeed("job-a-1").delete("job-a-1").settle()
    assert sorted(world.pods) == ["job-a-0", "job-a-2"]
    assert (world.phase, world.message) == ("Running", "2/3 pods running, 1 succeeded")
    assert world.status["completedIndexes"] == {"a": "1"}
    world.succeed().settle()
    assert (world.phase, world.message) == ("Completed", "3 pods succeeded")
    assert world.created == ["job-a-0", "job-a-1", "job-a-2"]


def test_a_pod_that_ends_well_after_its_deletion_runs_again() -> None:
    world = World(job(task(replicas=2))).started()
    world.delete("job-a-1").succeed("job-a-1").settle()
    assert world.created == ["job-a-0", "job-a-1", "job-a-1"]
    assert "completedIndexes" not in world.status


def test_the_gang_does_not_wait_for_a_pod_that_does_not_run_again() -> None:
    world = World(job(task(replicas=3))).started()
    world.succeed("job-a-1").delete("job-a-1").delete("job-a-0").settle()
    assert world.created[3:] == ["job-a-0"]
    assert world.pod_group is not None
    assert world.pod_group["spec"]["minMember"] == 2
    assert world.pod_group["spec"]["minTaskMember"] == {"a": 2}
    assert world.pod_group["spec"]["minResources"]["cpu"] == "2"


def test_pods_of_a_partition_are_created_again_because_it_starts_as_a_whole() -> None:
    partitions = {"totalPartitions": 2, "partitionSize": 2}
    world = World(job(task(replicas=4, partitionPolicy=partitions))).started()
    world.succeed("job-a-1").delete("job-a-1").settle()
    assert world.created[4:] == ["job-a-1"]


@pytest.mark.parametrize("at_once", [False, True], ids=["later", "at once"])
def test_a_restart_also_runs_pods_that_had_succeeded_before_they_were_deleted(at_once: bool) -> None:
    world = World(job(task(replicas=3), policies=[FAILED_RESTARTS])).started()
    world.succeed("job-a-1").delete("job-a-1")
    if not at_once:
        world.settle()
    world.fail("job-a-2").again()
    assert sorted(world.created[3:]) == ["job-a-0", "job-a-1", "job-a-2"]
    assert "completedIndexes" not in world.status
    assert "restarts" not in world.status
    assert world.pod_group is not None
    assert world.pod_group["spec"]["minMember"] == 3


def test_a_resumed_job_does_not_run_what_had_succeeded_before() -> None:
    world = World(job(task(replicas=3))).started()
    world.succeed("job-a-0", "job-a-1").delete("job-a-0").delete("job-a-1").command("AbortJob").settle()
    assert (world.phase, world.status["completedIndexes"]) == ("Aborted", {"a": "0-1"})
    world.command("ResumeJob", "c2").again()
    assert world.created[3:] == ["job-a-2"]
    world.succeed().settle()
    assert (world.phase, world.message) == ("Completed", "3 pods succeeded")


def test_a_pod_beyond_the_replicas_is_forgotten() -> None:
    world = World(job(task(replicas=2))).started()
    world.succeed("job-a-1").delete("job-a-1").settle()
    world.edit(tasks=[task(replicas=1)], minAvailable=1).settle()
    assert "completedIndexes" not in world.status
