"""Every test of a service runs on both API servers."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.fixtures import real_control_plane
from tests.controlplane.plane import ControlPlane
from tests.services.service_cluster import Cluster
from volcanopy.kube.client.connection import Connection
from volcanopy.local.apiserver.server import ApiServer
from volcanopy.local.cluster import self_signed

__all__ = ["real_control_plane"]


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A namespace of its own on an API server."""
    namespace = f"t-{uuid.uuid4().hex[:8]}"
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_control_plane")
        async with Cluster.open(Connection.load(plane.kubeconfig), namespace) as opened:
            yield opened
        return
    server = await ApiServer.start(tls=self_signed())
    try:
        config = tmp_path / "kubeconfig"
        config.write_text(server.kubeconfig())
        async with Cluster.open(Connection.load(config), namespace) as opened:
            opened.embedded = True
            yield opened
    finally:
        await server.stop()
