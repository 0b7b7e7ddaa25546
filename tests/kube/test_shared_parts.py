"""Equal parts of pods are one object, and no pod changes by that."""

import json
from typing import Any

import pytest

from volcanopy.api import core
from volcanopy.kube.cache import shared_parts
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.cache.shared_parts import SharedParts


def pod(name: str, **spec: Any) -> core.Pod:
    """Return a pod as it is read from the API server."""
    owner = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "name": "train", "uid": "u"}
    metadata = {
        "name": name,
        "namespace": "research",
        "labels": {"queue": "night", "index": name},
        "annotations": {"group": "train"},
        "ownerReferences": [owner],
    }
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    template = {
        "schedulerName": "volcanopy",
        "containers": [{"name": "main", "image": "example", "resources": requests}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeSelector": {"zone": "a"},
    }
    return PODS.decode(json.dumps({"metadata": metadata, "spec": {**template, **spec}}).encode())


def test_pods_of_a_task_share_all_but_their_names() -> None:
    shared = SharedParts()
    first, second = shared.pod(pod("a-0")), shared.pod(pod("a-1"))
    assert (first, second) == (pod("a-0"), pod("a-1"))
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.spec.node_selector is second.spec.node_selector
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.metadata.labels["queue"] is second.metadata.labels["queue"]


def test_parts_that_differ_are_kept() -> None:
    shared = SharedParts()
    small = [{"name": "main", "resources": {"requests": {"cpu": 1}}}]
    text = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    for containers in (small, text, []):
        assert shared.pod(pod("a-0", containers=containers)) == pod("a-0", containers=containers)


def test_empty_parts_of_different_fields_are_not_mixed_up() -> None:
    shared = SharedParts()
    blank = pod("a-0", containers=[{}], tolerations=[{}], topologySpreadConstraints=[], nodeSelector={})
    assert shared.pod(blank) == pod("a-0", containers=[{}], tolerations=[{}], nodeSelector={})


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_parts, "REMEMBERED", 4)
    shared = SharedParts()
    for number in range(20):
        image = [{"name": "main", "image": f"example:{number}"}]
        assert shared.pod(pod(f"a-{number}", containers=image)) == pod(f"a-{number}", containers=image)
        assert len(shared._parts) <= 4
        assert len(shared._texts) <= 4
