"""Whole CPUs on a node whose kubelet has the static CPU manager and aligns by NUMA node."""

from typing import Any

import pytest

from tests.realnode.cluster_client import JOBS, SERVE, ClusterClient, Json, container, job, task

ALLOWED = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status"


def topology(client: ClusterClient, node: str) -> Json:
    """Return the spec of the NumaTopology of a node, which its agent writes."""
    spec: dict[str, Any] = client.cluster.get("numatopologies.nodeinfo.volcanopy.io", node)["spec"]
    return spec


def is_unschedulable(client: ClusterClient, job: str) -> bool:
    """Return whether the scheduler has found no node for the pod of a job."""
    conditions = (condition for pod in client.pods(job) for condition in pod["status"].get("conditions") or ())
    return any(condition.get("reason") == "Unschedulable" for condition in conditions)


@pytest.mark.slow("the agent reads the kubelet's files every 15 seconds")
def test_a_container_gets_the_cpus_that_the_agent_reports(client: ClusterClient) -> None:
    node = client.cluster.node_names()[-1]
    client.until(lambda: topology(client, node)["policies"]["CPUManagerPolicy"] == "static")
    free = topology(client, node)["numares"]["cpu"]["allocatable"]
    whole = {"requests": {"cpu": "1", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "32Mi"}}

    def pinned(name: str, script: str) -> Json:
        main = container("sh", "-c", script, resources=whole)
        return job(name, task("t", 1, main, topologyPolicy="single-numa-node"))

    client.submit(pinned("pinned", f"{ALLOWED}; {SERVE}"))
    client.until(lambda: len(client.running("pinned")) == 1)
    assert client.running("pinned")["pinned-t-0"][0] == node
    (cpu,) = client.kubectl("logs", "pinned-t-0").split()
    client.until(lambda: topology(client, node)["podAllocations"])
    (allocation,) = topology(client, node)["podAllocations"]
    assert allocation["name"] == "pinned-t-0"
    assert allocation["containerAllocations"] == [{"name": "main", "allocations": {"cpu": cpu}}]
    assert topology(client, node)["numares"]["cpu"]["allocatable"] != free
    client.submit(pinned("second", ALLOWED))
    client.until(lambda: is_unschedulable(client, "second"))
    client.kubectl("delete", JOBS, "pinned", "--wait=true")
    client.ends("second", "Completed")
    assert client.kubectl("logs", "second-t-0").split() == [cpu]
