"""The published schemas of built-in kinds, and decoding errors with the messages of Go."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from embedded_apiserver.schema.definitions import Definitions

DEFINITIONS = Definitions.load()


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def test_the_references_of_a_schema_are_resolved() -> None:
    schema = DEFINITIONS.schema("", "v1", "Pod")
    assert schema is not None
    containers = schema["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"]["properties"]["image"] == {"type": "string"}
    assert DEFINITIONS.schema("batch.volcanopy.io", "v1alpha1", "BatchJob") is None


def test_a_strategy_beside_a_reference_is_kept() -> None:
    schema = DEFINITIONS.schema("apps", "v1", "Deployment")
    assert schema is not None
    strategy = schema["properties"]["spec"]["properties"]["strategy"]
    assert strategy["x-kubernetes-patch-strategy"] == "retainKeys"
    assert "rollingUpdate" in strategy["properties"]


def test_unknown_fields_are_named_with_their_paths() -> None:
    wrong = pod(nodeNam="n", containers=[{"name": "c", "imag": "x"}], volumes=[{"name": "v", "emptyDir": {}}])
    assert DEFINITIONS.prune("", "v1", "Pod", wrong)[1] == ["spec.containers[0].imag", "spec.nodeNam"]
    assert DEFINITIONS.prune("", "v1", "Pod", pod())[1] == []
    pruned, _ = DEFINITIONS.prune("", "v1", "Pod", wrong | {"status": None})
    assert pruned == pod(containers=[{"name": "c"}], volumes=[{"name": "v", "emptyDir": {}}])


def test_the_schema_in_a_crd_is_checked_in_depth_and_its_values_are_free() -> None:
    schema = {"type": "object", "properties": {"$ref": {"type": "string", "default": {"any": 1}, "typ": "x"}}}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}
    _, unknown = DEFINITIONS.prune("apiextensions.k8s.io", "v1", "CustomResourceDefinition", crd)
    assert unknown == ["spec.versions[0].schema.openAPIV3Schema.properties.$ref.typ"]


GO = "json: cannot unmarshal"


@pytest.mark.parametrize(
    ("wrong", "expected_error"),
    [
        (pod(containers={}), f"{GO} object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        (
            pod(containers=[{"name": 1}]),
            f"{GO} number into Go struct field Container.spec.containers.name of type string",
        ),
        (pod(hostNetwork="yes"), f"{GO} string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        (pod(priority="1"), f"{GO} string into Go struct field PodSpec.spec.priority of type int32"),
        (pod(priority=1.5), f"{GO} number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
        (pod(priority=2**31), f"{GO} number 2147483648 into Go struct field PodSpec.spec.priority of type int32"),
        (pod(nodeSelector={"a": 1}), f"{GO} number into Go struct field PodSpec.spec.nodeSelector of type string"),
        ({"spec": "x"}, f"{GO} string into Go struct field Pod.spec of type v1.PodSpec"),
        (
            pod(containers=[{"resources": {"requests": {"cpu": "lots"}}}]),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            {"metadata": {"deletionTimestamp": "soon"}},
            'parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"',
        ),
    ],
)
def test_decoding_errors_have_the_messages_of_go(wrong: dict[str, Any], expected_error: str) -> None:
    assert DEFINITIONS.type_errors("", "v1", "Pod", wrong) == [expected_error]


def test_decodable_values_have_no_errors() -> None:
    right = pod(
        priority=None,
        containers=[{"ports": [{"containerPort": 80}], "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}],
    )
    assert DEFINITIONS.type_errors("", "v1", "Pod", right) == []
    probe = {"httpGet": {"port": "web"}}
    assert DEFINITIONS.type_errors("", "v1", "Pod", pod(containers=[{"livenessProbe": probe}])) == []


def test_the_metadata_of_any_object_is_checked() -> None:
    assert DEFINITIONS.metadata_errors({"labels": {"a": "b"}}) == []
    assert DEFINITIONS.metadata_errors({"labels": {"a": 1}}) == [
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
    ]


def test_schemas_are_loaded_quickly_and_once() -> None:
    """0.02 s was measured; a process that starts the API server must not wait for it."""
    assert Definitions.load() is DEFINITIONS
    program = (
        "import time; from embedded_apiserver.schema.definitions import Definitions; "
        "start = time.process_time(); Definitions.load().schema('', 'v1', 'Pod'); print(time.process_time() - start)"
    )
    spent = float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert spent < 0.15
