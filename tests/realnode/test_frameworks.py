"""PyTorch and Ray in pods: the examples as they are, but for images and amounts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hack.realnode.cluster import Cluster
from hack.realnode.images import FRAMEWORKS_IMAGE, frameworks_image
from hack.realnode.shell import run
from tests.realnode.cluster_client import ClusterClient, Json

EXAMPLES = Path(__file__).parents[2] / "examples"
AMOUNTS = {"cpu": "50m", "memory": "64Mi"}


@pytest.fixture(scope="module")
def nodes(running_cluster: Cluster) -> Iterator[list[str]]:
    """Return two nodes that have the image, which is large."""
    names = running_cluster.node_names()[:2]
    running_cluster.load([frameworks_image()], names)
    yield names
    for name in names:
        run(*running_cluster.on_node(name, "ctr", "--namespace=k8s.io", "images", "rm", FRAMEWORKS_IMAGE))


def example(name: str, nodes: list[str]) -> Json:
    """Return the job of an example for these nodes."""
    manifest: Json = yaml.safe_load((EXAMPLES / name / "job.yaml").read_text())
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    for task in manifest["spec"]["tasks"]:
        pod = task["template"]["spec"]
        pod["affinity"] = affinity
        for container in pod["containers"]:
            container |= {"image": FRAMEWORKS_IMAGE, "resources": {"requests": AMOUNTS}}
    return manifest


@pytest.mark.slow("imports PyTorch in three pods")
def test_pytorch_trains_over_gloo(client: ClusterClient, nodes: list[str]) -> None:
    client.submit(example("22-ddp", nodes))
    client.ends("ddp", "Completed", 240)
    texts = [client.kubectl("logs", pod["metadata"]["name"]) for pod in client.pods("ddp")]
    assert sorted(text.splitlines()[-1] for text in texts) == [
        f"rank {rank} of 3: y = 3.000 x -1.000" for rank in range(3)
    ]


@pytest.mark.slow("starts a Ray cluster")
def test_a_ray_cluster_computes_a_submitted_program(client: ClusterClient, nodes: list[str]) -> None:
    client.submit(example("07-ray", nodes))
    client.ends("raysum", "Completed", 300)
    assert "328350" in client.kubectl("logs", "raysum-submit-0")
