"""The controller of HyperNodes on the embedded server: discovery that follows the nodes, and counts of nodes."""

import asyncio
from pathlib import Path

from tests.kube.cluster import CRDS, Cluster, Json, body, running_cluster
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.crd import crds
from volcanopy.api.volcano_crds import crds_of
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import HYPER_NODES, NODES, bound
from volcanopy.services.controllers.controller_service import run as run_controllers
from volcanopy.services.controllers.jobs import JobControllerSettings

KNOWN = ("podgroups.scheduling.volcanopy.io", "queues.scheduling.volcanopy.io")
"""The definitions that the cluster starts with."""
THEIRS = bound(HYPER_NODES, VOLCANO)
RACK = "example.com/rack"
CONFIG = f"""
networkTopologyDiscovery:
  - source: label
    enabled: true
    config: {{networkTopologyTypes: {{plain: [{{nodeLabel: {RACK}}}, {{nodeLabel: kubernetes.io/hostname}}]}}}}
"""


async def label(cluster: Cluster, node: str, rack: str | None) -> None:
    await cluster.client.patch(NODES, None, node, {"metadata": {"labels": {RACK: rack}}})


async def counted(cluster: Cluster, kind: Kind[Json], expected: dict[str, int]) -> None:
    """Wait for the numbers of nodes of all HyperNodes of an API, by their rack or name."""

    async def holds() -> bool:
        items = (await cluster.client.list(kind)).items
        return expected == {
            (item["metadata"].get("labels") or {}).get(RACK, item["metadata"]["name"]): (item.get("status") or {}).get(
                "nodeCount", 0
            )
            for item in items
        }

    await cluster.until(holds, kind)


async def test_hypernodes_follow_the_labels_of_nodes_and_count_them(tmp_path: Path) -> None:
    config = tmp_path / "controller.yaml"
    config.write_text(CONFIG)
    async with running_cluster() as cluster:
        for definition in (*crds(), *crds_of((VOLCANO,))):
            if definition["metadata"]["name"] not in KNOWN:
                await cluster.client.create(CRDS, None, definition)
        for number in (1, 2, 3):
            await cluster.node(f"n{number}")
        await label(cluster, "n1", "a")
        await label(cluster, "n2", "a")
        members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "n[34]"}}}]
        await cluster.client.create(HYPER_NODES, None, body(HYPER_NODES, "mine", {"tier": 1, "members": members}))
        stop = asyncio.Event()
        settings = JobControllerSettings(api="both", config=config)
        running = asyncio.create_task(run_controllers(cluster.connection, settings, stop))
        try:
            await counted(cluster, THEIRS, {"a": 2})
            await counted(cluster, HYPER_NODES, {"mine": 1})
            await label(cluster, "n2", "b")
            await counted(cluster, THEIRS, {"a": 1, "b": 1})
            await label(cluster, "n1", None)
            await label(cluster, "n2", None)
            await counted(cluster, THEIRS, {})
        finally:
            stop.set()
            await running
