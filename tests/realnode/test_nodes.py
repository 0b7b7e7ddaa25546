"""Nodes that are drained, lost or disturbed, and preemption with graceful termination."""

from typing import Any

import pytest

from hack.realnode.cluster import is_ready
from tests.realnode.cluster_client import RESTART, SERVE, ClusterClient, Json, job, shell, task

pytestmark = pytest.mark.alone
SPREAD = {
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"volcanopy.io/job-name": "long"}},
                    },
                }
            ]
        }
    }
}


def long_job(**spec: Any) -> Json:
    return job("long", task("t", 3, shell(SERVE), pod=SPREAD), **{"policies": RESTART, "maxRetry": 10, **spec})


def started(client: ClusterClient, **spec: Any) -> dict[str, tuple[str, str]]:
    client.submit(long_job(**spec))
    client.until(lambda: len(client.running("long")) == 3)
    return client.running("long")


def runs_without(client: ClusterClient, node: str) -> bool:
    pods = client.running("long")
    return len(pods) == 3 and all(place != node for place, _ in pods.values())


def node_is_ready(client: ClusterClient, node: str) -> bool:
    return is_ready(client.cluster.get("node", node))


@pytest.mark.slow("a node is cut from the network until it is not ready and its pods are deleted")
def test_a_job_on_a_lost_node_names_it_and_the_remedy(client: ClusterClient) -> None:
    node = next(iter(started(client).values()))[0]
    client.cluster.cut(node)
    try:
        client.until(lambda: "cannot terminate" in client.message("long"), 180)
        message = client.message("long")
        assert f'node "{node}" NotReady since ' in message
        assert "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in message
        assert any(event.startswith("NodeNotReady: ") for event in client.events("long"))
        assert client.phase("long") == "Restarting"
        client.kubectl("taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
        client.until(lambda: runs_without(client, node), 120)
        assert "cannot terminate" not in client.message("long")
    finally:
        client.cluster.join(node)
        client.until(lambda: node_is_ready(client, node))
        client.kubectl("taint", "node", node, "node.kubernetes.io/out-of-service-")


@pytest.mark.slow("a node is cut from the network until it is not ready and its pods are deleted")
def test_a_job_that_replaces_terminating_pods_leaves_a_lost_node_by_itself(client: ClusterClient) -> None:
    node = next(iter(started(client, podReplacementPolicy="TerminatingOrFailed", plugins={"svc": []}).values()))[0]
    client.cluster.cut(node)
    try:
        client.until(lambda: runs_without(client, node), 180)
        assert any(name.endswith("-r1") for name in client.running("long"))
        assert client.phase("long") == "Running"
    finally:
        client.cluster.join(node)
        client.until(lambda: node_is_ready(client, node))
    client.until(lambda: len(client.pods("long")) == 3, 60)
    assert "cannot terminate" not in client.message("long")


@pytest.mark.slow("the kubelet lists its pods again")
@pytest.mark.parametrize("service", ["kubelet", "containerd"])
def test_a_killed_service_of_a_node_restarts_no_pod(client: ClusterClient, service: str) -> None:
    before = started(client)
    node = next(iter(before.values()))[0]
    client.cluster.stop(node, service, kill=True, once=True)
    client.submit(job("after", task("t", 1, shell("true"), pod={"nodeSelector": {"kubernetes.io/hostname": node}})))
    client.ends("after", "Completed")
    client.until(lambda: node_is_ready(client, node))
    assert client.running("long") == before


@pytest.mark.slow("the clients of the API server connect again")
def test_jobs_go_on_when_the_api_server_was_restarted(client: ClusterClient) -> None:
    before = started(client)
    client.cluster.stop("control-plane", "kube-apiserver", kill=True, once=True)
    client.cluster.wait_until(lambda: _answers(client), 90, "kube-apiserver")
    client.until(lambda: client.running("long") == before)
    client.submit(job("after", task("t", 2, shell("true"))))
    client.ends("after", "Completed")


@pytest.mark.slow("victims save for some seconds before they end")
def test_victims_of_preemption_end_gracefully_and_come_back(client: ClusterClient) -> None:
    saving = "trap 'sleep 3; echo saved; exit 0' TERM; while true; do sleep 0.2; done"
    quota = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "Queue", "metadata": {"name": "narrow"}}
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"realnode-{name}"},
            "value": value,
        }
        for name, value in (("low", 10), ("high", 1000))
    ]
    client.submit(*classes, {**quota, "spec": {"capability": {"cpu": "300m"}}})
    try:
        low = task("t", 3, shell(saving, cpu="100m"), pod={"terminationGracePeriodSeconds": 20})
        client.submit(job("low", low, queue="narrow", priorityClassName="realnode-low", minAvailable=1))
        client.until(lambda: len(client.running("low")) == 3)
        high = task("t", 2, shell("sleep 3", cpu="100m"))
        client.submit(job("high", high, queue="narrow", priorityClassName="realnode-high"))
        client.ends("high", "Completed")
        client.until(lambda: len(client.running("low")) == 3)
    finally:
        client.kubectl("delete", "batchjobs.batch.volcanopy.io", "--all", "--wait=true")
        client.kubectl("delete", "queues.scheduling.volcanopy.io", "narrow")
        client.kubectl("delete", "priorityclasses", "realnode-low", "realnode-high")


def _answers(client: ClusterClient) -> bool:
    try:
        return client.kubectl("get", "--raw=/readyz") == "ok"
    except Exception:
        return False
