"""The OpenAPI v3 documents of the embedded API server: what `kubectl explain` reads and `kubectl apply` looks at.

`kubectl` leaves validation to the server where a kind's patch operation knows the parameter `fieldValidation`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    subresources: tuple[str, ...] = ()
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
            paths.update(_paths(info, _add_schema(info, definitions, schemas)))
    return {
        "openapi": "3.0.0",
        "info": {"title": "embedded API server", "version": f"v{definitions.kubernetes_version}"},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _parameter(name: str, place: str, about: str) -> dict[str, Any]:
    parameter: dict[str, Any] = {
        "name": name,
        "in": place,
        "description": about,
        "schema": {"type": "string", "uniqueItems": True},
    }
    return {**parameter, "required": True} if place == "path" else parameter


_WRITE: Final = (
    _parameter("dryRun", "query", "`All` runs every check of the request, but stores nothing."),
    _parameter("fieldManager", "query", "The name under which the changed fields are owned."),
    _parameter("fieldValidation", "query", "What becomes of unknown and doubled fields: Ignore, Warn or Strict."),
)
_FORCE: Final = _parameter("force", "query", "With an apply: take over fields that others own.")
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)  # fmt: skip


def _operation(info: KindInfo, action: str, verb: str, parameters: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {
        "operationId": f"{verb}{info.group.title().replace('.', '')}{info.version.title()}{info.kind}",
        "parameters": list(parameters),
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": info.gvk,
    }


def _body(name: str, types: Sequence[str] = ("application/json", "application/yaml")) -> dict[str, Any]:
    return {"required": True, "content": {kind: {"schema": {"$ref": _COMPONENTS + name}} for kind in types}}


def _patch_types(info: KindInfo) -> list[str]:
    """The patch formats of a kind: kubectl sends a strategic one where it is listed; custom resources reject those."""
    return [kind for kind in _PATCH_TYPES if info.schema is None or "strategic" not in kind]


def _paths(info: KindInfo, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The collection and the object of a kind, its status and scale, each with its operations."""
    root = f"/{_root(info.group, info.version)}"
    scope = "/namespaces/{namespace}" if info.namespaced else ""
    shared = [_parameter("namespace", "path", "The namespace of the object.")] if info.namespaced else []
    yield (
        f"{root}{scope}/{info.plural}",
        {
            "get": _operation(info, "list", "list"),
            "post": {**_operation(info, "post", "create", _WRITE), "requestBody": _body(name)},
            "delete": _operation(info, "deletecollection", "deleteCollection", _WRITE[:1]),
            "parameters": shared,
        },
    )
    shared = [_parameter("name", "path", "The name of the object."), *shared]
    for suffix in ("", *(f"/{part}" for part in info.subresources if part == "status")):
        operations = {
            "get": _operation(info, "get", "read"),
            "put": {**_operation(info, "put", "replace", _WRITE), "requestBody": _body(name)},
            "patch": {
                **_operation(info, "patch", "patch", (*_WRITE, _FORCE)),
                "requestBody": _body("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", _patch_types(info)),
            },
            "parameters": shared,
        }
        if not suffix:
            operations["delete"] = _operation(info, "delete", "delete", _WRITE[:1])
        yield f"{root}{scope}/{info.plural}/{{name}}{suffix}", operations


def _add_schema(info: KindInfo, definitions: Definitions, schemas: dict[str, Schema]) -> str:
    """Add a kind's schema and what it refers to; its component's name."""
    _add_definition("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", definitions, schemas)
    builtin = definitions.name_of(info.group, info.version, info.kind)
    if info.schema is None and builtin is not None:
        _add_definition(builtin, definitions, schemas)
        return builtin
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
    return name


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
