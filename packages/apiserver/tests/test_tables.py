"""Tables show objects as `kubectl get` shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from embedded_apiserver.schema.json_path import JsonPathError
from embedded_apiserver.wire.builtin_columns import builtin_columns
from embedded_apiserver.wire.columns import human_duration
from embedded_apiserver.wire.tables import crd_columns, table

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def row(group: str, kind: str, obj: dict[str, Any], *, wide: bool = False) -> list[Any]:
    """The cells of one built-in object; without the wide columns unless asked."""
    columns = [column for column in builtin_columns(group, kind) if wide or not column.priority]
    return list(table(columns, [obj], now=NOW)["rows"][0]["cells"])


def named(**rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "creationTimestamp": "2026-01-01T23:55:00Z"}, **rest}


def pod(status: dict[str, Any], **rest: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c"}], **rest.pop("spec", {})}
    return named(spec=spec, status=status, **rest)


def state(ready: bool = False, restarts: int = 0, **what: Any) -> dict[str, Any]:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": what}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (150, "2m30s"), (900, "15m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"),
     (9 * 3600, "9h"), (49 * 3600, "2d1h"), (48 * 3600, "2d"), (9 * 86400, "9d"), (3 * 365 * 86400 + 86400, "3y1d"), (9 * 365 * 86400, "9y")],
)  # fmt: skip
def test_durations_are_written_in_short_form(seconds: int, shown: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "SchedulingGated",
        ),
        ({"phase": "Running", "containerStatuses": [state(True, running={})]}, "Running"),
        (
            {"phase": "Pending", "containerStatuses": [state(waiting={"reason": "ImagePullBackOff"})]},
            "ImagePullBackOff",
        ),
        (
            {"phase": "Succeeded", "containerStatuses": [state(terminated={"exitCode": 0, "reason": "Completed"})]},
            "Completed",
        ),
        ({"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 1, "reason": "Error"})]}, "Error"),
        ({"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 3})]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 3, "signal": 9})]}, "Signal:9"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
def test_the_status_column_of_a_pod_is_the_most_specific_reason(status: dict[str, Any], word: str) -> None:
    assert row("", "Pod", pod(status))[2] == word


def test_init_containers_precede_in_the_status_column() -> None:
    init = {"initContainers": [{"name": "i"}, {"name": "j"}]}
    running = pod({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}, spec=init)
    assert row("", "Pod", running)[2] == "Init:0/2"
    failed = {"terminated": {"exitCode": 2, "reason": "Error"}}
    done = {"terminated": {"exitCode": 0}}
    broken = pod(
        {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": done}, {"name": "j", "state": failed}]},
        spec=init,
    )
    assert row("", "Pod", broken)[2] == "Init:Error"


def test_a_deleted_pod_is_terminating_until_it_is_done() -> None:
    leaving = pod({"phase": "Running"})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T23:59:00Z"
    assert row("", "Pod", leaving)[2] == "Terminating"
    leaving["status"] = {"phase": "Succeeded"}
    assert row("", "Pod", leaving)[2] == "Succeeded"


def test_a_pod_counts_ready_containers_and_restarts() -> None:
    crashed = {**state(True, 3, running={}), "lastState": {"terminated": {"finishedAt": "2026-01-01T23:59:00Z"}}}
    shown = row("", "Pod", pod({"phase": "Running", "containerStatuses": [crashed]}))
    assert shown == ["x", "1/1", "Running", "3 (60s ago)", "5m"]


def test_wide_pods_show_where_they_are() -> None:
    placed = pod({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}, spec={"nodeName": "n1"})
    assert row("", "Pod", placed, wide=True)[5:] == ["10.0.0.1", "n1", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("group", "kind", "obj", "cells"),
    [
        (
            "",
            "Node",
            {
                "spec": {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}},
            },
            ["Ready,SchedulingDisabled", "<none>", "5m", "v1"],
        ),
        (
            "",
            "Node",
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            ["NotReady", "<none>", "5m", ""],
        ),
        ("", "Namespace", {"status": {"phase": "Active"}}, ["Active", "5m"]),
        ("", "ConfigMap", {"data": {"a": "b"}, "binaryData": {"c": ""}}, [2, "5m"]),
        ("", "Secret", {"type": "Opaque", "data": {"a": "b"}}, ["Opaque", 1, "5m"]),
        (
            "",
            "Service",
            {
                "spec": {
                    "type": "ClusterIP",
                    "clusterIP": "10.0.0.1",
                    "ports": [{"port": 80, "nodePort": 3}, {"port": 53, "protocol": "UDP"}],
                }
            },
            ["ClusterIP", "10.0.0.1", "<none>", "80:3/TCP,53/UDP", "5m"],
        ),
        (
            "apps",
            "Deployment",
            {"spec": {"replicas": 3}, "status": {"readyReplicas": 1, "updatedReplicas": 2}},
            ["1/3", 2, 0, "5m"],
        ),
        ("apps", "StatefulSet", {"spec": {"replicas": 3}, "status": {}}, ["0/3", "5m"]),
        ("apps", "ReplicaSet", {"spec": {"replicas": 3}, "status": {"replicas": 2}}, [3, 2, 0, "5m"]),
        (
            "batch",
            "Job",
            {"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2026-01-01T23:58:00Z"}},
            ["Running", "1/2", "2m", "5m"],
        ),
        ("coordination.k8s.io", "Lease", {"spec": {"holderIdentity": "me"}}, ["me", "5m"]),
        ("scheduling.k8s.io", "PriorityClass", {"value": 7, "preemptionPolicy": "Never"}, [7, False, "5m", "Never"]),
        ("policy", "PodDisruptionBudget", {"spec": {"minAvailable": "50%"}}, ["50%", "N/A", 0, "5m"]),
        ("node.k8s.io", "RuntimeClass", {"handler": "kata"}, ["kata", "5m"]),
        ("", "PersistentVolumeClaim", {"status": {"phase": "Pending"}}, ["Pending", "", "", "", "", "<unset>", "5m"]),
        ("", "ServiceAccount", {}, ["5m"]),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", {"webhooks": [{}, {}]}, [2, "5m"]),
        ("apiextensions.k8s.io", "CustomResourceDefinition", {}, ["2026-01-01T23:55:00Z"]),
    ],
)
def test_built_in_kinds_have_their_own_columns(group: str, kind: str, obj: dict[str, Any], cells: list[Any]) -> None:
    assert row(group, kind, named(**obj)) == ["x", *cells]


def test_events_show_when_what_and_about_whom() -> None:
    event = named(
        type="Normal",
        reason="Bound",
        message=" done ",
        involvedObject={"kind": "Pod", "name": "p"},
        lastTimestamp="2026-01-01T23:59:00Z",
    )
    assert row("", "Event", event) == ["60s", "Normal", "Bound", "pod/p", "done"]


JOB = {
    "metadata": {"name": "j", "creationTimestamp": "2026-01-01T23:59:30Z", "annotations": {"a.b/c": "v"}},
    "spec": {"tasks": [{"name": "t0"}, {"name": "t1"}], "min": 2, "on": True, "load": 1.0},
    "status": {
        "conditions": [{"type": "Done", "status": "False"}, {"type": "Ready", "status": "True"}],
        "state": {"phase": "Running"},
    },
}


@pytest.mark.parametrize(
    ("path", "kind", "cell"),
    [
        (".status.state.phase", "string", "Running"),
        ('.status.conditions[?(@.type=="Ready")].status', "string", "True"),
        (".status.conditions[?(@.type=='Gone')].status", "string", None),
        (".spec.min", "integer", 2),
        (".spec.min", "string", "2"),
        (".spec.on", "boolean", True),
        (".spec.on", "integer", None),
        (".spec.load", "number", 1.0),
        (".spec.tasks[-1].name", "string", "t1"),
        (".spec.tasks[*].name", "string", "t0"),
        (r".metadata.annotations.a\.b/c", "string", "v"),
        (".metadata.annotations['a.b/c']", "string", "v"),
        (".spec.tasks", "string", '[{"name":"t0"},{"name":"t1"}]'),
        ("..phase", "string", "Running"),
        (".metadata.creationTimestamp", "date", "30s"),
        (".metadata.name", "date", "<invalid>"),
        (".spec.missing", "date", None),
    ],
)
def test_custom_columns_follow_their_path_and_type(path: str, kind: str, cell: Any) -> None:
    columns = crd_columns({"additionalPrinterColumns": [{"name": "C", "type": kind, "jsonPath": path, "priority": 1}]})
    shown = table(columns, [JOB], now=NOW)
    assert shown["rows"][0]["cells"] == ["j", cell]
    assert shown["columnDefinitions"][1] == {
        "name": "C",
        "type": kind,
        "format": "",
        "description": f"Custom resource definition column (in JSONPath format): {path}",
        "priority": 1,
    }


def test_custom_resources_without_columns_show_name_and_age() -> None:
    shown = table(crd_columns({}), [JOB], now=NOW)
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Age"]
    assert shown["rows"][0]["cells"] == ["j", "30s"]


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[?(b==1)]", ".a[?(@.b==x)]"])
def test_an_invalid_json_path_is_rejected(path: str) -> None:
    with pytest.raises(JsonPathError, match="JSON path"):
        crd_columns({"additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": path}]})


@pytest.mark.parametrize(
    ("include", "carried"),
    [
        ("Object", JOB),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": JOB["metadata"]}),
        ("None", None),
    ],
)
def test_rows_contain_the_requested_objects(include: str, carried: Any) -> None:
    shown = table(crd_columns({}), [JOB], include=include, list_meta={"resourceVersion": "5"}, now=NOW)
    assert shown["rows"][0].get("object") == carried
    assert (shown["kind"], shown["apiVersion"], shown["metadata"]) == (
        "Table",
        "meta.k8s.io/v1",
        {"resourceVersion": "5"},
    )
