"""The scheduling gate of pods that wait for their queue: an autoscaler sees them when only nodes are missing."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.kube.cluster import EVENTS, Cluster, Json, body, running_cluster
from tests.services.test_scheduler import scheduling
from tests.services.test_volcano_admission import asked, job, patched
from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import mutate
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.services.scheduler.state.statuses import pod_condition

GATE = "scheduling.volcanopy.io/queue-allocation-gate"
THEIRS = "scheduling.volcano.sh/queue-allocation-gate"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        await running.node("n1", cpu="4")
        await running.queue("default", capability={"cpu": "1"})
        yield running


async def gated(cluster: Cluster, name: str, *gates: str, **selector: str) -> None:
    """A pod with scheduling gates in a PodGroup of its own."""
    await cluster.group(name, 1)
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec: Json = {"schedulerName": "volcanopy", "containers": [container], "terminationGracePeriodSeconds": 0}
    spec |= {"schedulingGates": [{"name": gate} for gate in gates], "nodeSelector": selector}
    notes = {"scheduling.k8s.io/group-name": name}
    await cluster.client.create(PODS, "default", body(PODS, name, spec, annotations=notes))


async def state(cluster: Cluster, name: str) -> tuple[str, bool, str]:
    """The node of a pod, whether it has gates, and the reason for which it is not scheduled."""
    pod = await cluster.get_pod(name)
    condition = pod_condition(pod, "PodScheduled")
    return pod.spec.node_name, bool(pod.spec.scheduling_gates), condition.reason if condition is not None else ""


async def until(cluster: Cluster, name: str, node: str, *rest: object) -> None:
    async def holds() -> bool:
        return (await state(cluster, name))[: 1 + len(rest)] == (node, *rest)

    await cluster.until(holds)


async def test_the_gate_stays_until_the_queue_admits_the_pod(cluster: Cluster) -> None:
    async with scheduling(cluster):
        await gated(cluster, "first", GATE)
        await until(cluster, "first", "n1", False)
        await gated(cluster, "second", GATE)

        async def explained() -> bool:
            return any(name == "second" for name, _, _ in await cluster.events("Unschedulable"))

        await cluster.until(explained, EVENTS)
        assert await state(cluster, "second") == ("", True, "SchedulingGated")
        await cluster.client.delete(PODS, "default", "first", grace=0)
        await until(cluster, "second", "n1", False)


async def test_a_pod_that_waits_for_nodes_only_loses_the_gate(cluster: Cluster) -> None:
    async with scheduling(cluster):
        await gated(cluster, "far", GATE, zone="elsewhere")
        await until(cluster, "far", "", False, "Unschedulable")


async def test_the_scheduler_leaves_the_gates_of_others(cluster: Cluster) -> None:
    async with scheduling(cluster):
        await gated(cluster, "both", GATE, "example.com/other")
        await cluster.gang("free", 1)
        await until(cluster, "free-0", "n1")
        assert await state(cluster, "both") == ("", True, "SchedulingGated")
        patch = {"spec": {"schedulingGates": [{"name": GATE}]}}
        await cluster.client.delete(PODS, "default", "free-0", grace=0)
        await cluster.client.patch(PODS, "default", "both", patch)
        await until(cluster, "both", "n1", False)


def template(key: str, **spec: Any) -> Json:
    containers = [{"name": "main", "image": "busybox"}]
    return {"metadata": {"annotations": {key: "true"}}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize(("scheduler", "key"), [("volcanopy", GATE), ("volcano", THEIRS)])
def test_admission_adds_the_gate_of_the_annotation(scheduler: str, key: str) -> None:
    policy = AdmissionPolicy(scheduler_names=["volcanopy", "volcano"], queue_gates=True)
    pod = template(key, schedulerName=scheduler)
    pod["metadata"]["name"] = "p"
    assert patched(mutate(asked("", "Pod", pod), Context(policy=policy)))["/spec/schedulingGates"] == [{"name": key}]
    off = policy.model_copy(update={"queue_gates": False})
    assert "/spec/schedulingGates" not in patched(mutate(asked("", "Pod", pod), Context(policy=off)))


def test_the_templates_of_a_job_get_the_gate() -> None:
    body = job({"name": "a", "replicas": 1, "template": template(THEIRS)})
    policy = AdmissionPolicy(scheduler_names=["volcano"], queue_gates=True)
    result = patched(mutate(asked("batch.volcano.sh", "Job", body), Context(policy=policy)))
    assert {"name": THEIRS} in str_values(result)


def str_values(value: Any) -> list[Any]:
    """All values in a nested structure."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *(deeper for item in below for deeper in str_values(item))]
