"""The OpenAPI documents hold what kubectl looks for in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.kinds.strategy import Strategy
from embedded_apiserver.schema.definitions import Definitions
from embedded_apiserver.wire.openapi import document, index

DEFINITIONS = Definitions.load()
JOB = Kind(
    "batch.volcanopy.io", "v1alpha1", "BatchJob", "batchjobs", True, Strategy(),
    schema={"type": "object", "properties": {"spec": {"type": "object", "description": "What is wanted."}}},
)  # fmt: skip
POD = Kind("", "v1", "Pod", "pods", True, Strategy())
NODE = Kind("", "v1", "Node", "nodes", False, Strategy())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key == "$ref" and isinstance(member, str):
                yield member
            else:
                yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_index_names_a_url_that_changes_with_the_content() -> None:
    listed = index([("", "v1"), ("apps", "v1")], lambda group, version: f"{group}-{version}")
    assert listed == {
        "paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=-v1"},
            "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=apps-v1"},
        }
    }


def test_a_patch_of_each_kind_has_the_field_validation_parameter() -> None:
    paths = document("", "v1", [POD, NODE], DEFINITIONS)["paths"]
    for path, kind in (("/api/v1/namespaces/{namespace}/pods/{name}", "Pod"), ("/api/v1/nodes/{name}", "Node")):
        patch = paths[path]["patch"]
        assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": kind}
        assert "fieldValidation" in [
            parameter["name"] for parameter in patch["parameters"] if parameter["in"] == "query"
        ]
        assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    custom = document(JOB.group, JOB.version, [JOB], DEFINITIONS)["paths"]
    ((_, operations),) = custom.items()
    assert "application/strategic-merge-patch+json" not in operations["patch"]["requestBody"]["content"]


def test_a_custom_resource_is_described_by_its_own_schema() -> None:
    built = document("batch.volcanopy.io", "v1alpha1", [JOB], DEFINITIONS)
    schema = built["components"]["schemas"]["io.volcanopy.batch.v1alpha1.BatchJob"]
    assert schema["properties"]["spec"]["description"] == "What is wanted."
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "batch.volcanopy.io", "version": "v1alpha1", "kind": "BatchJob"}
    ]
    assert {"apiVersion", "kind", "metadata"} < schema["properties"].keys()


def test_every_reference_resolves() -> None:
    crd = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, Strategy())
    for group, version, kinds in (
        ("", "v1", [POD, NODE]),
        ("apiextensions.k8s.io", "v1", [crd]),
        (JOB.group, JOB.version, [JOB]),
    ):
        built = document(group, version, kinds, DEFINITIONS)
        result = {reference.removeprefix("#/components/schemas/") for reference in references(built)}
        assert result
        assert result <= built["components"]["schemas"].keys()
        json.dumps(built)


def test_types_are_simple_and_int_or_string_has_its_format() -> None:
    schemas = document("", "v1", [POD], DEFINITIONS)["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]["type"] == "array"
    number_or_text = schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert number_or_text == {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}


def test_kinds_of_other_groups_are_omitted() -> None:
    assert not any("batchjobs" in path for path in document("", "v1", [POD, JOB], DEFINITIONS)["paths"])
