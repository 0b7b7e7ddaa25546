"""Upgrade, rollback and reinstallation of the chart while jobs run and are submitted, and a configuration that is invalid."""

import pytest

from hack.realnode import product
from hack.realnode.cluster import Cluster
from hack.realnode.images import PRODUCT_IMAGE
from hack.realnode.shell import run
from tests.realnode.cluster_client import (
    JOBS,
    SCHEDULERS,
    SERVE,
    ClusterClient,
    Json,
    job,
    scheduler_metrics,
    shell,
    task,
)
from tests.realnode.submissions import ended_jobs, submissions

pytestmark = pytest.mark.alone
PLACE = f"--namespace={product.NAMESPACE}"
SECRET = "volcanopy-admission-certificates"
INVALID = 'volcanopy_configuration_invalid{configuration="scheduler"}'


def image_digest(cluster: Cluster) -> str:
    """Return the digest of the product's image, by which each node then has it too, as if it had pulled it by digest."""
    digests = set()
    for node in cluster.node_names():
        images = cluster.on_node(node, "ctr", "--namespace=k8s.io", "images")
        digest = run(*images, "ls", f"name=={PRODUCT_IMAGE}").splitlines()[1].split()[2]
        run(*images, "tag", "--force", PRODUCT_IMAGE, f"{PRODUCT_IMAGE.partition(':')[0]}@{digest}")
        digests.add(digest)
    (digest,) = digests
    return digest


def images_of_parts(cluster: Cluster) -> set[str]:
    """Return the images of the product's parts."""
    parts = cluster.get(f"--namespace={product.NAMESPACE}", "deployments,daemonsets")["items"]
    return {container["image"] for part in parts for container in part["spec"]["template"]["spec"]["containers"]}


def authorities(cluster: Cluster) -> tuple[str, str]:
    """Return the certificates of the Secret and those that the API server trusts, both in base64."""
    secret = cluster.get(PLACE, "secret", SECRET)
    webhooks = cluster.get("validatingwebhookconfiguration", "volcanopy-admission").get("webhooks") or [{}]
    bundle = webhooks[0].get("clientConfig", {}).get("caBundle", "")
    return (secret.get("data") or {}).get("ca.crt", ""), bundle


def actions(cluster: Cluster) -> str:
    """Return the actions in the scheduler's configuration."""
    text: str = cluster.get(PLACE, "configmap", "volcanopy-scheduler")["data"]["scheduler.yaml"]
    return next(line for line in text.splitlines() if line.startswith("actions:"))


def roll_back(cluster: Cluster) -> None:
    """Go back to the release before the last upgrade."""
    product.run_helm(cluster, "rollback", product.RELEASE, "--wait", f"--timeout={product.TIMEOUT}")


@pytest.mark.slow("every part of the product is replaced twice")
def test_jobs_are_accepted_and_go_on_during_an_upgrade_and_a_rollback(client: ClusterClient) -> None:
    """The Secret with the certificates of the webhooks was deleted before: the upgrade creates it again."""
    cluster = client.cluster
    client.submit(job("long", task("t", 2, shell(SERVE))))
    client.until(lambda: client.phase("long") == "Running")
    before, configured = client.running("long"), actions(cluster)
    digest = image_digest(cluster)
    with submissions(client):
        cluster.kubectl(PLACE, "delete", "secret", SECRET)
        try:
            changed = (r"scheduler.config.actions=enqueue\, allocate", "ui.replicas=2")
            product.deploy(cluster, f"image.digest={digest}", *changed)
            (image,) = images_of_parts(cluster)
            assert image.endswith(f"@{digest}")
            assert actions(cluster) == "actions: enqueue, allocate"
            assert cluster.get(PLACE, "deployment", "volcanopy-ui")["status"]["readyReplicas"] == 2
        finally:
            roll_back(cluster)
        client.until(lambda: len(set(authorities(cluster))) == 1)
    assert all(authorities(cluster))
    assert actions(cluster) == configured
    assert set(ended_jobs(client).values()) == {"Completed"}
    assert client.running("long") == before


def invalid_configurations(cluster: Cluster) -> set[float]:
    """Return whether the schedulers report an invalid configuration; their kubelets read the ConfigMap again."""
    cluster.kubectl(PLACE, "annotate", "pods", f"--selector={SCHEDULERS}", "--overwrite", "read=again")
    cluster.kubectl(PLACE, "annotate", "pods", f"--selector={SCHEDULERS}", "read-")
    return scheduler_metrics(cluster, INVALID)


@pytest.mark.slow("the schedulers read their configuration twice")
def test_an_invalid_configuration_of_an_upgrade_changes_nothing_and_is_shown(client: ClusterClient) -> None:
    assert invalid_configurations(client.cluster) == {0.0}
    product.deploy(client.cluster, "scheduler.config.tiers[0].plugins[0].name=priorty")
    try:
        client.until(lambda: invalid_configurations(client.cluster) == {1.0})
        client.submit(job("still", task("t", 2, shell("true"))))
        client.ends("still", "Completed")
    finally:
        roll_back(client.cluster)
    client.until(lambda: invalid_configurations(client.cluster) == {0.0})


@pytest.mark.slow("every part of the product is started again")
def test_jobs_outlast_that_the_product_is_uninstalled_and_installed_again(client: ClusterClient) -> None:
    """A job that is submitted, and one that is deleted meanwhile, are taken up as soon as it is installed."""
    cluster = client.cluster

    def kept(name: str) -> Json:
        return job(name, task("t", 2, shell(SERVE)))

    client.submit(kept("long"), kept("deleted"))
    client.until(lambda: {client.phase("long"), client.phase("deleted")} == {"Running"})
    before = client.running("long")
    product.run_helm(cluster, "uninstall", product.RELEASE, "--wait", f"--timeout={product.TIMEOUT}")
    try:
        client.submit(job("meanwhile", task("t", 2, shell("true"))))
        client.kubectl("delete", JOBS, "deleted", "--wait=false")
        assert client.running("long") == before
    finally:
        product.deploy(cluster)
    client.ends("meanwhile", "Completed")
    client.until(lambda: client.pods("deleted") == [])
    client.submit(job("after", task("t", 2, shell("true"))))
    client.ends("after", "Completed")
    assert client.running("long") == before
    assert client.phase("long") == "Running"


def test_the_tests_of_the_chart_pass(client: ClusterClient) -> None:
    output = product.run_helm(client.cluster, "test", product.RELEASE, f"--timeout={product.TIMEOUT}")
    assert "Phase:          Succeeded" in output, output
