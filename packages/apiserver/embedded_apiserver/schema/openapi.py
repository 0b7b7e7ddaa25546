"""The OpenAPI v3 documents of the embedded API server: what `kubectl explain` reads and `kubectl apply` looks at.

`kubectl` leaves validation to the server where a kind's patch operation knows the parameter `fieldValidation`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from embedded_apiserver.schema.definitions import Definitions

Schema = dict[str, Any]
_COMPONENTS: Final = "#/components/schemas/"
_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


@dataclass(frozen=True, slots=True)
class KindInfo:
    """One served kind; `schema` is the openAPIV3Schema of a custom resource, None for a built-in kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    schema: Mapping[str, Any] | None = None

    @property
    def gvk(self) -> dict[str, str]:
        """The kind as extensions name it."""
        return {"group": self.group, "version": self.version, "kind": self.kind}


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(group_versions: Iterable[tuple[str, str]], hash_of: Callable[[str, str], str]) -> dict[str, Any]:
    """The answer of /openapi/v3: where the document of each (group, version) is; the URL changes with the hash."""
    return {
        "paths": {
            _root(group, version): {
                "serverRelativeURL": f"/openapi/v3/{_root(group, version)}?hash={hash_of(group, version)}"
            }
            for group, version in group_versions
        }
    }


def document(group: str, version: str, kinds: Sequence[KindInfo], definitions: Definitions) -> dict[str, Any]:
    """The document of one group and version, with the schemas of its kinds and of all that they use."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Schema] = {}
    for info in kinds:
        if (info.group, info.version) == (group, version):
            _add_schema(info, definitions, schemas)
            path, operations = _path(info)
            paths[path] = operations
    return {
        "openapi": "3.0.0",
        "info": {"title": "embedded API server", "version": f"v{definitions.kubernetes_version}"},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)  # fmt: skip
_PATCH: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"


def _path(info: KindInfo) -> tuple[str, dict[str, Any]]:
    """The path of an object with its patch, the only operation that clients look at.

    kubectl sends a strategic patch where the operation lists it; custom resources reject those.
    """
    scope = "/namespaces/{namespace}" if info.namespaced else ""
    types = [kind for kind in _PATCH_TYPES if info.schema is None or "strategic" not in kind]
    operation = {
        "operationId": f"patch{info.group.title().replace('.', '')}{info.version.title()}{info.kind}",
        "parameters": _PARAMETERS,
        "requestBody": {"content": {kind: {"schema": {"$ref": _COMPONENTS + _PATCH}} for kind in types}},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": info.gvk,
    }
    return f"/{_root(info.group, info.version)}{scope}/{info.plural}/{{name}}", {"patch": operation}


def _add_schema(info: KindInfo, definitions: Definitions, schemas: dict[str, Schema]) -> None:
    """Add a kind's schema and what it refers to."""
    _add_definition(_PATCH, definitions, schemas)
    builtin = definitions.name_of(info.group, info.version, info.kind)
    if info.schema is None and builtin is not None:
        _add_definition(builtin, definitions, schemas)
        return
    _add_definition(_METADATA, definitions, schemas)
    name = f"{'.'.join(reversed(info.group.split('.')))}.{info.version}.{info.kind}"
    source = info.schema or {"type": "object"}
    texts = definitions.raw["io.k8s.api.core.v1.ConfigMap"]["properties"]
    properties = {
        **(source.get("properties") or {}),
        "apiVersion": {"type": "string", "description": texts["apiVersion"]["description"]},
        "kind": {"type": "string", "description": texts["kind"]["description"]},
        "metadata": {"allOf": [{"$ref": _COMPONENTS + _METADATA}], "description": texts["metadata"]["description"]},
    }
    schemas[name] = {
        **source,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [info.gvk],
    }


def _add_definition(name: str, definitions: Definitions, schemas: dict[str, Schema]) -> None:
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in schemas:
            continue
        if current == _INT_OR_STRING:
            schemas[current] = {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}
            continue
        schemas[current] = _converted(definitions.raw[current], waiting)
        if gvk := definitions.raw[current].get("x-kubernetes-group-version-kind"):
            schemas[current]["x-kubernetes-group-version-kind"] = gvk


def _converted(source: Mapping[str, Any], used: list[str]) -> Schema:
    """A published definition in the dialect of OpenAPI v3; the definitions that it refers to are added to `used`."""
    result: Schema = {}
    for key, value in source.items():
        match key:
            case "$ref":
                target = str(value).rpartition("/")[2]
                used.append(target)
                result["allOf"] = [{"$ref": _COMPONENTS + target}]
            case "type":
                kinds = [kind for kind in value if kind != "null"] if isinstance(value, list) else [value]
                result["type"] = kinds[0]
            case "properties":
                result["properties"] = {name: _converted(child, used) for name, child in value.items()}
            case "items" | "additionalProperties" if isinstance(value, Mapping):
                child = _converted(value, used)
                # A bare reference is written as one: items of a list are never described a second time.
                result[key] = child["allOf"][0] if list(child) == ["allOf"] else child
            case "oneOf" | "anyOf":
                result[key] = [_converted(child, used) for child in value]
            case "enum" | "x-kubernetes-group-version-kind" | "additionalProperties":
                continue
            case _:
                result[key] = value
    return result
