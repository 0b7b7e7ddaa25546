"""The scheduler serves PodGroups and Queues of Volcano's API beside volcanopy's: what operators such as Spark create."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.kube.cluster import CRDS, EVENTS, Cluster, Json, body, running_cluster
from tests.services.test_scheduler import scheduling
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.volcano_crds import crds_of
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS, QUEUES
from volcanopy.kube.client.raw_kinds import bound
from volcanopy.services.process.settings import SchedulerSettings

GROUPS = bound(POD_GROUPS.raw, VOLCANO)
VOLCANO_QUEUES = bound(QUEUES.raw, VOLCANO)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(running_cluster())
        for definition in crds_of((VOLCANO,)):
            if definition["spec"]["group"] == GROUPS.group:
                await running.client.create(CRDS, None, definition)
        yield running


async def gang(cluster: Cluster, name: str, size: int, queue: str) -> None:
    """A PodGroup of Volcano's API and its pods, as an operator creates them."""
    await cluster.client.create(GROUPS, "default", body(GROUPS, name, spec={"minMember": size, "queue": queue}))
    for number in range(size):
        await cluster.pod(f"{name}-{number}", name, scheduler="volcano")


async def group(cluster: Cluster, name: str) -> Json:
    return await cluster.client.get(GROUPS, "default", name)


async def running(cluster: Cluster, name: str) -> None:
    """Wait for the phase of a PodGroup."""

    async def holds() -> bool:
        return ((await group(cluster, name)).get("status") or {}).get("phase") == "Running"

    await cluster.until(holds, GROUPS)


async def test_a_gang_of_volcanos_api_is_placed_in_a_queue_tree_of_both_apis(cluster: Cluster) -> None:
    await cluster.node("n1")
    await cluster.queue("division")
    spec = {"parent": "division", "capability": {"cpu": "3"}}
    await cluster.client.create(VOLCANO_QUEUES, None, body(VOLCANO_QUEUES, "team", spec=spec))
    async with scheduling(cluster, SchedulerSettings(api="both")):
        await gang(cluster, "spark", 2, "team")
        await running(cluster, "spark")
        await gang(cluster, "large", 2, "team")

        async def counted() -> bool:
            status = (await cluster.client.get(VOLCANO_QUEUES, None, "team")).get("status") or {}
            return (status.get("allocated") or {}).get("cpu") == "2"

        await cluster.until(counted, VOLCANO_QUEUES)

        async def explained() -> bool:
            conditions = ((await group(cluster, "large")).get("status") or {}).get("conditions") or ()
            return any(condition["type"] == "Unschedulable" for condition in conditions)

        await cluster.until(explained, GROUPS)
    assert set(await cluster.where()) == {"spark-0", "spark-1"}
    events = (await cluster.client.list(EVENTS)).items
    subjects = {
        event["involvedObject"]["apiVersion"] for event in events if event["involvedObject"]["kind"] == "PodGroup"
    }
    assert subjects == {"scheduling.volcano.sh/v1beta1"}


async def test_a_second_queue_of_a_name_is_reported(cluster: Cluster) -> None:
    await cluster.queue("team")
    await cluster.client.create(VOLCANO_QUEUES, None, body(VOLCANO_QUEUES, "team", spec={"weight": 1}))
    async with scheduling(cluster, SchedulerSettings(api="both")):

        async def reported() -> bool:
            return bool(await cluster.events("NameInUse"))

        await cluster.until(reported, EVENTS)
    [(name, _, message)] = await cluster.events("NameInUse")
    assert name == "team"
    assert message in {
        f'ignored: Queue "team" of {group} has this name: delete one of them'
        for group in ("scheduling.volcanopy.io", "scheduling.volcano.sh")
    }


async def test_with_volcanos_api_alone_its_queues_are_created(cluster: Cluster) -> None:
    await cluster.node("n1")
    async with scheduling(cluster, SchedulerSettings(api="volcano")):
        names = {queue["metadata"]["name"] for queue in (await cluster.client.list(VOLCANO_QUEUES)).items}
        assert names == {"root", "default"}
        assert (await cluster.client.list(QUEUES)).items == []
        await gang(cluster, "spark", 1, "default")
        await running(cluster, "spark")
    assert [pod.metadata.name for pod in (await cluster.client.list(PODS)).items if pod.spec.node_name] == ["spark-0"]


async def test_without_volcanos_definitions_both_apis_can_be_served() -> None:
    async with running_cluster() as cluster:
        await cluster.node("n1")
        async with scheduling(cluster, SchedulerSettings(api="both")):
            await cluster.gang("a", 2, phase="")

            async def placed() -> bool:
                return len(await cluster.where()) == 2

            await cluster.until(placed)
