"""Legal extremes of API objects: one field at a time of a valid object is set to an extreme of its type.

Fields and types come from the OpenAPI schemas of the server, so new fields are covered without a change here.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

Json = dict[str, Any]
Path = tuple[str | int, ...]

MAX_DEPTH = 12
QUANTITIES = ("0", "1n", "0.5", "8e15", "9E", "16E", "1e30", "-1", "9223372036854775807", "1Ei", "1.000000001")
INTEGERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
TEXTS = (
    "",
    "x",
    "a" * 253,
    "1h",
    "100%",
    "8e15",
    "9223372036854775807",
    "2100-01-01T00:00:00Z",
    "\x1b[31mred",
    "ä" * 60,
)
BASES: tuple[Json, ...] = (
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "schedulerName": "volcanopy",
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}}}],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        "spec": {},
        "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1", "pods": "9"}},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "spec": {
            "driver": "x.example.com",
            "nodeName": "node-1",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
        },
    },
    {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "Queue", "spec": {}},
    {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "PodGroup", "spec": {"minMember": 1}},
    {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "spec": {"tasks": []}},
    {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "CronBatchJob", "spec": {"schedule": "@yearly"}},
    {"apiVersion": "flow.volcanopy.io/v1alpha1", "kind": "JobTemplate", "spec": {"tasks": []}},
    {"apiVersion": "flow.volcanopy.io/v1alpha1", "kind": "JobFlow", "spec": {"flows": [{"name": "none"}]}},
    {"apiVersion": "bus.volcanopy.io/v1alpha1", "kind": "Command", "action": "AbortJob"},
    {"apiVersion": "topology.volcanopy.io/v1alpha1", "kind": "HyperNode", "spec": {"tier": 1, "members": []}},
    {"apiVersion": "nodeinfo.volcanopy.io/v1alpha1", "kind": "NumaTopology", "spec": {}},
)
_TASK: Json = {
    "name": "t",
    "replicas": 1,
    "template": {"spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]}},
}
for _base in BASES:
    if _base["kind"] in {"BatchJob", "JobTemplate"}:
        _base["spec"]["tasks"] = [_TASK]
    elif _base["kind"] == "CronBatchJob":
        _base["spec"]["jobTemplate"] = {"spec": {"tasks": [_TASK]}}
    elif _base["kind"] == "Command":
        _base["target"] = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "name": "x", "uid": "x"}
    elif _base["kind"] == "HyperNode":
        _base["spec"]["members"] = [{"type": "Node", "selector": {"exactMatch": {"name": "node-1"}}}]


@dataclass(frozen=True)
class Schemas:
    """The ``components.schemas`` of an OpenAPI v3 document."""

    schemas: Json

    def of_kind(self, kind: str) -> Json:
        """The schema of a kind."""
        for schema in self.schemas.values():
            if any(each["kind"] == kind for each in schema.get("x-kubernetes-group-version-kind", ())):
                return dict(schema)
        raise KeyError(kind)

    def resolved(self, schema: Json) -> Json:
        """The schema without reference; a single ``allOf`` is a reference with a default beside it."""
        reference = schema.get("$ref") or next((each.get("$ref") for each in schema.get("allOf", ())), None)
        return self.resolved(self.schemas[reference.rpartition("/")[2]]) if reference else schema

    def leaves(self, schema: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
        """Every field that is no object or list, with a key or an index where there may be many."""
        schema = self.resolved(schema)
        if len(path) > MAX_DEPTH:
            return
        if schema.get("properties"):
            for name, below in schema["properties"].items():
                if (
                    path
                    or name not in {"apiVersion", "kind", "status", "metadata"}
                    or (name == "status" and "Node" in str(path))
                ):
                    yield from self.leaves(below, (*path, name))
        elif schema.get("type") == "array":
            yield from self.leaves(schema["items"], (*path, 0))
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from self.leaves(schema["additionalProperties"], (*path, "cpu"))
        else:
            yield path, schema

    def minimal(self, schema: Json) -> Any:
        """A value with the required fields only."""
        schema = self.resolved(schema)
        if schema.get("enum"):
            return schema["enum"][0]
        if "default" in schema and schema["default"] not in ({}, ""):
            return schema["default"]
        match schema.get("type"):
            case "integer" | "number":
                return max(1, int(schema.get("minimum", 1)))
            case "boolean":
                return True
            case "array":
                return []
            case "string":
                return "x"
        fields = schema.get("properties", {})
        return {name: self.minimal(fields[name]) for name in schema.get("required", ()) if name in fields}

    def with_value(self, base: Json, schema: Json, path: Path, value: Any) -> Json:
        """The object with a value at a path; what is missing on the way gets its required fields."""
        made = deepcopy(base)
        target: Any = made
        for step, following in pairwise(path):
            schema = self.resolved(schema)
            if isinstance(step, int):
                schema = schema["items"]
            else:
                schema = schema.get("properties", {}).get(step) or schema["additionalProperties"]
            if isinstance(target, list):
                if not target:
                    target.append(self.minimal(schema))
                target = target[0]
            else:
                if target.get(step) is None:
                    target[step] = [] if isinstance(following, int) else self.minimal(schema)
                target = target[step]
        if isinstance(target, list):
            target[:] = [value]
        else:
            target[path[-1]] = value
        return made


def values(schema: Json) -> tuple[Any, ...]:
    """The extremes of a type."""
    if schema.get("enum"):
        return tuple(schema["enum"])
    if schema.get("x-kubernetes-int-or-string") or schema.get("oneOf") or schema.get("anyOf"):
        return (*QUANTITIES, *INTEGERS)
    match schema.get("type"):
        case "integer" | "number":
            bounds = [schema[key] for key in ("minimum", "maximum") if key in schema]
            return (*INTEGERS, *bounds)
        case "boolean":
            return (True, False)
        case "string":
            return (*TEXTS, *QUANTITIES)
    return ({}, {"a": 1}, [], "x", 0)


def objects(base: Json, schemas: Schemas, seed: int, count: int) -> Iterator[Json]:
    """Objects of the base's kind with one or two extreme fields, all different in their names; the same for a seed."""
    rng, schema = Random(f"{seed} {base['kind']}"), schemas.of_kind(base["kind"])
    leaves = list(schemas.leaves(schema))
    for number in range(count):
        made = base
        for path, leaf in rng.sample(leaves, rng.choice((1, 1, 2))):
            made = schemas.with_value(made, schema, path, rng.choice(values(leaf)))
        yield {**made, "metadata": {"name": f"x-{base['kind'].lower()}-{number}"}}
