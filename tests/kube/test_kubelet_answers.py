"""What real kubelets write is read by every decoder, and means what it says."""

from typing import Any

import msgspec
import pytest
from msgspec import inspect

from tests.api.test_decoding import example
from tests.kube.faulty_server import FakeTime, FaultyServer
from tests.kube.kubelet_answers import NAMES, NODES, PODS, answer, text
from tests.kube.reflector_runs import following
from tests.realnode.recording import STATES
from volcanopy.api import core
from volcanopy.api.builtin.storage import CSINode
from volcanopy.api.decoding import convert, decode
from volcanopy.client.explain.pod_problems import pod_problems
from volcanopy.client.jobs.pods import Pod as PodOfCommands
from volcanopy.jobcontroller.observed import JobPod, disruption
from volcanopy.jobcontroller.unready_nodes import not_ready_reason
from volcanopy.kube.cache import followed_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Kind
from volcanopy.services.controllers.api_controllers import slimming_of_jobs
from volcanopy.whatif import kinds
from volcanopy_local.simulated.pod_status import SimulatedPod

TYPES: dict[str, tuple[Any, ...]] = {
    "Pod": (core.Pod, PodOfCommands, SimulatedPod),
    "Node": (core.Node,),
    "CSINode": (CSINode,),
}
UNSCHEDULABLE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"


def pod(name: str) -> core.Pod:
    return decode(text(f"pod-{name}"), core.Pod)


@pytest.mark.parametrize("name", NAMES)
def test_every_type_of_the_kind_reads_the_answer(name: str) -> None:
    kind = answer(name)["kind"]
    for shape in TYPES[kind]:
        item = decode(text(name), shape)
        assert item == convert(answer(name), shape)
        assert item.metadata.name


def manifest(kind: Kind[Any], *, nulls: bool) -> dict[str, Any]:
    """An object with each struct that its read model has; with `nulls` the other fields, here and below, are null."""
    shape = inspect.type_info(kind.type)
    assert isinstance(shape, inspect.StructType)
    body: dict[str, Any] = example(shape, nulls)
    body |= {
        item.encode_name: example(item.type, nulls)
        for item in shape.fields
        if isinstance(item.type, inspect.StructType)
    }
    body["metadata"] = {key: None for key in body["metadata"] if key not in {"name", "namespace"}}
    return body


@pytest.mark.parametrize("kind", [*followed_kinds.REQUIRED, *followed_kinds.OPTIONAL], ids=lambda kind: kind.kind)
async def test_null_is_absent_on_each_path_of_a_kind(
    client: Client, server: FaultyServer, time: FakeTime, kind: Kind[Any]
) -> None:
    namespace = "ns" if kind.namespaced else ""

    def put(name: str, *, nulls: bool) -> dict[str, Any]:
        return server.put(kind.plural, namespace, name, **manifest(kind, nulls=nulls))

    absent, null = put("absent", nulls=False), put("null", nulls=True)

    def expected(stored: dict[str, Any]) -> Any:
        return msgspec.convert(
            {**absent, "metadata": {key: item for key, item in stored["metadata"].items() if item is not None}},
            kind.type,
        )

    assert await client.get(kind, namespace or None, "null") == expected(null)
    listing = await client.list(kind)
    assert not listing.rejected
    assert listing.items[1] == expected(null)
    async with following(client, time, kind=kind) as (reflector, follower):
        watched = put("watched", nulls=True)
        key = f"{namespace}/watched".strip("/")
        await follower.until(key)
        assert not reflector.rejected
        assert reflector.objects[key] == expected(watched)
    if (of_file := kinds.BY_MODEL.get(kind.type)) is not None:
        assert kinds.read(null, of_file) == expected(null)


def test_a_node_with_an_untagged_image_has_its_capacity() -> None:
    assert any(image["names"] is None for image in answer("node-untagged-image")["status"]["images"]), "as recorded"
    node = decode(text("node-untagged-image"), core.Node)
    assert node.status.allocatable["cpu"]
    assert () in {image.names for image in node.status.images}


def test_a_csinode_without_drivers_is_read() -> None:
    assert answer("csinode")["spec"] == {"drivers": None}, "as recorded"
    assert decode(text("csinode"), CSINode).spec.drivers == ()


@pytest.mark.parametrize("name", NODES)
def test_the_reason_of_a_node_that_is_not_ready(name: str) -> None:
    reason = not_ready_reason(decode(text(name), core.Node))
    assert bool(reason) == (name == "node-not-ready")
    if reason:
        assert reason.startswith("NotReady since ")
        assert reason.endswith(": Kubelet stopped posting node status")


def test_a_pod_of_a_lost_node_was_evicted_by_the_taint_manager() -> None:
    eviction = disruption(slimming_of_jobs()(pod("terminating-on-lost-node")))
    assert eviction is not None
    assert eviction[1] == "Taint manager: deleting due to NoExecute taint"


def test_the_job_controller_knows_the_sidecars_of_a_pod() -> None:
    slim = slimming_of_jobs()
    assert slim(pod("succeeded-with-sidecar")).spec.sidecars == {"sidecar"}
    assert not slim(pod("failed-init")).spec.sidecars


PROBLEMS = {
    "image-pull-back-off": 'container "main": ErrImagePull: failed to pull and unpack image "localhost:1/absent:1": ',
    "err-image-pull": 'container "main": ErrImagePull: failed to pull and unpack image "localhost:1/absent:1": ',
    "init-image-pull-back-off": 'container "first": ErrImagePull: failed to pull and unpack image "localhost:1/absent:1": ',
    "err-image-never-pull": 'container "main": ErrImageNeverPull: Container image "localhost:1/absent:1" is not present',
    "invalid-image-name": 'container "main": InvalidImageName: Failed to apply default image tag "Not A Name"',
    "create-container-config-error": 'container "main": CreateContainerConfigError: configmap "absent" not found',
    "crash-loop-back-off": 'container "main": CrashLoopBackOff: back-off ',
    "init-crash-loop-back-off": 'container "first": CrashLoopBackOff: back-off ',
}
FAILURES = {
    "failed": "exit code 3: wrong",
    "failed-by-memory": "exit code 137",
    "failed-start": "exit code 128 (StartError): failed to create containerd task",
    "failed-by-deadline": ": DeadlineExceeded: Pod was active on the node longer than the specified deadline",
    "failed-init": "exit code 8",
}
"""By state: what a job says of a pod that cannot start, and of one that failed."""


@pytest.mark.parametrize("name", [name.removeprefix("pod-") for name in PODS])
def test_a_job_has_the_reason_of_the_kubelet(name: str) -> None:
    slim = slimming_of_jobs()(pod(name))
    member = JobPod(slim, "t", 0, 0, 0, "")
    assert (PROBLEMS[name] in member.start_problem) if name in PROBLEMS else not member.start_problem
    assert (member.phase == "Failed") == (name in FAILURES)
    assert FAILURES.get(name, "") in member.failure


@pytest.mark.parametrize("name", [name.removeprefix("pod-") for name in PODS])
def test_explain_has_the_reason_of_the_kubelet(name: str) -> None:
    problems = pod_problems([decode(text(f"pod-{name}"), PodOfCommands)])
    messages = " ".join(problem.message for problem in problems)
    if name == "unschedulable":
        assert UNSCHEDULABLE in messages
    for word in ("ErrImagePull: ", "ErrImageNeverPull: ", "InvalidImageName: ", "CreateContainerConfigError: "):
        assert (word in messages) == (word in PROBLEMS.get(name, "")), messages


def test_the_reason_of_a_restart_on_the_spot_is_kept() -> None:
    for name, code in (("restarted", 5), ("crash-loop-back-off", 6)):
        assert f"exited with code {code}" in JobPod(pod(name), "t", 0, 0, 0, "").last_failure


def test_every_recorded_state_has_an_answer() -> None:
    assert {f"pod-{state}" for state in STATES} < set(PODS)


def test_answers_are_in_the_form_of_the_api_server() -> None:
    for name in NAMES:
        assert msgspec.json.decode(text(name))["metadata"].get("managedFields") is None
