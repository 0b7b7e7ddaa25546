"""An upgrade and a rollback of the chart while jobs run and are submitted, and requests call the webhooks without a pause."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPSConnection
from itertools import count
from threading import Event
from urllib.parse import urlsplit

import pytest

from hack.realnode import product
from hack.realnode.cluster import Cluster
from hack.realnode.images import PRODUCT_IMAGE
from hack.realnode.shell import run
from tests.realnode.cluster_client import ENDED, JOBS, SERVE, ClusterClient, job, shell, task
from volcanopy.kube.client.kubeconfig import load_connection

PAUSE = 0.5
"""Seconds between two submissions."""
CALLERS, CALLER_PAUSE = 4, 0.1
"""Connections with requests that call the webhooks, and seconds between two requests of one."""


def rejections(client: ClusterClient, ended: Event) -> list[str]:
    """Create a job that is not stored, again and again on one connection; return the answers other than success."""
    cluster = load_connection(client.cluster.kubeconfig, None)
    url, body = urlsplit(cluster.url), json.dumps(job("unstored", task("t", 1, shell("true"))))
    server = HTTPSConnection(url.hostname or "", url.port, context=cluster.ssl)
    path = f"/apis/batch.volcanopy.io/v1alpha1/namespaces/{client.namespace}/batchjobs?dryRun=All"
    answers = []
    while not ended.wait(CALLER_PAUSE):
        server.request("POST", path, body, {"Content-Type": "application/json"})
        answer = server.getresponse()
        answers.append((answer.status, answer.read().decode()))
    server.close()
    print(f"{len(answers)} requests")
    return [text for status, text in answers if status != 201]


@contextmanager
def submissions(client: ClusterClient) -> Iterator[None]:
    """Submit jobs one after the other, of which each must be accepted, until the end of the context; so must the requests be
    that call the webhooks meanwhile."""
    ended = Event()

    def submit() -> None:
        for number in count():
            client.submit(job(f"during-{number}", task("t", 1, shell("true"))))
            if ended.wait(PAUSE):
                return

    with ThreadPoolExecutor(1 + CALLERS) as pool:
        submitter = pool.submit(submit)
        callers = [pool.submit(rejections, client, ended) for _ in range(CALLERS)]
        try:
            yield
        finally:
            ended.set()
        submitter.result()
        assert [text for caller in callers for text in caller.result()] == []


def ended_jobs(client: ClusterClient) -> dict[str, str]:
    """Return the phases of the submitted jobs when all have ended."""
    phases: dict[str, str] = {}

    def all_ended() -> bool:
        for item in client.items(JOBS):
            phases[item["metadata"]["name"]] = item.get("status", {}).get("state", {}).get("phase", "")
        phases.pop("long")
        return set(phases.values()) <= set(ENDED)

    client.until(all_ended)
    return phases


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


@pytest.mark.slow("every part of the product is replaced twice")
def test_jobs_are_accepted_and_go_on_during_an_upgrade_and_a_rollback(client: ClusterClient) -> None:
    client.submit(job("long", task("t", 2, shell(SERVE))))
    client.until(lambda: client.phase("long") == "Running")
    before = client.running("long")
    digest = image_digest(client.cluster)
    with submissions(client):
        try:
            product.deploy(client.cluster, f"image.digest={digest}")
            (image,) = images_of_parts(client.cluster)
            assert image.endswith(f"@{digest}")
        finally:
            product.run_helm(client.cluster, "rollback", product.RELEASE, "--wait", f"--timeout={product.TIMEOUT}")
    assert set(ended_jobs(client).values()) == {"Completed"}
    assert client.running("long") == before


def test_the_tests_of_the_chart_pass(client: ClusterClient) -> None:
    output = product.run_helm(client.cluster, "test", product.RELEASE, f"--timeout={product.TIMEOUT}")
    assert "Phase:          Succeeded" in output, output
