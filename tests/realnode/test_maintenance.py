"""What administrators do to nodes while jobs run and are submitted: a drain with disruption budgets, a node that is deleted."""

import pytest

from hack.realnode.cluster import is_ready
from hack.realnode.shell import CommandError
from tests.realnode.cluster_client import ClusterClient, Json, job, shell, task
from tests.realnode.submissions import ended_jobs, submissions
from tests.realnode.test_nodes import runs_without, started

BUDGET: Json = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "long"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"volcanopy.io/job-name": "long"}}},
}
"""A budget of the job that allows no eviction."""


@pytest.mark.slow("the pods of the product on the node are replaced, one of each part after the other")
def test_a_whole_node_is_drained_within_all_disruption_budgets(client: ClusterClient) -> None:
    node = next(iter(started(client).values()))[0]
    client.submit(BUDGET)
    everything = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
    with submissions(client):
        try:
            with pytest.raises(CommandError, match="violate the pod's disruption budget"):
                client.kubectl(*everything, "--pod-selector=volcanopy.io/job-name=long", "--timeout=6s")
            assert not runs_without(client, node)
            client.kubectl("delete", "poddisruptionbudget", "long")
            client.kubectl(*everything, "--timeout=120s")
            client.until(lambda: runs_without(client, node))
        finally:
            client.kubectl("uncordon", node)
    assert set(ended_jobs(client).values()) == {"Completed"}


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
