"""Python functions of this program in pods of an image: the product's with cloudpickle, the storage a claim on a shared folder."""

from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from hack.realnode.cluster import Cluster
from hack.realnode.images import FUNCTIONS_IMAGE, functions_image
from hack.realnode.shell import run
from tests.realnode.cluster_client import ClusterClient, Json
from volcanopy import Executor, __version__

CLAIM, VOLUME = "shared", "realnode-shared"


@pytest.fixture
def image(running_cluster: Cluster) -> Iterator[None]:
    """Give the nodes the image."""
    archive = functions_image(Path(cloudpickle.__file__).parent)
    running_cluster.load([archive])
    archive.unlink()
    yield
    for node in running_cluster.node_names():
        run(*running_cluster.on_node(node, "ctr", "--namespace=k8s.io", "images", "rm", FUNCTIONS_IMAGE))


@pytest.fixture
def folder(client: ClusterClient) -> Iterator[Path]:
    """Return a folder that this program and all nodes see, which is the volume of a claim."""
    folder = client.cluster.folder / "shared"
    folder.mkdir()
    capacity: Json = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"capacity": capacity, "hostPath": {"path": str(folder), "type": "Directory"}, **shared}
    claim = {"volumeName": VOLUME, "resources": {"requests": capacity}, **shared}
    client.submit(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": VOLUME}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": claim},
    )
    yield folder
    client.kubectl("delete", "persistentvolume", VOLUME, "--wait=false")


@pytest.mark.slow("each call starts Python in a pod")
@pytest.mark.usefixtures("image")
def test_functions_run_in_an_image_and_return_results_and_exceptions(client: ClusterClient, folder: Path) -> None:
    def host_version_and_sum(numbers: list[int]) -> tuple[str, str, int]:
        import os

        import volcanopy

        return os.uname().nodename, volcanopy.__version__, sum(numbers)

    def fail() -> None:
        raise LookupError("no such record")

    kubeconfig, namespace = client.cluster.kubeconfig, client.namespace
    with Executor(
        folder,
        image=FUNCTIONS_IMAGE,
        claim=CLAIM,
        cpu="50m",
        memory="64Mi",
        namespace=namespace,
        kubeconfig=kubeconfig,
    ) as executor:
        results = list(executor.map(host_version_and_sum, [[1, 2], [3, 4], [5, 6]], timeout=120))
        error = executor.submit(fail).exception(timeout=120)
    assert [result[1:] for result in results] == [(__version__, 3), (__version__, 7), (__version__, 11)]
    assert len({host for host, *_ in results}) == 3
    assert repr(error) == "LookupError('no such record')"
