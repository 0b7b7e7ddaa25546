"""The agent on the embedded server, with the files of this machine and a kubelet that lists pods."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from tests.agent import trees
from tests.kube.cluster import CRDS, Cluster, running_cluster
from volcanopy.api.bindings import APIS
from volcanopy.api.crd import crds
from volcanopy.api.volcano_crds import crds_of
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import NODES, NUMA_TOPOLOGIES, bound
from volcanopy.scheduler.model.measures import Reading
from volcanopy.services.agent.agent_service import Agent, AgentSettings, run
from volcanopy.services.agent.machine_files import MachineFiles
from volcanopy.services.scheduler.node_load_sources import LoadError, NodeAgents
from volcanopy.services.scheduler.state.store import Store

START = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_cluster() as running:
        for definition in (*crds(), *crds_of(APIS["volcano"])):
            if definition["spec"]["names"]["plural"] == "numatopologies":
                await running.client.create(CRDS, None, definition)
        await running.node("n1")
        yield running


async def written(cluster: Cluster, kind: Kind[Json] = NUMA_TOPOLOGIES) -> Json:
    return await cluster.client.get(kind, None, "n1")


async def test_the_report_of_a_node_follows_its_kubelet_and_is_written_on_changes_only(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(trees.KUBELET)
    machine, clock = trees.machine(tmp_path / "root"), Clock()
    settings = AgentSettings(node="n1", files=MachineFiles(machine, tmp_path))
    agent = Agent(cluster.client, settings, clock)
    with trees.kubelet(tmp_path) as kubelet:
        kubelet.containers = [("default", "a-0", "main", [2, 6])]
        assert await agent.report()
        first = await written(cluster)
        assert first["spec"]["numares"]["cpu"] == {"allocatable": "0-1,3-5,7", "capacity": 8}
        assert first["spec"]["podAllocations"][0]["name"] == "a-0"
        node = await cluster.client.get(NODES, None, "n1")
        assert first["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        # The first load needs two samples; then nothing changes.
        clock.now += timedelta(seconds=15)
        (machine / "proc/stat").write_text(trees.stat(180, 120))
        assert await agent.report()
        assert not await agent.report()
        # CPUs that are given back, and a CPU that is taken offline, disappear.
        kubelet.containers = ()
        (machine / "sys/devices/system/cpu/online").write_text("0-6\n")
        assert await agent.report()
    last = await written(cluster)
    assert last["metadata"]["annotations"] == {
        "volcanopy.io/node-load": '{"cpu":80.0,"memory":25.0,"measured":"2030-01-01T00:00:15Z",'
        '"deviation":{"cpu":0.0,"memory":0.0},"peak":{"cpu":80.0,"memory":25.0}}'
    }
    assert last["spec"]["numares"]["cpu"] == {"allocatable": "0-6", "capacity": 7}
    assert not last["spec"].get("podAllocations")
    assert "7" not in last["spec"]["cpuDetail"]


async def test_a_deleted_report_is_written_again_with_the_next_change(cluster: Cluster, tmp_path: Path) -> None:
    clock = Clock()
    machine = trees.machine(tmp_path)
    agent = Agent(cluster.client, AgentSettings(node="n1", files=MachineFiles(machine, tmp_path)), clock)
    await agent.report()
    await cluster.client.delete(NUMA_TOPOLOGIES, None, "n1")
    clock.now += timedelta(minutes=2)
    (machine / "proc/stat").write_text(trees.stat(200, 200))
    assert await agent.report()
    assert (await written(cluster))["spec"]["numares"]["cpu"]["capacity"] == 8


async def test_the_agent_reports_this_machine_in_volcanos_group(cluster: Cluster, tmp_path: Path) -> None:
    stop = asyncio.Event()
    settings = AgentSettings(node="n1", api="volcano", files=MachineFiles(kubelet=tmp_path))
    kind = bound(NUMA_TOPOLOGIES, APIS["volcano"][0])
    running = asyncio.create_task(run(cluster.connection, settings, stop))

    async def exists() -> bool:
        try:
            await written(cluster, kind)
        except NotFound:
            return False
        return True

    await cluster.until(exists, kind)
    stop.set()
    await running
    report = await written(cluster, kind)
    assert report["kind"] == "Numatopology"
    cpus = MachineFiles().cpu_locations()
    assert report["spec"]["numares"]["cpu"]["capacity"] == len(cpus)
    assert {int(cpu) for cpu in report["spec"]["cpuDetail"]} == set(cpus)


async def test_the_scheduler_reads_the_load_that_agents_have_written(cluster: Cluster, tmp_path: Path) -> None:
    clock, machine = Clock(), trees.machine(tmp_path)
    agent = Agent(cluster.client, AgentSettings(node="n1", files=MachineFiles(machine, tmp_path)), clock)
    async with _followed(cluster) as store:
        source = NodeAgents(cluster.client, store.state.numa.values)
        await agent.report()
        with pytest.raises(LoadError, match="run volcanopy agent on the nodes"):
            await source.measure()
        (machine / "proc/stat").write_text(trees.stat(130, 170))
        await agent.report()
        async with asyncio.timeout(60):
            while not any(report.metadata.annotations for report in store.state.numa.values()):
                store.changed.clear()
                await store.changed.wait()
        answer = await source.measure()
        assert answer.nodes["cpu"] == {"n1": Reading(30.0, START.timestamp(), 0.0, 30.0, ANY)}
        assert answer.nodes["memory"]["n1"].mean == 25.0


@asynccontextmanager
async def _followed(cluster: Cluster) -> AsyncIterator[Store]:
    store = Store()
    following: asyncio.Task[Any] = asyncio.create_task(store.follow(cluster.client))
    await store.synced()
    yield store
    following.cancel()
