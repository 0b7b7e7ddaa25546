"""Pods that terminate on nodes that are not ready: what the job says, and their replacement while they terminate."""

import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.api.batch import BatchJob, BatchJobStatus
from volcanopy.api.core import Node
from volcanopy.jobcontroller.plan import UpdateStatus
from volcanopy.jobcontroller.plugins.env import Env
from volcanopy.jobcontroller.plugins.plugin import Arguments, JobPlugin
from volcanopy.jobcontroller.plugins.registry import JOB_PLUGINS, plugin_problems
from volcanopy.jobcontroller.status import phase_message
from volcanopy.jobcontroller.unready_nodes import NOT_READY, not_ready_reason

REASON = "NotReady since 2026-01-01T00:00:00Z: Kubelet stopped posting node status"
RESTART = [{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}]
EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def cut_off(world: World, *pods: str, node: str = "node-2") -> World:
    """The node of these pods is lost: they are deleted, and nothing ends them."""
    world.not_ready = {node: REASON}
    for name in pods:
        world.pods[name]["spec"]["nodeName"] = node
        world.pods[name]["status"]["conditions"] = [EVICTED]
        world.delete(name)
    return world.settle()


def restarting(**spec: Any) -> World:
    return cut_off(World(job(task(replicas=3), policies=RESTART, maxRetry=5, **spec)).started(), "job-a-0", "job-a-1")


def conditions(world: World) -> list[str]:
    return [condition["message"] for condition in world.status["conditions"] if condition["type"] == NOT_READY]


def test_a_job_names_the_node_that_keeps_its_pods_and_the_remedy() -> None:
    world = restarting()
    assert world.phase == "Restarting"
    clause = (
        f'2 pods cannot terminate: node "node-2" {REASON}; when it is shut down, '
        "taint it with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or delete the pods with --force"
    )
    assert world.message == (
        f'pod job-a-0 was evicted: Taint manager: deleting due to NoExecute taint (node "node-2" {REASON}): restart 1; {clause}'
    )
    assert conditions(world) == [clause]
    assert [event.message for event in world.events if event.reason == NOT_READY] == [clause]


def test_the_clause_goes_with_the_pods() -> None:
    world = restarting()
    world.not_ready = {}
    world.settle()
    assert (world.phase, conditions(world)) == ("Pending", [])
    assert "cannot terminate" not in world.message


def test_the_message_of_an_ended_restart_does_not_repeat_the_clause() -> None:
    world = World(job(task(replicas=1), policies=RESTART, maxRetry=1)).started()
    cut_off(world, "job-a-0")
    assert (world.phase, world.message.count("cannot terminate")) == ("Failed", 0)


@pytest.mark.parametrize("action", ["AbortJob", "CompleteJob", "TerminateJob", "RestartJob"])
def test_every_phase_that_waits_for_pods_names_the_node(action: str) -> None:
    world = World(job(task(replicas=2))).started()
    world.pods["job-a-0"]["spec"]["nodeName"] = "node-2"
    world.not_ready = {"node-2": REASON}
    world.command(action).settle()
    assert "1 pod cannot terminate" in world.message
    assert world.message.count("cannot terminate") == 1
    assert "cannot terminate" not in phase_message(world.read().status)


def test_another_number_of_such_pods_is_a_minor_change() -> None:
    world = World(job(task(replicas=3, minAvailable=1), minAvailable=1)).started()
    cut_off(world, "job-a-0").wait(seconds=5)
    world.pods["job-a-1"]["spec"]["nodeName"] = "node-2"
    world.delete("job-a-1")
    (update,) = (effect for effect in world.plan().effects if isinstance(effect, UpdateStatus))
    assert "2 pods cannot terminate" in update.status["state"]["message"]
    assert update.minor


def test_a_pod_that_is_lost_beside_one_that_terminates_for_long_is_named() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartPod"}]
    world = World(job(task(replicas=3, minAvailable=1), minAvailable=1, maxRetry=9, policies=policies)).started()
    cut_off(world, "job-a-0").wait(minutes=1)
    cut_off(world, "job-a-2")
    restarted = [event.message for event in world.events if event.reason == "PodEvicted"]
    assert [message.split()[1] for message in restarted] == ["job-a-0", "job-a-2"]


def test_pods_that_terminate_on_ready_nodes_are_not_reported() -> None:
    world = World(job(task(replicas=2), policies=RESTART)).started()
    world.pods["job-a-0"]["spec"]["nodeName"] = "node-1"
    world.not_ready = {"node-2": REASON}
    world.delete("job-a-0").settle()
    assert (world.retries, conditions(world), "node" in world.message) == (1, [], False)


def test_many_nodes_are_counted() -> None:
    world = World(job(task(replicas=5), policies=RESTART)).started()
    for number in range(5):
        world.pods[f"job-a-{number}"]["spec"]["nodeName"] = f"n{number}"
        world.delete(f"job-a-{number}")
    world.not_ready = {f"n{number}": REASON for number in range(5)}
    assert 'nodes "n0", "n1", "n2" and 2 more NotReady' in world.settle().message


def test_by_default_no_pod_is_created_before_its_predecessor_is_gone() -> None:
    world = restarting()
    assert world.created == ["job-a-0", "job-a-1", "job-a-2"]


def test_a_pod_is_replaced_while_it_terminates_if_the_job_requests_it() -> None:
    world = restarting(podReplacementPolicy="TerminatingOrFailed").admit().settle()
    assert world.created[3:] == ["job-a-0-r1", "job-a-1-r1", "job-a-2"]
    world.run(*world.created[3:]).settle()
    assert (world.phase, world.status["running"], world.status["terminating"]) == ("Running", 3, 2)
    assert conditions(world)[0].startswith("2 pods cannot terminate")
    world.not_ready = {}
    world.settle().succeed().settle()
    assert (world.phase, world.status["succeeded"]) == ("Completed", 3)


def test_the_replacement_of_a_replacement_has_a_free_name() -> None:
    world = restarting(podReplacementPolicy="TerminatingOrFailed").admit().settle()
    world.run(*world.created[3:]).settle()
    cut_off(world, "job-a-1-r1").wait(seconds=5).settle().admit().settle()
    assert "job-a-1-r2" in world.created
    world.not_ready = {}
    assert sorted(world.settle().pods) == ["job-a-0-r1", "job-a-1-r2", "job-a-2"]


def test_a_failed_pod_keeps_its_name_in_a_restart() -> None:
    """Its deletion takes no time: nothing needs another name."""
    world = World(job(task(replicas=1), policies=RESTART, podReplacementPolicy="TerminatingOrFailed")).started()
    world.grace = False
    world.fail().settle().admit().settle()
    assert world.created == ["job-a-0", "job-a-0"]


def test_a_success_is_kept_beside_a_predecessor_that_terminates() -> None:
    array = task(replicas=2, minAvailable=1)
    world = World(job(array, podReplacementPolicy="TerminatingOrFailed", minAvailable=1)).started()
    cut_off(world, "job-a-0")
    assert "job-a-0-r1" in world.pods
    world.run("job-a-0-r1").succeed("job-a-0-r1").settle()
    world.delete("job-a-0-r1").settle()
    assert sorted(world.pods) == ["job-a-0", "job-a-1"]
    assert world.created == ["job-a-0", "job-a-1", "job-a-0-r1"]
    assert world.succeed("job-a-1").settle().status["completedIndexes"] == {"a": "0"}


def test_the_parallelism_does_not_count_replaced_pods() -> None:
    array = task(replicas=3, minAvailable=1, parallelism=2)
    world = World(job(array, minAvailable=1, podReplacementPolicy="TerminatingOrFailed")).settle().admit().settle()
    world.run().settle()
    cut_off(world, "job-a-0")
    assert world.created == ["job-a-0", "job-a-1", "job-a-0-r1"]


@pytest.mark.parametrize("seed", range(30))
def test_at_most_one_pod_of_an_index_does_not_terminate(seed: int) -> None:
    """Whatever is deleted, fails, succeeds or is gone: one pod stands for an index, names are unique, and a job that is
    left alone gets all its pods."""
    rng = random.Random(seed)
    policy = rng.choice(["TerminatingOrFailed", "Failed"])
    world = World(job(task(replicas=3), policies=RESTART, maxRetry=1000, podReplacementPolicy=policy)).started()
    world.not_ready = {"node-2": REASON}
    for _ in range(40):
        for pod in world.pods.values():
            pod["spec"]["nodeName"] = "node-2"
        name = rng.choice([*world.pods, ""])
        alive = name and "deletionTimestamp" not in world.pods[name]["metadata"]
        step = rng.choice(["delete", "fail", "run", "gone", "admit", "wait"])
        if step == "delete" and alive:
            world.delete(name)
        elif step == "gone" and name and not alive:
            del world.pods[name]
        elif step in {"fail", "run"} and alive:
            (world.fail if step == "fail" else world.run)(name)
        elif step == "admit" and world.pod_group is not None:
            world.admit()
        else:
            world.wait(minutes=6)
        world.settle()
        staying = Counter(
            pod["metadata"]["labels"]["volcanopy.io/task-index"]
            for pod in world.pods.values()
            if "deletionTimestamp" not in pod["metadata"]
        )
        assert all(number == 1 for number in staying.values())
    world.wait(minutes=6).settle()
    if policy == "Failed":
        world.not_ready = {}
    world.settle().admit().settle()
    assert sum("deletionTimestamp" not in pod["metadata"] for pod in world.pods.values()) == 3


class Named(JobPlugin[Arguments]):
    """A plugin of others, which may rely on the names of pods."""

    name = "named"


def problems(**spec: Any) -> list[str]:
    read = BatchJob.read(job(task(name="master"), task(name="worker"), **spec))
    return [f"{problem.path}: {problem.message}" for problem in plugin_problems(read, {**JOB_PLUGINS, "named": Named})]


def test_plugins_that_need_the_names_refuse_replacements() -> None:
    replaced = {"podReplacementPolicy": "TerminatingOrFailed"}
    assert problems(plugins={"named": []}) == []
    assert problems(plugins={"named": []}, **replaced) == [
        'spec.podReplacementPolicy: Invalid value: "TerminatingOrFailed": podReplacementPolicy must be Failed:'
        ' job plugin "named" needs pods named <job>-<task>-<index>'
    ]
    refused = problems(plugins={"svc": ["--publish-not-ready-addresses"]}, **replaced)
    assert refused[0].startswith("spec.podReplacementPolicy: ")
    for name in JOB_PLUGINS.keys() - {"ray"}:  # it needs a task "head"
        assert problems(plugins={name: []}, **replaced) == []


def test_replacements_keep_the_host_name_of_their_index() -> None:
    world = World(job(task(replicas=1), plugins={"svc": []}, podReplacementPolicy="TerminatingOrFailed")).started()
    cut_off(world, "job-a-0")
    assert world.pods["job-a-0-r1"]["spec"]["hostname"] == "job-a-0"
    assert not Env.needs_pod_names


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ({"status": "True", "reason": "KubeletReady"}, ""),
        (
            {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."},
            REASON,
        ),
        (
            {"status": "False", "reason": "KubeletNotReady", "message": "a\nb"},
            "NotReady since 2026-01-01T00:00:00Z: a b",
        ),
    ],
)
def test_the_reason_of_a_node_is_its_condition(condition: dict[str, str], reason: str) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
    conditions = [{"type": "Ready", "lastTransitionTime": time, **condition}]
    node = msgspec.convert({"metadata": {"name": "n"}, "status": {"conditions": conditions}}, Node)
    assert not_ready_reason(node) == reason
    assert BatchJobStatus().terminating == 0
