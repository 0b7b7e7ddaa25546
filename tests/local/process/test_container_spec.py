"""Command, environment and references of containers on process nodes."""

from typing import Any

import pytest

from volcanopy_local.process.container_spec import (
    ContainerConfigError,
    Mount,
    Sources,
    field_value,
    referenced,
    resolve,
)

SOURCES = Sources(
    config_maps={"settings": {"data": {"rate": "0.1", "steps": "10"}}},
    secrets={"token": {"data": {"key": "czNjcmV0"}}},
)


def pod(**container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "lab", "uid": "u", "labels": {"team": "ml"}},
        "spec": {"nodeName": "local-1", "containers": [{"name": "main", **container}]},
        "status": {"podIP": "127.1.0.1", "hostIP": "127.0.0.1"},
    }


def environment(**container: Any) -> dict[str, str]:
    body = pod(**container)
    return dict(resolve(body, body["spec"]["containers"][0], SOURCES).environment)


def test_arguments_and_values_expand_the_variables_before_them() -> None:
    body = pod(
        command=["run", "--rate=$(RATE)", "$$(RATE)", "$(UNKNOWN)"],
        env=[{"name": "RATE", "value": "3"}, {"name": "TWICE", "value": "$(RATE)$(RATE)"}],
    )
    spec = resolve(body, body["spec"]["containers"][0], SOURCES)
    assert spec.argv == ("run", "--rate=3", "$(RATE)", "$(UNKNOWN)")
    assert spec.environment["TWICE"] == "33"


def test_variables_come_from_fields_resources_config_maps_and_secrets() -> None:
    made = environment(
        resources={"limits": {"cpu": "1500m", "memory": "1Gi"}},
        env=[
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
            {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "MIB", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "STEPS", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "steps"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "missing", "key": "x", "optional": True}}},
        ],
    )
    assert {name: made.get(name) for name in ("IP", "TEAM", "CPUS", "MIB", "STEPS", "KEY", "NONE")} == {
        "IP": "127.1.0.1",
        "TEAM": "ml",
        "CPUS": "2",
        "MIB": "1024",
        "STEPS": "10",
        "KEY": "s3cret",
        "NONE": None,
    }


def test_all_keys_of_a_config_map_become_variables_with_a_prefix() -> None:
    made = environment(envFrom=[{"prefix": "S_", "configMapRef": {"name": "settings"}}])
    assert (made["S_rate"], made["S_steps"]) == ("0.1", "10")


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "x"}}, 'configmap "none" not found'),
        ({"secretKeyRef": {"name": "token", "key": "x"}}, "couldn't find key x in secret lab/token"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "container main has no limits.cpu"),
        ({"fieldRef": {"fieldPath": "spec.nothing"}}, "fieldPath spec.nothing is not supported"),
    ],
)
def test_a_missing_source_is_named(variable: dict[str, Any], message: str) -> None:
    with pytest.raises(ContainerConfigError) as raised:
        environment(env=[{"name": "X", "valueFrom": variable}])
    assert str(raised.value) == message


def test_mounts_expand_the_expression_of_their_sub_path() -> None:
    body = pod(
        env=[{"name": "INDEX", "value": "7"}],
        volumeMounts=[{"name": "data", "mountPath": "/data", "subPathExpr": "run-$(INDEX)", "readOnly": True}],
    )
    assert resolve(body, body["spec"]["containers"][0], SOURCES).mounts == (Mount("data", "/data", "run-7", True),)


def test_the_labels_are_one_text_with_a_line_for_each() -> None:
    body = pod()
    body["metadata"]["labels"] = {"b": 'say "x"', "a": "1"}
    assert field_value(body, "metadata.labels") == 'a="1"\nb="say \\"x\\""'


def test_references_are_found_in_environment_and_volumes() -> None:
    body = pod(
        env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k"}}}],
        envFrom=[{"configMapRef": {"name": "c1"}}],
    )
    body["spec"]["volumes"] = [
        {"name": "a", "configMap": {"name": "c2"}},
        {"name": "b", "secret": {"secretName": "s2"}},
        {"name": "c", "projected": {"sources": [{"configMap": {"name": "c3"}}, {"secret": {"name": "s3"}}]}},
    ]
    assert referenced(body) == ({"c1", "c2", "c3"}, {"s1", "s2", "s3"})
