"""What pods say about their failure, or why they do not start, is in the job's status and events."""

from typing import Any

import pytest

from tests.jobcontroller.world import World, job, task

NO_COMMAND = "failed to start container: no command: images are not run on process nodes"
PULL = 'failed to pull and unpack image "docker.io/library/trainr:1": not found'
BACK_OFF = f'Back-off pulling image "trainr:1": ErrImagePull: {PULL}'
Json = dict[str, Any]


def container(state: Json, name: str = "main") -> Json:
    """The status of a container."""
    return {"name": name, "state": state}


def waiting(reason: str, message: str = "") -> Json:
    """A container that has not started."""
    return container({"waiting": {"reason": reason, "message": message}})


def terminated(code: int, reason: str, message: str = "", name: str = "main") -> Json:
    """A container that has ended."""
    return container({"terminated": {"exitCode": code, "reason": reason, "message": message}}, name)


def admitted(replicas: int = 1, **spec: Any) -> World:
    """A job whose pods exist and have not started."""
    world = World(job(task(replicas=replicas), **spec)).settle().admit()
    return world.settle()


def set_status(world: World, name: str, phase: str, *containers: Json, key: str = "containerStatuses") -> World:
    """A kubelet reports the containers of a pod."""
    world.pods[name]["status"] = {"phase": phase, key: list(containers)}
    return world.settle()


@pytest.mark.parametrize(
    ("containers", "message"),
    [
        ([terminated(127, "StartError", NO_COMMAND)], f"exit code 127 (StartError): {NO_COMMAND}"),
        ([terminated(137, "OOMKilled")], "exit code 137 (OOMKilled)"),
        ([terminated(1, "Error", "disk\n is full\n")], "exit code 1: disk is full"),
        ([terminated(1, "Error")], "exit code 1"),
        (
            [terminated(0, "Completed"), terminated(2, "Error", name="b"), terminated(3, "OOMKilled", name="c")],
            "exit code 2, 3 (OOMKilled)",
        ),
    ],
)
def test_the_message_of_a_failed_job_has_the_text_of_the_container(containers: list[Json], message: str) -> None:
    world = set_status(admitted(), "job-a-0", "Failed", *containers)
    assert (world.phase, world.message) == (
        "Failed",
        f'task "a": 0/1 required pods succeeded: pod job-a-0 failed with {message}',
    )
    assert ("Warning", "Failed", world.message) in [(event.type, event.reason, event.message) for event in world.events]


def test_the_message_of_a_pod_that_its_node_ended_has_the_reason_and_the_text_of_the_kubelet() -> None:
    world = admitted()
    text = "The node was low on resource: memory."
    world.pods["job-a-0"]["status"] = {"phase": "Failed", "reason": "Evicted", "message": text}
    assert world.settle().message.endswith(f"pod job-a-0 failed: Evicted: {text}")


def test_a_long_termination_message_is_shortened() -> None:
    world = set_status(admitted(), "job-a-0", "Failed", terminated(1, "Error", "x" * 4000))
    assert world.message.endswith("xxx...")
    assert len(world.message) < 700


@pytest.mark.parametrize(
    ("reason", "text", "message"),
    [
        ("ErrImagePull", PULL, f"ErrImagePull: {PULL}"),
        ("ImagePullBackOff", BACK_OFF, f"ErrImagePull: {PULL}"),
        ("ImagePullBackOff", 'Back-off pulling image "x"', 'ImagePullBackOff: Back-off pulling image "x"'),
        ("InvalidImageName", "invalid reference format", "InvalidImageName: invalid reference format"),
        (
            "CreateContainerConfigError",
            'configmap "c" not found',
            'CreateContainerConfigError: configmap "c" not found',
        ),
    ],
)
@pytest.mark.parametrize("key", ["containerStatuses", "initContainerStatuses"])
def test_a_pending_job_says_why_its_pods_cannot_start(reason: str, text: str, message: str, key: str) -> None:
    world = set_status(admitted(2), "job-a-1", "Pending", waiting(reason, text), key=key)
    expected = f'0/2 required pods started: pod job-a-1 cannot start: container "main": {message}'
    state = world.status["state"]
    assert (state["phase"], state["reason"], state["message"]) == ("Pending", "PodStartFailed", expected)
    events = [(event.type, event.reason, event.message) for event in world.events]
    assert events == [("Warning", "PodStartFailed", expected)], "once"


def test_containers_that_start_as_usual_are_no_problem() -> None:
    for reason in ("ContainerCreating", "PodInitializing"):
        world = set_status(admitted(), "job-a-0", "Pending", waiting(reason))
        assert world.message == 'admitted to queue "default": 0/1 required pods started'
        assert world.events == []


def test_the_message_does_not_change_between_a_failed_pull_and_its_back_off() -> None:
    world = set_status(admitted(), "job-a-0", "Pending", waiting("ErrImagePull", PULL))
    writes, message = world.status_writes, world.message
    for _ in range(3):
        set_status(world, "job-a-0", "Pending", waiting("ImagePullBackOff", BACK_OFF))
        set_status(world, "job-a-0", "Pending", waiting("ErrImagePull", PULL))
    assert (world.status_writes, world.message) == (writes, message)


def test_a_running_job_says_which_other_pods_cannot_start_until_they_run() -> None:
    world = admitted(2, minAvailable=1).run("job-a-0").settle()
    set_status(world, "job-a-1", "Pending", waiting("ErrImagePull", PULL))
    expected = f'1/2 pods running, pod job-a-1 cannot start: container "main": ErrImagePull: {PULL}'
    assert (world.phase, world.status["state"]["reason"], world.message) == ("Running", "PodStartFailed", expected)
    assert ("PodStartFailed", expected) in [(event.reason, event.message) for event in world.events]
    world.run("job-a-1").settle()
    assert (world.phase, world.status["state"]["reason"], world.message) == ("Running", "Started", "2/2 pods running")


def test_a_restart_that_waits_says_what_it_is_for() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    world = World(job(task(), policies=policies, maxRetry=5)).started()
    for _ in range(2):
        set_status(world, "job-a-0", "Failed", terminated(127, "StartError", NO_COMMAND))
        if world.status["state"]["reason"] == "RestartBackOff":
            break
        world.again()
    assert world.status["state"]["reason"] == "RestartBackOff"
    assert world.message.endswith(f"; pod job-a-0 failed with exit code 127 (StartError): {NO_COMMAND}")


def test_a_job_whose_tasks_have_no_replicas_says_what_it_waits_for() -> None:
    world = World(job(task(replicas=2))).started()
    world.edit(tasks=[task(replicas=0)]).settle()
    state = world.status["state"]
    assert (state["phase"], state["reason"]) == ("Running", "ScaledToZero")
    assert state["message"] == "no pods: every task has 0 replicas; the job continues when a task is scaled up"
    world.edit(tasks=[task(replicas=2)]).settle().run().settle()
    assert (world.phase, world.status["state"]["reason"], world.message) == ("Running", "Started", "2/2 pods running")


@pytest.mark.parametrize("key", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("action", ["TerminateJob", "AbortJob", "CompleteJob", "RestartJob", "RestartTask"])
def test_a_policy_for_pods_that_stay_pending_keeps_why_they_could_not_start(action: str, key: str) -> None:
    world = admitted(2, policies=[{"event": "PodPending", "action": action, "timeout": "10s"}])
    set_status(world, "job-a-0", "Pending", waiting("ImagePullBackOff", BACK_OFF), key=key)
    world.wait(seconds=11).step()
    assert f'pod job-a-0 cannot start: container "main": ErrImagePull: {PULL}' in world.message
    assert any(PULL in event.message for event in world.events if event.reason != "PodStartFailed")


def test_a_delayed_action_keeps_how_the_pod_failed() -> None:
    world = admitted(2, policies=[{"event": "PodFailed", "action": "TerminateJob", "timeout": "10s"}])
    set_status(world, "job-a-0", "Failed", terminated(3, "Error", "disk full"))
    world.wait(seconds=11).settle()
    expected = "pod job-a-0 failed with exit code 3: disk full: PodFailed timed out"
    assert (world.phase, world.message) == ("Terminated", expected)


def test_a_task_that_fails_by_restarts_on_the_spot_keeps_how_its_container_ended() -> None:
    world = admitted(policies=[{"event": "TaskFailed", "action": "TerminateJob"}])
    crashed = waiting("CrashLoopBackOff", "back-off 10s") | {
        "restartCount": 3,
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
    }
    set_status(world, "job-a-0", "Running", crashed)
    cause = 'pod job-a-0: container "main" exited with code 137 (OOMKilled)'
    assert world.message == f'maxRetry of task "a" reached (3/3 container restarts): {cause}'


def test_a_job_says_which_pod_fails_again_and_again() -> None:
    world = admitted(2).run().settle()
    end = {"terminated": {"exitCode": 3, "reason": "Error"}}
    failed = {**terminated(3, "Error"), "restartCount": 2, "lastState": end}
    set_status(world, "job-a-1", "Running", failed)
    expected = '2/2 pods running, pod job-a-1 fails repeatedly: container "main" exited with code 3 (2 restarts)'
    assert (world.phase, world.status["state"]["reason"], world.message) == ("Running", "PodFailsRepeatedly", expected)
    writes = world.status_writes
    set_status(world, "job-a-1", "Running", {**waiting("CrashLoopBackOff"), "restartCount": 2, "lastState": end})
    assert (world.message, world.status_writes) == (expected, writes)
    set_status(world, "job-a-1", "Running", {**container({"running": {}}), "restartCount": 3, "lastState": end})
    assert (world.status["state"]["reason"], world.message) == ("Started", "2/2 pods running")


def test_restarts_of_a_sidecar_do_not_count_towards_max_retry() -> None:
    world = admitted(policies=[{"event": "TaskFailed", "action": "TerminateJob"}])
    world.pods["job-a-0"]["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    proxy = container({"running": {}}, name="proxy") | {"restartCount": 9}
    status = world.pods["job-a-0"]["status"] | {"phase": "Running", "initContainerStatuses": [proxy]}
    world.pods["job-a-0"]["status"] = status | {"containerStatuses": [container({"running": {}}) | {"restartCount": 2}]}
    world.settle()
    assert world.phase == "Running"


def test_the_exit_code_of_a_sidecar_matches_no_policy_and_is_no_cause() -> None:
    world = admitted(policies=[{"exitCode": 143, "action": "CompleteJob"}])
    world.pods["job-a-0"]["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    world.pods["job-a-0"]["status"]["initContainerStatuses"] = [terminated(143, "Error", name="proxy")]
    failed = world.pods["job-a-0"]["status"] | {"phase": "Failed", "containerStatuses": [terminated(1, "Error")]}
    world.pods["job-a-0"]["status"] = failed
    world.settle()
    expected = 'task "a": 0/1 required pods succeeded: pod job-a-0 failed with exit code 1'
    assert (world.phase, world.message) == ("Failed", expected)
