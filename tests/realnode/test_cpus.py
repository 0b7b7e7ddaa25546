"""Whole CPUs on a node whose kubelet has the static CPU manager and aligns by NUMA node."""

from typing import Any

import pytest

from tests.realnode.cluster_client import ClusterClient, Json, container, job, task

ALLOWED = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status"


def topology(client: ClusterClient, node: str) -> Json:
    """Return the spec of the NumaTopology of a node, which its agent writes."""
    spec: dict[str, Any] = client.cluster.get("numatopologies.nodeinfo.volcanopy.io", node)["spec"]
    return spec


def run_of(client: ClusterClient, job: str) -> Json:
    """Return the terminated state of the container of a job."""
    (pod,) = client.pods(job)
    (status,) = pod["status"]["containerStatuses"]
    state: Json = status["state"]["terminated"]
    return state


@pytest.mark.slow("the agent reads the kubelet's files every 15 seconds")
def test_a_container_gets_the_cpus_that_the_agent_reports(client: ClusterClient) -> None:
    node = client.cluster.node_names()[-1]
    client.until(lambda: topology(client, node)["policies"]["CPUManagerPolicy"] == "static")
    free = topology(client, node)["numares"]["cpu"]["allocatable"]
    whole = {"requests": {"cpu": "1", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "32Mi"}}
    main = container("sh", "-c", f"{ALLOWED}; sleep 30", resources=whole)
    client.submit(job("pinned", task("t", 1, main, topologyPolicy="single-numa-node")))
    client.until(lambda: len(client.running("pinned")) == 1)
    assert client.running("pinned")["pinned-t-0"][0] == node
    (cpu,) = client.kubectl("logs", "pinned-t-0").split()
    client.until(lambda: topology(client, node)["podAllocations"])
    (allocation,) = topology(client, node)["podAllocations"]
    assert allocation["name"] == "pinned-t-0"
    assert allocation["containerAllocations"] == [{"name": "main", "allocations": {"cpu": cpu}}]
    assert topology(client, node)["numares"]["cpu"]["allocatable"] != free
    client.submit(job("second", task("t", 1, main, topologyPolicy="single-numa-node")))
    client.ends("pinned", "Completed")
    client.ends("second", "Completed")
    assert run_of(client, "second")["startedAt"] >= run_of(client, "pinned")["finishedAt"]
