"""Structural schemas of built-in Kubernetes types, from the published definitions.

With them the API server validates the pod template of a BatchJob when the job is applied, and ``kubectl explain`` describes
its fields. The definitions come with the ``kubernetes-validate`` package; the Kubernetes version is fixed here, so that the
generated files do not depend on the release of that package.
"""

import json
import re
from functools import cache
from importlib import resources
from typing import Any

from volcanopy.api.model import QUANTITY_PATTERN, Json

KUBERNETES_VERSION = "v1.36.0"

_KEPT = ("format", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")

_EMBEDDED_METADATA: Json = {
    "type": "object",
    "description": "Metadata of the objects created from the template.",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
    },
}
_REQUIRED = {"io.k8s.api.core.v1.PodTemplateSpec": ["spec"]}
_SCALARS: dict[str, Json] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "x-kubernetes-int-or-string": True,
        "pattern": QUANTITY_PATTERN,
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "x-kubernetes-int-or-string": True,
    },
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": _EMBEDDED_METADATA,
}
# Constraints that the published definitions only describe in prose, and fields that templates must not have.
_ABSENT = {("io.k8s.api.core.v1.PodSpec", "ephemeralContainers")}
_ADDED: dict[tuple[str, str], Json] = {
    ("io.k8s.api.core.v1.PodSpec", "containers"): {"minItems": 1},
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): {"default": "TCP"},
    ("io.k8s.api.core.v1.LocalObjectReference", "name"): {"default": ""},
}


@cache
def _definitions() -> dict[str, Json]:
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"{KUBERNETES_VERSION}-local"
    definitions: dict[str, Json] = json.loads((folder / "_definitions.json").read_bytes())["$defs"]
    return definitions


def structural(name: str, described: int = 8) -> Json:
    """Return a definition, such as ``io.k8s.api.core.v1.PodTemplateSpec``, as a structural schema.

    References are inlined. The first sentence of each description is included for ``described`` levels of objects, because a
    custom resource definition must be smaller than the maximum size of annotations.
    """
    if name in _SCALARS:
        return _SCALARS[name]
    definition = _definitions()[name]
    return _described(_schema(definition, name, described), definition, described)


def _schema(source: Json, owner: str, described: int) -> Json:
    if "$ref" in source:
        return structural(source["$ref"].rsplit("/", 1)[1], described)
    kind = source.get("type", "object")
    if isinstance(kind, list):
        kind = next(name for name in kind if name != "null")
    schema: Json = {"type": kind} | {key: source[key] for key in _KEPT if key in source}
    if "properties" in source:
        if owner in _REQUIRED:
            schema["required"] = _REQUIRED[owner]
        schema["properties"] = {
            field: _described(_schema(of, owner, described - 1), of, described) | _ADDED.get((owner, field), {})
            for field, of in source["properties"].items()
            if (owner, field) not in _ABSENT
        }
    if "items" in source:
        schema["items"] = _schema(source["items"], owner, described - 1)
    if isinstance(source.get("additionalProperties"), dict):
        schema["additionalProperties"] = _schema(source["additionalProperties"], owner, described - 1)
    elif kind == "object" and "properties" not in source:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    return schema


def _described(schema: Json, source: Json, described: int) -> Json:
    plain = {key: value for key, value in schema.items() if key != "description"}
    text: Any = source.get("description") if described > 0 else None
    if not text:
        return plain
    return {"description": re.split(r"(?<=\w[.])\s", text.strip(), maxsplit=1)[0]} | plain
