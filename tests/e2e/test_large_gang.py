"""A gang larger than the free resources: it waits with a reason, and starts when a node is added."""

import asyncio

import pytest

from tests.e2e.world import EVENTS, JOBS, POD_GROUPS, PODS, World, batch_job, condition
from tests.loop_time import loop_time
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import NODES
from volcanopy_local.simulated import nodes

WHY = "4 pods must start together, 3 can be placed: 0/3 nodes are available: 3 Insufficient cpu"


def gang() -> Json:
    """Four pods of 5 cpu: there are 24 cpu, but each of the three nodes has room for one such pod only."""
    return batch_job("gang", 4, "5", duration="forever")


def message_of(manifest: Json, kind: str, status: str) -> str:
    status_condition = condition(manifest, kind)
    return str(status_condition.get("message", "")) if status_condition.get("status") == status else ""


async def waiting(cluster: World) -> list[Json]:
    """Create the gang and wait until each of its pods says why it waits; gives the pods."""
    await cluster.create(gang())
    return await cluster.all_of(
        PODS, lambda pods: len(pods) == 4 and all(message_of(pod, "PodScheduled", "False") == WHY for pod in pods)
    )


async def test_pods_pod_group_job_and_events_have_the_same_reason(cluster: World) -> None:
    pods = await waiting(cluster)
    assert not any(pod["spec"].get("nodeName") for pod in pods)
    await cluster.all_of(POD_GROUPS, lambda groups: message_of(groups[0], "Unschedulable", "True") == WHY)
    jobs = await cluster.all_of(JOBS, lambda jobs: jobs[0]["status"]["state"].get("message") == WHY)
    assert jobs[0]["status"]["state"]["phase"] == "Pending"
    about = {"PodGroup", "BatchJob"}  # of pods the condition says it, without an event for each
    await cluster.all_of(
        EVENTS, lambda events: {event["involvedObject"]["kind"] for event in events if event["message"] == WHY} == about
    )


async def test_a_waiting_gang_does_not_block_smaller_jobs(cluster: World) -> None:
    """Beside a pod of 5 cpu there would be no room for one of 4: so there is none."""
    await waiting(cluster)
    await cluster.create(batch_job("filler", 3, "4", minAvailable=1, duration="300ms"))
    await cluster.job("filler", "Completed")
    pods = (await cluster.client.list(PODS, cluster.namespace)).items
    on = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}
    assert len({on[f"filler-task-{index}"] for index in range(3)} - {None}) >= 2
    assert {on[f"gang-task-{index}"] for index in range(4)} == {None}


async def test_a_waiting_gang_runs_within_a_second_of_a_new_node(cluster: World) -> None:
    await waiting(cluster)
    async with loop_time() as elapsed:
        adding = asyncio.create_task(cluster.client.create(NODES, None, nodes.manifest("node-4")))
        await cluster.all_of(PODS, lambda pods: all(pod["status"]["phase"] == "Running" for pod in pods))
        assert elapsed() < 1.0
        await adding
    job = await cluster.job("gang", "Running")
    assert job["status"]["running"] == 4


async def test_a_gang_larger_than_the_cluster_is_not_admitted(cluster: World) -> None:
    """The queue can never allocate its request; its pods, if they were created with the PodGroup, have no node."""
    await cluster.create(batch_job("vast", 5, "6"))
    job = await cluster.all_of(JOBS, lambda jobs: "capacity" in str(jobs[0].get("status")))
    message = job[0]["status"]["state"]["message"]
    assert message == "request exceeds the capacity of the cluster: cpu requested 30, capacity 24"
    pods = (await cluster.client.list(PODS, cluster.namespace)).items
    assert not any(pod["spec"].get("nodeName") for pod in pods)


@pytest.mark.parametrize("name", ["node-1", "node-3"])
async def test_removing_a_node_replaces_only_its_pods(cluster: World, name: str) -> None:
    """A job that needs two of its three pods goes on when a node goes, and its lost pod is made anew elsewhere."""
    await cluster.create(batch_job("spread", 3, "5", minAvailable=2, duration="forever"))
    pods = await cluster.all_of(PODS, lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"] * 3)
    lost = {pod["metadata"]["uid"] for pod in pods if pod["spec"]["nodeName"] == name}
    await cluster.client.delete(NODES, None, name)
    left = await cluster.all_of(
        PODS, lambda pods: not lost & {pod["metadata"]["uid"] for pod in pods} and len(pods) == 3
    )
    assert sum(pod["spec"].get("nodeName", name) == name for pod in left) == 1
