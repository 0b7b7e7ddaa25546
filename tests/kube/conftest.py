"""A scripted server, and a client of it whose pauses take no time."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from tests.controlplane.fixtures import real_control_plane
from tests.controlplane.plane import ControlPlane
from tests.kube.applier_setup import Rig, applier_rig
from tests.kube.cluster import Cluster, borrowed_cluster, running_cluster
from tests.kube.faulty_server import FakeTime, FaultyServer, connect, faulty_server
from tests.kube.kubeconfigs import Plugin
from tests.servers import EMBEDDED_BY_DAY
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kubeconfig import load_connection

__all__ = ["real_control_plane"]


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    async with faulty_server() as started:
        yield started


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
async def client(server: FaultyServer, time: FakeTime) -> AsyncIterator[Client]:
    async with Client(connect(server), rng=Random(7), sleep=time.sleep, clock=time.clock) as started:
        yield started


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but the test's own."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


@pytest.fixture(params=EMBEDDED_BY_DAY)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """Two nodes and the default queue, on either API server."""
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("real_control_plane")
        opening = borrowed_cluster(load_connection(plane.kubeconfig))
    else:
        opening = running_cluster()
    async with opening as running:
        await running.node("n1")
        await running.node("n2")
        await running.queue()
        yield running


@pytest.fixture
async def rig(cluster: Cluster) -> AsyncIterator[Rig]:
    async with applier_rig(cluster) as made:
        yield made
