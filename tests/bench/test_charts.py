"""A Deployment of a chart as a process of this machine."""

import copy
from pathlib import Path
from typing import Any

import pytest

from bench.live.charts import arguments, mounts, object_of, on_this_machine

CONTAINER: dict[str, Any] = {
    "args": ["--logtostderr", "--conf=/etc/app/app.conf", "--config=/app.yaml", "--other=/etc/apple", "2>&1"],
    "volumeMounts": [
        {"name": "conf", "mountPath": "/etc/app"},
        {"name": "whole", "mountPath": "/app.yaml", "subPath": "app.yaml"},
        {"name": "certs", "mountPath": "/certs"},
        {"name": "scratch", "mountPath": "/scratch"},
    ],
}
DEPLOYMENT = {
    "kind": "Deployment",
    "metadata": {"name": "app"},
    "spec": {
        "template": {
            "spec": {
                "containers": [CONTAINER],
                "volumes": [
                    {"name": "conf", "configMap": {"name": "app"}},
                    {"name": "whole", "configMap": {"name": "app"}},
                    {"name": "certs", "secret": {"secretName": "app"}},
                    {"name": "scratch", "emptyDir": {}},
                ],
            }
        }
    },
}
CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"app.conf": "a: 1", "app.yaml": "b: 2"}}


def test_volumes_become_folders_with_the_files_of_configmaps_and_given_secrets(tmp_path: Path) -> None:
    paths = mounts(DEPLOYMENT, [CONFIG_MAP], {"app": {"tls.crt": b"certificate"}}, tmp_path)
    assert (paths["/etc/app"] / "app.conf").read_text() == "a: 1"
    assert paths["/app.yaml"].read_text() == "b: 2"
    assert (paths["/certs"] / "tls.crt").read_bytes() == b"certificate"
    assert list(paths["/scratch"].iterdir()) == []


def test_flags_name_files_of_the_folders_and_a_redirection_is_left_out() -> None:
    paths = {"/etc/app": Path("/here/conf"), "/app.yaml": Path("/here/whole/app.yaml")}
    assert arguments(DEPLOYMENT, paths) == [
        "--logtostderr",
        "--conf=/here/conf/app.conf",
        "--config=/here/whole/app.yaml",
        "--other=/etc/apple",
    ]


def test_a_deployment_without_volumes_has_no_mounts(tmp_path: Path) -> None:
    bare = {"spec": {"template": {"spec": {"containers": [{"args": ["-v=4"]}]}}}}
    assert mounts(bare, [], {}, tmp_path) == {}
    assert arguments(bare, {}) == ["-v=4"]


def test_webhooks_and_conversions_reach_a_port_of_this_machine_under_the_name_of_the_service() -> None:
    def client() -> dict[str, Any]:
        return {"clientConfig": {"service": {"name": "app", "namespace": "system", "path": "/check", "port": 443}}}

    webhook = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "app"}, "webhooks": [client(), client()]}
    definition = {
        "kind": "CustomResourceDefinition",
        "spec": {"conversion": {"strategy": "Webhook", "webhook": client()}},
    }
    plain = {"kind": "CustomResourceDefinition", "spec": {"group": "a"}}
    service = {
        "kind": "Service",
        "metadata": {"name": "app"},
        "spec": {"type": "ClusterIP", "selector": {"app": "app"}},
    }
    given: list[dict[str, Any]] = [webhook, definition, plain, service]
    before = copy.deepcopy(given)
    hooks, converted, same, reached = on_this_machine(given, 12345)
    assert [each["clientConfig"]["service"]["port"] for each in hooks["webhooks"]] == [12345, 12345]
    assert converted["spec"]["conversion"]["webhook"]["clientConfig"]["service"] == {
        "name": "app",
        "namespace": "system",
        "path": "/check",
        "port": 12345,
    }
    assert same == plain
    assert reached["spec"] == {"type": "ExternalName", "externalName": "localhost"}
    assert given == before


def test_an_object_that_the_chart_lacks_is_named() -> None:
    with pytest.raises(KeyError, match="the chart has no Deployment app"):
        object_of([CONFIG_MAP], "Deployment", "app")
