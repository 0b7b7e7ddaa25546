"""The cluster that runs, and a namespace for each test."""

import os
import re
from collections.abc import Iterator

import pytest

from hack.realnode.cluster import Cluster
from tests.realnode.cluster_client import ClusterClient

ROLLOUT_SECONDS = 120


@pytest.fixture(scope="session")
def running_cluster() -> Cluster:
    """The cluster of `make realnode`."""
    if not os.environ.get("REALNODE"):
        pytest.skip("needs a cluster with real kubelets: `make realnode`")
    return Cluster()


@pytest.fixture
def client(running_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    """A client in a namespace of the test; what went wrong is printed when it fails."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")[:50].strip("-")
    client = ClusterClient(running_cluster, name)
    running_cluster.kubectl("create", "namespace", name)
    failed = request.session.testsfailed
    try:
        yield client
    finally:
        if request.session.testsfailed > failed:
            print(client.description())
        running_cluster.kubectl("delete", "namespace", name, "--wait=false")
