"""``node`` and ``cluster``: what the pods that have not ended request of each node and of the cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fake_api_server import ago, fake_api_server
from tests.cli.run_commands import Outcome, run_in_process

GPU = "nvidia.com/gpu"


def a_node(name: str, ready: str = "True", **amounts: str) -> dict[str, Any]:
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110", **amounts}
    conditions = [{"type": "Ready", "status": ready, "reason": "KubeletReady"}]
    metadata = {"name": name, "uid": name, "creationTimestamp": ago(hours=2)}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": allocatable, "conditions": conditions}}


def a_pod(name: str, node: str, phase: str, **requests: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "i", "resources": {"requests": requests}}]
    metadata = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": ago(hours=1)}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": containers}, "status": {"phase": phase}}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with fake_api_server() as server:
        gpus = {GPU: "4"}
        server.has("/api/v1/nodes", a_node("fast", **gpus), a_node("lost", "Unknown"), a_node("plain"))
        pods = [
            a_pod("trains", "fast", "Running", cpu="2500m", memory="4Gi", **{GPU: "3"}),
            a_pod("starts", "fast", "Pending", cpu="500m"),
            a_pod("done", "plain", "Succeeded", cpu="8"),
        ]
        server.has("/api/v1/pods", *pods)
        server.has("/api/v1/events")
        server.has("/api/v1/namespaces/default/events")
        yield server.kubeconfig(tmp_path)


def shown(kubeconfig: Path, *words: str) -> Outcome:
    result = run_in_process(*words, kubeconfig=kubeconfig)
    assert result.status == 0, result.err
    return result


def test_nodes_are_listed_with_requested_and_allocatable_amounts(kubeconfig: Path) -> None:
    lines = [line.split()[:-1] for line in shown(kubeconfig, "node", "list").lines]
    assert lines == [
        ["NAME", "STATUS", "RUNTIME", "PODS", "CPU", "MEMORY", GPU],
        ["fast", "Ready", "-", "2/110", "3/8", "4Gi/16Gi", "3/4"],
        ["lost", "NotReady", "-", "0/110", "0/8", "0/16Gi", "-"],
        ["plain", "Ready", "-", "0/110", "0/8", "0/16Gi", "-"],
    ]
    document = json.loads(shown(kubeconfig, "node", "list", "-o", "json").out)
    assert document["items"][0]["resources"][GPU] == {"requested": "3", "allocatable": "4"}


def test_a_node_is_described_with_its_pods(kubeconfig: Path) -> None:
    text = shown(kubeconfig, "node", "describe", "fast").out
    assert "  cpu              3           8\n" in text
    assert ["default", "trains", "Running", "2.5", "4Gi"] in [line.split() for line in text.splitlines()]
    assert run_in_process("node", "describe", "fats", kubeconfig=kubeconfig).status == 1


def test_the_cluster_is_the_sum_of_the_ready_nodes(kubeconfig: Path) -> None:
    lines = shown(kubeconfig, "cluster", "top").lines
    assert lines[0] == "Nodes: 3, of which 2 are ready and schedulable"
    assert [line.split() for line in lines[3:5]] == [
        ["cpu", "3", "16", "13", "19%"],
        ["memory", "4Gi", "32Gi", "28Gi", "12%"],
    ]
    assert json.loads(shown(kubeconfig, "cluster", "top", "-o", "json").out)["resources"]["pods"]["requested"] == "2"
