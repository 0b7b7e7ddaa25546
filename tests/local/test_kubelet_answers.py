"""Process and simulated nodes beside real kubelets: from the same containers follow the same phase and conditions."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from chaos import node_failure
from embedded_apiserver.wire.pod_columns import pod_status as shown_status
from tests.kube.cluster import running_cluster
from tests.kube.kubelet_answers import NAMES, NODES, PODS, answer
from volcanopy.api import core
from volcanopy.api.decoding import convert
from volcanopy.kube.client.raw_kinds import CSI_NODES as CSI_NODES_KIND
from volcanopy.kube.client.raw_kinds import NODES as NODES_KIND
from volcanopy.kube.client.raw_kinds import PODS as PODS_KIND
from volcanopy_local.process import machine
from volcanopy_local.process import pod_status as process
from volcanopy_local.simulated import nodes, pod_stages, pod_status

Json = dict[str, Any]
ADDRESSES = {"pod": "10.0.0.1", "host": "10.0.0.2"}
OF_OTHERS = frozenset({"PodScheduled", "DisruptionTarget"})
"""Types of conditions that a kubelet does not write."""
WITHOUT_SANDBOX = frozenset({"pod-container-creating"})
"""Pods whose sandbox does not exist yet, which their containers do not show."""
STARTED = [name for name in PODS if name != "pod-unschedulable"]
BORN = 1_900_000_000.0


def seen(conditions: Iterable[Json], *without: str) -> dict[str, tuple[str, str]]:
    return {
        condition["type"]: (condition["status"], condition.get("reason") or "")
        for condition in conditions
        if condition["type"] not in {*OF_OTHERS, *without}
    }


def states_of(pod: Json) -> list[process.ContainerRecord]:
    """The containers as the kubelet reported them."""
    states = []
    for key, init in (("initContainers", True), ("containers", False)):
        statuses = {each["name"]: each for each in pod["status"].get(f"{key[:-1]}Statuses") or ()}
        for container in pod["spec"].get(key) or ():
            state = process.restored(pod, container, init=init)
            state.ready = statuses[container["name"]]["ready"]
            states.append(state)
    return states


@pytest.mark.parametrize("name", STARTED)
def test_a_process_node_derives_phase_and_conditions_as_a_kubelet(name: str) -> None:
    pod = answer(name)
    if pod["status"].get("reason") == "DeadlineExceeded":
        pytest.skip("the deadline ends the pod, not its containers")
    if name == "pod-terminating-on-lost-node":
        pytest.skip("the node controller has changed the condition Ready")
    states = states_of(pod)
    phase = process.phase_of(pod, states)
    assert phase == pod["status"]["phase"]
    conditions = process.status(phase, states, 0.0, 0.0, ADDRESSES)["conditions"]
    without = ("PodReadyToStartContainers",) if name in WITHOUT_SANDBOX else ()
    assert seen(conditions, *without) == seen(pod["status"]["conditions"], *without)


@pytest.mark.parametrize("name", STARTED)
def test_a_process_node_writes_the_fields_of_a_container_that_a_kubelet_writes(name: str) -> None:
    """Those that describe what it does; a process has no volumes, users and resources of a container runtime."""
    for state, status in zip(states_of(answer(name)), process.all_of(answer(name)), strict=True):
        described = {
            "name",
            "image",
            "imageID",
            "ready",
            "restartCount",
            "state",
            "lastState",
            "started",
            "containerID",
        }
        assert described & status.keys() == state.status().keys()


MOMENTS: dict[str, tuple[dict[str, str], bool, float]] = {
    "pod-running": ({"duration": "60s"}, False, 10),
    "pod-succeeded": ({"duration": "1s"}, False, 60),
    "pod-failed": ({"duration": "1s", "exit-code": "3"}, False, 60),
    "pod-pod-initializing": ({"duration.first": "60s"}, True, 10),
    "pod-failed-init": ({"duration.first": "1s", "exit-code.first": "8"}, True, 60),
}
"""By answer: annotations of a simulated pod, whether it has an init container, and when it is looked at."""


@pytest.mark.parametrize("name", MOMENTS)
def test_a_simulated_node_shows_phase_and_conditions_as_a_kubelet(name: str) -> None:
    annotations, has_init, seconds = MOMENTS[name]
    notes = {f"sim.volcanopy.io/{key}": value for key, value in annotations.items()}
    init = (("first", "image", ""),) if has_init else ()
    script = pod_stages.script(notes, (("main", "image"),), init, "Never", "uid", pod_stages.Stages())
    moment = pod_stages.at(script, BORN, BORN + seconds)
    place = pod_status.PodAddresses("10.0.0.1", "10.0.0.2")
    status = pod_status.status(
        pod_status.SimulatedPod(metadata=pod_status.Meta(name="p")), script, moment, BORN, BORN + seconds, place
    )
    expected = answer(name)["status"]
    assert status["phase"] == expected["phase"]
    assert seen(status["conditions"]) == seen(expected["conditions"])
    for key in ("containerStatuses", "initContainerStatuses"):
        for own, theirs in zip(status.get(key) or (), expected.get(key) or (), strict=True):
            for state in ("state", "lastState"):
                described = own.get(state) or {}
                assert described.keys() == theirs[state].keys()
                for member, content in theirs[state].items():
                    assert described[member].get("reason") == content.get("reason")


SHOWN = {
    "container-creating": "ContainerCreating",
    "crash-loop-back-off": "CrashLoopBackOff",
    "create-container-config-error": "CreateContainerConfigError",
    "err-image-never-pull": "ErrImageNeverPull",
    "err-image-pull": "ErrImagePull",
    "failed": "Error",
    "failed-by-deadline": "Completed",
    "failed-by-memory": "Error",
    "failed-init": "Init:Error",
    "failed-start": "StartError",
    "image-pull-back-off": "ImagePullBackOff",
    "init-crash-loop-back-off": "Init:CrashLoopBackOff",
    "init-image-pull-back-off": "Init:ImagePullBackOff",
    "invalid-image-name": "InvalidImageName",
    "pod-initializing": "Init:0/1",
    "succeeded": "Completed",
    "succeeded-with-sidecar": "Completed",
    "terminating": "Terminating",
    "terminating-on-lost-node": "Terminating",
    "unschedulable": "Pending",
}
"""The status that `kubectl get pods` shows on a real API server; of the others it is Running."""


@pytest.mark.parametrize("name", PODS)
def test_the_embedded_server_shows_the_status_of_kubectl(name: str) -> None:
    assert shown_status(answer(name)) == SHOWN.get(name.removeprefix("pod-"), "Running")


NOT_WRITTEN = {"daemonEndpoints", "declaredFeatures", "features", "images", "runtimeHandlers"}
"""Fields of a node's status that describe a kubelet and its container runtime."""


@pytest.mark.parametrize("describe", [nodes.description, machine.description])
@pytest.mark.parametrize("name", NODES)
def test_a_node_of_ours_has_the_status_that_a_kubelet_writes(name: str, describe: Callable[..., Json]) -> None:
    status = answer(name)["status"]
    own = describe(convert(answer(name), core.Node), "10.0.0.1", BORN)
    assert status.keys() - own.keys() == NOT_WRITTEN
    assert own.keys() <= status.keys()
    assert own["nodeInfo"].keys() == status["nodeInfo"].keys()
    assert [address["type"] for address in own["addresses"]] == [address["type"] for address in status["addresses"]]


def described(conditions: Iterable[Json]) -> list[tuple[str, ...]]:
    return [tuple(condition[key] for key in ("type", "status", "reason", "message")) for condition in conditions]


def test_the_conditions_of_a_node_are_those_of_a_kubelet_and_of_its_loss() -> None:
    healthy, lost = answer("node-untagged-image"), answer("node-not-ready")
    assert described(nodes.conditions(BORN)) == described(healthy["status"]["conditions"])
    assert described(node_failure.unknown_conditions(BORN)) == described(lost["status"]["conditions"])
    taints = [{key: taint[key] for key in ("key", "effect")} for taint in node_failure.unreachable_taints(BORN)]
    assert taints == [{key: taint[key] for key in ("key", "effect")} for taint in lost["spec"]["taints"]]


async def test_the_embedded_server_stores_what_kubelets_write() -> None:
    async with running_cluster() as cluster:
        for name in NAMES:
            manifest = answer(name)
            status = manifest.pop("status", {})
            metadata = {key: value for key, value in manifest["metadata"].items() if key in {"annotations", "labels"}}
            kind = {"Pod": PODS_KIND, "Node": NODES_KIND, "CSINode": CSI_NODES_KIND}[manifest["kind"]]
            namespace = "default" if kind is PODS_KIND else None
            manifest["metadata"] = {**metadata, "name": name} | ({"namespace": namespace} if namespace else {})
            created = await cluster.client.create(kind, namespace, manifest)
            if not status:
                continue
            stored = await cluster.client.update_status(kind, created, status)
            assert without_nulls(stored["status"]) == without_nulls(status), name


def without_nulls(value: Any) -> Any:
    """A value without members that are null, which is the same as their absence."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(member) for member in value] if isinstance(value, list) else value


def test_the_pods_of_a_job_share_the_parts_in_which_they_are_equal() -> None:
    share = pod_status.sharing()
    first, second = (
        share(
            pod_status.SimulatedPod(
                metadata=pod_status.Meta(name=name, annotations={"a": "b"}),
                spec=pod_status.PodSpec(node_name="n", containers=(pod_status.ContainerSpec(name="main"),)),
                status=pod_status.SimulatedPodStatus(
                    container_statuses=(pod_status.SimulatedContainerStatus(name="main"),)
                ),
            )
        )
        for name in ("x", "y")
    )
    assert (first.metadata.name, second.metadata.name) == ("x", "y")
    assert first.spec is second.spec
    assert first.metadata.annotations is second.metadata.annotations
    assert first.status.container_statuses is second.status.container_statuses
    bare = pod_status.SimulatedPod(metadata=pod_status.Meta(name="z"))
    assert share(bare) == share(bare) == bare
