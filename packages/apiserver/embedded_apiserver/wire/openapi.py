"""The OpenAPI v3 documents of the embedded API server: what `kubectl explain` reads and `kubectl apply` looks at.

`kubectl` leaves validation to the server where a kind's patch operation knows the parameter `fieldValidation`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from embedded_apiserver.kinds.kinds import Kind
from embedded_apiserver.schema.definitions import Definitions

Schema = dict[str, Any]
_COMPONENTS: Final = "#/components/schemas/"
_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


def root(group: str, version: str) -> str:
    """The path of a group and version, without the slash before it."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(group_versions: Iterable[tuple[str, str]], hash_of: Callable[[str, str], str]) -> dict[str, Any]:
    """The answer of /openapi/v3: where the document of each (group, version) is; the URL changes with the hash."""
    return {
        "paths": {
            root(group, version): {
                "serverRelativeURL": f"/openapi/v3/{root(group, version)}?hash={hash_of(group, version)}"
            }
            for group, version in group_versions
        }
    }


def document(group: str, version: str, kinds: Sequence[Kind], definitions: Definitions) -> dict[str, Any]:
    """The document of one group and version, with the schemas of its kinds and of all that they use."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Schema] = {}
    for kind in kinds:
        if (kind.group, kind.version) == (group, version):
            _add_schema(kind, definitions, schemas)
            path, operations = _path(kind)
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


def _path(kind: Kind) -> tuple[str, dict[str, Any]]:
    """The path of an object with its patch, the only operation that clients look at.

    kubectl sends a strategic patch where the operation lists it; custom resources reject those.
    """
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    types = [form for form in _PATCH_TYPES if kind.schema is None or "strategic" not in form]
    operation = {
        "operationId": f"patch{kind.group.title().replace('.', '')}{kind.version.title()}{kind.kind}",
        "parameters": _PARAMETERS,
        "requestBody": {"content": {form: {"schema": {"$ref": _COMPONENTS + _PATCH}} for form in types}},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind.gvk,
    }
    return f"/{root(kind.group, kind.version)}{scope}/{kind.plural}/{{name}}", {"patch": operation}


def _add_schema(kind: Kind, definitions: Definitions, schemas: dict[str, Schema]) -> None:
    """Add a kind's schema and what it refers to."""
    _add_definition(_PATCH, definitions, schemas)
    builtin = definitions.name_of(kind.group, kind.version, kind.kind)
    if kind.schema is None and builtin is not None:
        _add_definition(builtin, definitions, schemas)
        return
    _add_definition(_METADATA, definitions, schemas)
    name = f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"
    source = kind.schema or {"type": "object"}
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
        "x-kubernetes-group-version-kind": [kind.gvk],
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
