"""The CustomResourceDefinitions are generated from the models, and an API server accepts them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from volcanopy.api.crd import RESOURCES, Resource, crd, crds, render_crds
from volcanopy.api.volcano_crds import VOLCANO_RESOURCES

CHART = Path(__file__).parents[2] / "charts" / "volcanopy" / "crds"
APPLY_LIMIT = 256 * 1024
"""What all annotations of an object may weigh: `kubectl apply` keeps the whole object in one."""

Json = dict[str, Any]


def served(resource: Resource) -> Json:
    """The version of a definition."""
    version: Json = crd(resource)["spec"]["versions"][0]
    return version


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every node of a schema with its path."""
    yield path, schema
    for name, of in schema.get("properties", {}).items():
        yield from nodes(of, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def spec_of(kind: str) -> Json:
    """The schema of a kind's spec."""
    resource = next(item for item in RESOURCES if item.kind == kind)
    spec: Json = served(resource)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def test_the_files_in_the_chart_are_those_of_the_models() -> None:
    files = {path.name: path.read_text() for path in CHART.glob("*.yaml")}
    assert files == render_crds(), "run `volcanopy crd --output-dir charts/volcanopy/crds`"


def test_the_files_parse_to_the_definitions() -> None:
    assert [yaml.load(text, yaml.CSafeLoader) for text in render_crds().values()] == list(crds())


@pytest.mark.parametrize("resource", [*RESOURCES, *VOLCANO_RESOURCES], ids=lambda item: item.name)
def test_client_side_apply_can_carry_the_definition(resource: Resource) -> None:
    assert len(json.dumps(crd(resource), separators=(",", ":"))) < APPLY_LIMIT * 0.9


@pytest.mark.parametrize("resource", [*RESOURCES, *VOLCANO_RESOURCES], ids=lambda item: item.name)
def test_every_node_of_a_schema_is_structural(resource: Resource) -> None:
    for path, node in nodes(served(resource)["schema"]["openAPIV3Schema"]):
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        # x-kubernetes-int-or-string means the same as its anyOf, which the API server evaluates besides.
        assert not {"$ref", "$defs", "title", "allOf", "anyOf", "const"} & set(node), path
        if node.get("type") == "array":
            assert "items" in node, path
        if node.get("x-kubernetes-list-type") == "map":
            items = node["items"]
            for key in node["x-kubernetes-list-map-keys"]:
                assert key in items.get("required", ()) or "default" in items["properties"][key], (path, key)


@pytest.mark.parametrize("resource", [*RESOURCES, *VOLCANO_RESOURCES], ids=lambda item: item.name)
def test_a_status_has_no_defaults(resource: Resource) -> None:
    status = served(resource)["schema"]["openAPIV3Schema"]["properties"].get("status", {})
    assert [path for path, node in nodes(status) if "default" in node] == []


@pytest.mark.parametrize("resource", [*RESOURCES, *VOLCANO_RESOURCES], ids=lambda item: item.name)
def test_every_volcanopy_field_has_a_description(resource: Resource) -> None:
    schema = served(resource)["schema"]["openAPIV3Schema"]
    theirs = tuple(
        f"{spec}{path}"
        for spec in (".spec", ".spec.jobTemplate.spec")
        for path in (".tasks[].template.", ".volumes[].volumeClaim.")
    )
    silent = [
        f"{path}.{name}"
        for path, node in nodes(schema)
        for name, of in node.get("properties", {}).items()
        if not of.get("description") and not f"{path}.{name}".startswith((".metadata", *theirs))
    ]
    assert silent == []


def test_short_names_and_categories() -> None:
    names = {
        resource.kind: (resource.plural, resource.short_names, resource.namespaced, resource.api_version)
        for resource in RESOURCES
    }
    assert names == {
        "BatchJob": ("batchjobs", ("bj",), True, "batch.volcanopy.io/v1alpha1"),
        "CronBatchJob": ("cronbatchjobs", ("cbj",), True, "batch.volcanopy.io/v1alpha1"),
        "JobFlow": ("jobflows", ("jf",), True, "flow.volcanopy.io/v1alpha1"),
        "JobTemplate": ("jobtemplates", ("jt",), True, "flow.volcanopy.io/v1alpha1"),
        "JobHistory": ("jobhistories", ("jh",), True, "batch.volcanopy.io/v1alpha1"),
        "PodGroup": ("podgroups", ("pg",), True, "scheduling.volcanopy.io/v1beta1"),
        "Queue": ("queues", ("q",), False, "scheduling.volcanopy.io/v1beta1"),
        "Command": ("commands", (), True, "bus.volcanopy.io/v1alpha1"),
        "HyperNode": ("hypernodes", ("hn",), False, "topology.volcanopy.io/v1alpha1"),
        "NumaTopology": ("numatopologies", ("numatopo",), False, "nodeinfo.volcanopy.io/v1alpha1"),
    }


def test_defaults_are_those_of_the_models() -> None:
    spec = spec_of("BatchJob")["properties"]
    assert {name: of["default"] for name, of in spec.items() if "default" in of} == {
        "schedulerName": "volcanopy",
        "maxRetry": 3,
    }
    assert spec_of("Queue")["properties"]["reclaimable"]["default"] is True
    assert spec["tasks"]["items"]["properties"]["replicas"]["default"] == 1
    assert "default" not in spec["tasks"]["items"]["properties"]["maxRetry"]


def test_a_pod_template_has_the_schema_of_a_pod() -> None:
    template = spec_of("BatchJob")["properties"]["tasks"]["items"]["properties"]["template"]
    pod = template["properties"]["spec"]
    container = pod["properties"]["containers"]["items"]
    assert template["required"] == ["spec"]
    assert pod["required"] == ["containers"]
    assert container["properties"]["image"]["type"] == "string"
    limits = container["properties"]["resources"]["properties"]["limits"]
    assert limits["additionalProperties"]["x-kubernetes-int-or-string"]
    assert "ephemeralContainers" not in pod["properties"]
    unknown = [path for path, node in nodes(template) if node.get("x-kubernetes-preserve-unknown-fields")]
    assert unknown == []


def test_kubectl_get_all_lists_what_runs_jobs() -> None:
    listed = {resource.kind for resource in RESOURCES if "all" in crd(resource)["spec"]["names"]["categories"]}
    assert listed == {"BatchJob", "CronBatchJob", "JobFlow"}


def test_jobs_and_pod_groups_are_selected_by_queue_and_phase() -> None:
    selectable = {
        resource.kind: [field["jsonPath"] for field in crd(resource)["spec"]["versions"][0]["selectableFields"]]
        for resource in RESOURCES
        if "selectableFields" in crd(resource)["spec"]["versions"][0]
    }
    assert selectable == {
        "BatchJob": [".spec.queue", ".status.state.phase"],
        "PodGroup": [".spec.queue", ".status.phase"],
    }
