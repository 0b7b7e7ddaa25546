"""Tests of a service run on both API servers, by day on the embedded one (`tests/servers.py`)."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.fixtures import real_control_plane
from tests.controlplane.plane import ControlPlane
from tests.servers import EMBEDDED_BY_DAY
from tests.services.service_cluster import NAMESPACES, Cluster, embedded_cluster
from volcanopy.kube.client.kubeconfig import load_connection

__all__ = ["real_control_plane"]


@pytest.fixture(params=EMBEDDED_BY_DAY)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A namespace of its own on an API server."""
    namespace = _new_namespace()
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_control_plane")
        async with Cluster.open(load_connection(plane.kubeconfig), namespace) as opened:
            yield opened
            # The controllers of later tests would take up its jobs.
            await opened.client.delete(NAMESPACES, None, namespace)
        return
    async with embedded_cluster(namespace, tmp_path) as opened:
        yield opened


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Cluster]:
    """The same on the embedded API server only: for what a test may not do to a server that others use."""
    async with embedded_cluster(_new_namespace(), tmp_path) as opened:
        yield opened


def _new_namespace() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"
