"""What administrators do to nodes while jobs run and are submitted: a drain with disruption budgets, a node that is deleted."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from hack.realnode import product
from hack.realnode.cluster import is_ready
from tests.realnode.cluster_client import ClusterClient, Json, job, shell, task
from tests.realnode.submissions import api_server, ended_jobs, post, submissions
from tests.realnode.test_nodes import runs_without, started

pytestmark = pytest.mark.alone
BUDGET: Json = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "long"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"volcanopy.io/job-name": "long"}}},
}
"""A budget of the job that allows no eviction."""


@pytest.mark.slow("the pods of the product on the node are replaced, one of each part after the other")
def test_a_whole_node_is_drained_within_all_disruption_budgets(client: ClusterClient) -> None:
    """The drain waits for the budget of the job while everything else leaves the node, and goes on without the budget."""
    node = next(iter(started(client).values()))[0]
    client.submit(BUDGET)
    before = client.running("long")
    (pod, *_) = (name for name, (place, _) in before.items() if place == node)
    with submissions(client):
        try:
            client.kubectl("cordon", node)
            status, text = evict(client, pod)
            assert (status, "violate the pod's disruption budget" in text) == (429, True)
            with ThreadPoolExecutor() as pool:
                drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
                drained = pool.submit(client.kubectl, *drain)
                client.until(lambda: parts_on(client, node) == {"agent"})
                assert client.running("long") == before
                client.kubectl("delete", "poddisruptionbudget", "long")
                drained.result()
            client.until(lambda: runs_without(client, node))
        finally:
            client.kubectl("uncordon", node)
    assert set(ended_jobs(client).values()) == {"Completed"}


def evict(client: ClusterClient, pod: str) -> tuple[int, str]:
    """Evict a pod once, where kubectl would repeat a rejected request for two minutes; return status and text of the answer."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    with closing(api_server(client)) as server:
        return post(server, f"/api/v1/namespaces/{client.namespace}/pods/{pod}/eviction", eviction)


def parts_on(client: ClusterClient, node: str) -> set[str]:
    """Return the parts of the product that have a pod on a node."""
    place = (f"--namespace={product.NAMESPACE}", f"--field-selector=spec.nodeName={node}")
    pods = client.cluster.get("pods", *place)["items"]
    return {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods}


@pytest.mark.slow("the kubelet of the deleted node starts again")
def test_a_node_that_is_deleted_and_registers_again_keeps_its_pods(client: ClusterClient) -> None:
    before = started(client)
    node = next(iter(before.values()))[0]
    with submissions(client):
        client.kubectl("delete", "node", node)
        client.submit(job("elsewhere", task("t", 4, shell("true"))))
        client.ends("elsewhere", "Completed")
        assert all(pod["spec"]["nodeName"] != node for pod in client.pods("elsewhere"))
        client.cluster.stop(node, "kubelet", once=True)  # a kubelet registers its node only when it starts
        client.cluster.wait_until(lambda: node in ready_nodes(client), 90, f"{node} Ready")
        client.submit(job("there", task("t", 1, shell("true"), pod={"nodeSelector": {"kubernetes.io/hostname": node}})))
        client.ends("there", "Completed")
    assert set(ended_jobs(client).values()) == {"Completed"}
    assert client.running("long") == before


def ready_nodes(client: ClusterClient) -> list[str]:
    """Return the names of the nodes that are ready."""
    return [item["metadata"]["name"] for item in client.cluster.get("nodes")["items"] if is_ready(item)]
