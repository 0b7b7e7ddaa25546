"""What agents report of their nodes' cpus reaches the scheduler's state, on a server that knows such reports or not."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.controlplane.fixtures import chart_crd
from tests.kube.cluster import CHART, CRDS, Cluster, running_cluster
from volcanopy.kube.cache.followed_kinds import NUMA_TOPOLOGIES
from volcanopy.kube.client.errors import Invalid
from volcanopy.services.scheduler.state.store import Store

DEFINITION = chart_crd(CHART / "numatopologies.nodeinfo.volcanopy.io.yaml")
REPORT: dict[str, Any] = {
    "apiVersion": NUMA_TOPOLOGIES.api_version,
    "kind": NUMA_TOPOLOGIES.kind,
    "metadata": {"name": "n1"},
    "spec": {
        "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"},
        "resReserved": {"cpu": "500m"},
        "numares": {"cpu": {"allocatable": "1-3", "capacity": 4}},
        "cpuDetail": {str(cpu): {"numa": cpu // 2, "socket": 0, "core": cpu} for cpu in range(4)},
        "podAllocations": [
            {
                "uid": "u",
                "name": "p",
                "namespace": "d",
                "containerAllocations": [{"name": "c", "allocations": {"cpu": "0"}}],
            }
        ],
    },
}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        yield running


async def test_a_numatopology_is_read_watched_and_removed(cluster: Cluster) -> None:
    await cluster.client.create(CRDS, None, DEFINITION)
    store = Store()
    following = asyncio.create_task(store.follow(cluster.client))
    try:
        await asyncio.wait_for(store.synced(), 60)
        store.changed.clear()
        await cluster.client.create(NUMA_TOPOLOGIES, None, REPORT)
        await asyncio.wait_for(store.changed.wait(), 60)
        spec = store.state.numa["n1"].spec
        assert spec.policies["TopologyManagerPolicy"] == "restricted"
        assert (spec.cpu_detail["3"].numa, spec.numares["cpu"].allocatable) == (1, "1-3")
        assert spec.pod_allocations[0].container_allocations[0].allocations == {"cpu": "0"}
        store.changed.clear()
        await cluster.client.delete(NUMA_TOPOLOGIES, None, "n1")
        await asyncio.wait_for(store.changed.wait(), 60)
        assert store.state.numa == {}
    finally:
        following.cancel()
        await asyncio.wait((following,))


async def test_a_server_without_numatopologies_is_supported(cluster: Cluster) -> None:
    store = Store()
    following = asyncio.create_task(store.follow(cluster.client))
    try:
        await asyncio.wait_for(store.synced(), 60)
        assert store.state.numa == {}
    finally:
        following.cancel()
        await asyncio.wait((following,))


async def test_a_cpu_without_a_numa_node_is_rejected(cluster: Cluster) -> None:
    await cluster.client.create(CRDS, None, DEFINITION)
    wrong = {**REPORT, "spec": {"cpuDetail": {"0": {"numa": -1}}}}
    with pytest.raises(Invalid, match=r"spec\.cpuDetail\.0\.numa"):
        await cluster.client.create(NUMA_TOPOLOGIES, None, wrong)
