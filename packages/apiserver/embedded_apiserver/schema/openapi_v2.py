"""The OpenAPI v2 document of the embedded API server: the schemas of all served kinds, made from the v3 documents.

kubectl and helm validate with it what the v3 documents do not describe (`kind: List`). They read its schemas only, so it has no
paths.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_V3_REFERENCE: Final = "#/components/schemas/"
_COPIED: Final = frozenset({
    "default", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "required", "title",
    "type", "uniqueItems",
})  # fmt: skip


def document(documents: Iterable[Mapping[str, Any]], version: str) -> dict[str, Any]:
    """One v2 document with the schemas of v3 documents; `version` is the served Kubernetes version."""
    definitions: dict[str, Any] = {}
    for source in documents:
        for name, schema in source["components"]["schemas"].items():
            if name not in definitions:
                definitions[name] = _schema(schema)
    return {
        "swagger": "2.0",
        "info": {"title": "embedded API server", "version": f"v{version}"},
        "paths": {},
        "definitions": dict(sorted(definitions.items())),
    }


def _schema(source: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without what v2 does not have: alternatives, nullable, and an `allOf` around a reference."""
    parts: list[Mapping[str, Any]] = source.get("allOf") or []
    reference = source.get("$ref") or (parts[0].get("$ref") if len(parts) == 1 else None)
    if reference:
        result: dict[str, Any] = {"$ref": "#/definitions/" + reference.removeprefix(_V3_REFERENCE)}
        if "description" in source:
            result["description"] = source["description"]
        return result
    result = {key: value for key, value in source.items() if key in _COPIED or key.startswith("x-kubernetes-")}
    if source.get("format") == "int-or-string":
        result["type"] = "string"
    elif source.get("x-kubernetes-int-or-string") or ("items" not in source and source.get("type") == "array"):
        # A schema without a type accepts any value.
        result.pop("type", None)
    if isinstance(source.get("items"), Mapping):
        result["items"] = _schema(source["items"])
    if isinstance(source.get("additionalProperties"), Mapping):
        result["additionalProperties"] = _schema(source["additionalProperties"])
    if "properties" in source:
        result["properties"] = {name: _schema(child) for name, child in source["properties"].items()}
    return result
