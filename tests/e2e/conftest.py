"""Every end-to-end test runs on both API servers (`tests/servers.py`)."""

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.fixtures import kubectl_program, real_control_plane
from tests.controlplane.plane import ControlPlane
from tests.e2e.world import CRON_JOBS, FLOWS, JOBS, POD_GROUPS, PODS, World
from tests.servers import SERVERS
from volcanopy.api.gang_apis import GANG_APIS
from volcanopy.client.manifests import Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import NODES
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy_local.cluster import Components, LocalCluster, Parts
from volcanopy_local.simulated import nodes

__all__ = ["kubectl_program", "real_control_plane"]

COUNT = 3
"""Nodes of 8 cpu and 32Gi each."""

PARTS = Parts(controller=JobControllerSettings(gang_apis=tuple(GANG_APIS)))

WORKLOADS: tuple[Kind[Json], ...] = (
    Kind("apps", "v1", "Deployment", "deployments", True, dict),
    Kind("apps", "v1", "ReplicaSet", "replicasets", True, dict),
    Kind("apps", "v1", "StatefulSet", "statefulsets", True, dict),
    Kind("batch", "v1", "CronJob", "cronjobs", True, dict),
    Kind("batch", "v1", "Job", "jobs", True, dict),
)
"""What would make its pods anew."""


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster of three nodes with everything at work, and a namespace in it."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_control_plane")
        config = tmp_path / "kubeconfig"
        config.write_text(_with_namespace(plane.kubeconfig.read_text(), namespace))
        async with _on_real(config, namespace) as world:
            yield world
        return
    async with LocalCluster(COUNT, parts=PARTS) as local:
        config = tmp_path / "kubeconfig"
        config.write_text(_with_namespace(local.kubeconfig(), namespace))
        await _make_namespace(local.client, namespace)
        yield World(local.components, namespace, config)


@contextlib.asynccontextmanager
async def _on_real(config: Path, namespace: str) -> AsyncIterator[World]:
    connection = load_connection(config)
    async with Client(connection) as client:
        await clear_workloads(client)
        await _make_namespace(client, namespace)
        await Creator(client).create(nodes.manifests(COUNT))
        made: list[tuple[Kind[Json], str]] = []
        try:
            async with Components(connection, PARTS) as components:
                yield World(components, namespace, config, made)
        finally:
            # With the machinery the webhooks are gone, which keep queues in which something runs.
            for kind, name in reversed(made):
                with contextlib.suppress(NotFound):
                    await client.delete(kind, None, name)
            await clear_workloads(client)


async def clear_workloads(client: Client) -> None:
    """Take away what takes room or waits for it: other tests share the server, and one scheduler serves all of it."""
    for kind in (*WORKLOADS, CRON_JOBS, FLOWS, JOBS, POD_GROUPS, PODS):
        objects = (await client.list(kind)).items
        for namespace in {obj["metadata"]["namespace"] for obj in objects}:
            await client.delete_collection(kind, namespace, propagation="Background", grace=0 if kind is PODS else None)
    await client.delete_collection(NODES, None)


async def _make_namespace(client: Client, name: str) -> None:
    await Creator(client).create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])


def _with_namespace(text: str, namespace: str) -> str:
    config = yaml.safe_load(text)
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    return yaml.safe_dump(config)
