"""``node list``: what the pods that have not ended request of each node."""

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
