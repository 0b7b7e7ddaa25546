"""Equal parts of pods are one object, and no pod changes by that."""

import json
from typing import Any

import pytest
from hypothesis import given

from tests.nightly import examples
from tests.scheduler.strategies import worlds
from volcanopy.api import core
from volcanopy.kube.cache import shared_parts
from volcanopy.kube.cache.followed_kinds import PODS
from volcanopy.kube.cache.shared_parts import SharedParts
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy_testing.notation import NOW, config, world


def pod(
    name: str,
    since: str = "2030-01-01T00:00:00Z",
    *,
    address: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> core.Pod:
    """Return a running pod as it is read from the API server."""
    owner = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "name": "train", "uid": "u"}
    metadata = {
        "name": name,
        "namespace": "research",
        "labels": {"queue": "night", "volcanopy.io/task-index": name.rpartition("-")[2]} if labels is None else labels,
        "annotations": {"group": "train"} if annotations is None else annotations,
        "ownerReferences": [owner],
        "creationTimestamp": "2030-01-01T00:00:00Z",
    }
    status = {
        "phase": "Running",
        "startTime": since,
        "podIP": address,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": since} for kind in ("Ready", "Scheduled")
        ],
        "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": since}}}],
    }
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    template = {
        "schedulerName": "volcanopy",
        "containers": [{"name": "main", "image": "example", "resources": requests}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeSelector": {"zone": "a"},
    }
    return PODS.decode(json.dumps({"metadata": metadata, "spec": {**template, **spec}, "status": status}).encode())


def test_pods_of_a_task_share_all_but_their_names() -> None:
    shared = SharedParts()
    first, second = shared.pod(pod("a-0")), shared.pod(pod("a-1"))
    assert (first, second) == (pod("a-0"), pod("a-1"))
    assert first.spec is second.spec
    assert first.metadata.annotations is second.metadata.annotations
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.metadata.labels["queue"] is second.metadata.labels["queue"]
    assert first.metadata.creation_timestamp is second.metadata.creation_timestamp
    assert first.status is second.status


def test_pods_of_a_task_on_different_nodes_with_addresses_share_the_parts_of_specification_and_status() -> None:
    shared = SharedParts()
    pods = [pod(f"a-{number}", address=f"10.0.0.{number}", nodeName=f"n{number}") for number in range(2)]
    first, second = map(shared.pod, pods)
    assert [first, second] == [
        pod(f"a-{number}", address=f"10.0.0.{number}", nodeName=f"n{number}") for number in range(2)
    ]
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.spec.node_selector is second.spec.node_selector
    assert first.status.start_time is second.status.start_time
    assert first.status.conditions is second.status.conditions
    assert first.status.container_statuses is second.status.container_statuses


def test_pods_whose_labels_are_all_equal_share_them() -> None:
    shared = SharedParts()
    first, second, other = (shared.pod(pod("a-0", labels={"app": app})) for app in ("web", "web", "db"))
    assert first.metadata.labels is second.metadata.labels
    assert other.metadata.labels == {"app": "db"}


def test_an_index_among_the_annotations_is_left_out_where_a_label_repeats_it() -> None:
    key = "volcano.sh/task-index"
    shared = SharedParts()
    notes = {"group": "train", key: "0"}
    assert shared.pod(pod("a-0", annotations=notes, labels={key: "0"})).metadata.annotations == {"group": "train"}
    assert shared.pod(pod("a-0", annotations=notes, labels={key: "1"})).metadata.annotations == notes
    assert shared.pod(pod("a-0", annotations=notes, labels={})).metadata.annotations == notes


def test_pods_share_the_conditions_that_are_equal() -> None:
    shared = SharedParts()
    later = "2030-01-01T00:01:00Z"
    first, second, third = shared.pod(pod("a-0")), shared.pod(pod("a-1")), shared.pod(pod("a-2", later))
    assert third == pod("a-2", later)
    assert first.status.conditions is second.status.conditions
    assert third.status.conditions != first.status.conditions


def test_volumes_that_bind_no_pod_to_nodes_are_left_out() -> None:
    volumes = [{"name": "token", "projected": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    shared = SharedParts()
    first, second = (shared.pod(pod(name, volumes=volumes)) for name in ("a-0", "a-1"))
    assert first == pod("a-0", volumes=volumes[1:])
    assert first.spec.volumes is second.spec.volumes


def test_parts_that_differ_are_kept() -> None:
    shared = SharedParts()
    small = [{"name": "main", "resources": {"requests": {"cpu": 1}}}]
    text = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    decimal = [{"name": "main", "resources": {"requests": {"cpu": 1.0}}}]
    for containers in (small, text, decimal, []):
        made = shared.pod(pod("a-0", containers=containers))
        assert repr(made) == repr(pod("a-0", containers=containers))


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
        assert len(shared._values) <= 4 + 6  # the values of one pod, before which all are forgotten


@examples(30)
@given(worlds())
def test_a_plan_for_pods_with_shared_parts_is_the_same(text: str) -> None:
    shared = SharedParts()
    own, sharing = State(), State()
    for item in world(text):
        own.upsert(item)
    for item in world(text):
        sharing.upsert(shared.pod(item) if isinstance(item, core.Pod) else item)
    plans = [schedule(state.snapshot(NOW, "one"), config("gang, predicates, proportion")) for state in (own, sharing)]
    assert str(plans[0]) == str(plans[1])
