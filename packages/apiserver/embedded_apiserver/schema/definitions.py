"""The published schemas of Kubernetes' built-in kinds, from the installed `kubernetes_validate` package.

They define which fields a built-in kind has, which type each is, and how its lists merge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from embedded_apiserver.schema.formats import INTEGER_RANGES, matcher, parse_timestamp
from embedded_apiserver.schema.schema_tree import SchemaNode, as_decoded, prune, read_schema

Json = Any
PREFERRED_MINOR: Final = "1.36"
QUANTITY: Final = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_CRD: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_ANYTHING: Final = {"x-kubernetes-preserve-unknown-fields": True}
# Types that write themselves to JSON in their own way, so that their published schema is incomplete.
_OWN_FORMS: Final[dict[str, dict[str, Any]]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "x-kubernetes-int-or-string": True,
        "title": "intstr.IntOrString",
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["integer", "number", "string"], "pattern": QUANTITY},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", **_ANYTHING},
    f"{_META}FieldsV1": {"type": "object", **_ANYTHING},
    f"{_META}Time": {"type": "string", "format": "date-time"},
    f"{_META}MicroTime": {"type": "string", "format": "date-time"},
    f"{_CRD}JSON": _ANYTHING,
    f"{_CRD}JSONSchemaPropsOrArray": _ANYTHING,
    f"{_CRD}JSONSchemaPropsOrBool": _ANYTHING,
    f"{_CRD}JSONSchemaPropsOrStringArray": _ANYTHING,
}
_KEPT: Final = frozenset({
    "type", "format", "items", "properties",
    "additionalProperties", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type", "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy", "x-kubernetes-group-version-kind",
})  # fmt: skip


_PORTS: Final = frozenset({"ContainerPort", "ServicePort"})


@dataclass(slots=True)
class Definitions:
    """All definitions of one Kubernetes minor; a kind's schema is resolved at its first use."""

    kubernetes_version: str
    raw: Mapping[str, dict[str, Any]]
    _names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _resolved: dict[str, dict[str, Any]] = field(default_factory=dict)
    _nodes: dict[int, SchemaNode] = field(default_factory=dict)

    @classmethod
    def load(cls) -> Definitions:
        """The definitions of the preferred minor, else of the newest that is installed; read once per process."""
        return _load()

    def name_of(self, group: str, version: str, kind: str) -> str | None:
        """The definition's name, `io.k8s.api.core.v1.Pod`; None for a kind that is not built in."""
        return self._names.get((group, version, kind))

    def schema(self, group: str, version: str, kind: str) -> dict[str, Any] | None:
        """A kind's schema with all references resolved (it may contain itself); None where it is not built in."""
        name = self.name_of(group, version, kind)
        return None if name is None else self._resolve_all(name)

    def prune(self, group: str, version: str, kind: str, obj: Json) -> tuple[Json, list[str]]:
        """The object without unknown fields and nulls, and the paths of the unknown fields, sorted."""
        node = self._node(group, version, kind)
        if node is None:
            return obj, []
        unknown: list[str] = []
        pruned = prune(as_decoded(obj, node), node, (), unknown)
        return pruned, sorted(unknown)

    def as_decoded(self, group: str, version: str, kind: str, obj: Json) -> Json:
        """The object without nulls."""
        return as_decoded(obj, self._node(group, version, kind))

    def metadata_as_decoded(self, metadata: Json) -> Json:
        """The metadata of any object, built in or not, without nulls."""
        return as_decoded(metadata, read_schema(self._resolve_all(f"{_META}ObjectMeta"), self._nodes))

    def type_errors(self, group: str, version: str, kind: str, obj: Json) -> list[str]:
        """The first decoding error, worded as by a real API server."""
        node = self._node(group, version, kind)
        fault = None if node is None else _first_fault(node, obj, kind, ())
        return [fault] if fault else []

    def metadata_errors(self, metadata: Json) -> list[str]:
        """The same for the metadata of any object, built in or not."""
        schema = self._resolve_all(f"{_META}ObjectMeta")
        fault = _first_fault(read_schema(schema, self._nodes), metadata, "ObjectMeta", ("metadata",))
        return [fault] if fault else []

    def _node(self, group: str, version: str, kind: str) -> SchemaNode | None:
        schema = self.schema(group, version, kind)
        return None if schema is None else read_schema(schema, self._nodes)

    def _resolve_all(self, name: str) -> dict[str, Any]:
        resolved = self._resolved.get(name)
        if resolved is None:
            extended: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = []
            resolved = self._resolve(name, extended)
            for target, base, extras in extended:
                target.update({**base, **extras})
        return resolved

    def _resolve(
        self, name: str, extended: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]
    ) -> dict[str, Any]:
        resolved = self._resolved.get(name)
        if resolved is None:
            resolved = self._resolved[name] = {}
            form = _OWN_FORMS.get(name)
            resolved.update(self._link(self.raw[name], extended) if form is None else form)
            resolved.setdefault("title", name.rpartition(".")[2])
            if resolved["title"] in _PORTS:
                # The default is published as prose only, and it is part of the key of a port.
                resolved["properties"]["protocol"] = {"type": "string", "default": "TCP"}
        return resolved

    def _link(
        self, source: Mapping[str, Any], extended: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]
    ) -> dict[str, Any]:
        """A schema without what plays no part in decoding and merging, its references replaced by what they name."""
        extras = {key: value for key, value in source.items() if key in _KEPT}
        if "$ref" in source:
            base = self._resolve(source["$ref"].rpartition("/")[2], extended)
            if not extras:
                return base
            wrapper: dict[str, Any] = {}
            extended.append((wrapper, base, extras))
            return wrapper
        if isinstance(kinds := extras.get("type"), list):
            plain = [kind for kind in kinds if kind != "null"]
            extras["type"] = plain[0] if len(plain) == 1 else plain
        if properties := source.get("properties"):
            extras["properties"] = {key: self._link(child, extended) for key, child in properties.items()}
        for key in ("items", "additionalProperties"):
            if isinstance(source.get(key), Mapping):
                extras[key] = self._link(source[key], extended)
        if not extras:
            return dict(_ANYTHING)
        return extras


@cache
def _load() -> Definitions:
    # Found, not imported: importing the package would load a JSON schema library that is not needed here.
    package = find_spec("kubernetes_validate")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("the package kubernetes-validate is not installed: pip install kubernetes-validate")
    index = Path(package.submodule_search_locations[0]) / "kubernetes-json-schema"
    installed = sorted(
        (tuple(int(part) for part in match.groups()), entry)
        for entry in index.iterdir()
        if (match := re.fullmatch(r"v(\d+)\.(\d+)\.(\d+)-local", entry.name))
    )
    preferred = [entry for entry in installed if f"{entry[0][0]}.{entry[0][1]}" == PREFERRED_MINOR]
    version, folder = (preferred or installed)[-1]
    text = (folder / "_definitions.json").read_bytes()
    raw: dict[str, dict[str, Any]] = msgspec.json.decode(text)["$defs"]
    names = {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in raw.items()
        for gvk in schema.get("x-kubernetes-group-version-kind") or ()
    }
    return Definitions(".".join(str(part) for part in version), raw, names)


_GO_TYPES: Final = {"string": "string", "boolean": "bool", "number": "float64", "integer": "int64"}


def _go_type(node: SchemaNode) -> str:
    """How Go calls the type of a field."""
    kind = node.types[0] if node.types else ""
    if kind == "integer":
        return str(node.source.get("format") or "int64")
    if kind == "array":
        return f"[]{_go_type(node.items)}" if node.items else "[]interface {}"
    if kind == "object" and node.additional is not None:
        return f"map[string]{_go_type(node.additional)}"
    return _GO_TYPES.get(kind) or f"v1.{node.source.get('title', 'Object')}"


def _json_word(value: Json) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _first_fault(node: SchemaNode, value: Json, struct: str, steps: tuple[str, ...]) -> str | None:
    """The first place whose value Go's decoder rejects; null is valid everywhere."""
    if value is None or not node.types:
        return None
    kind = node.types[0]
    if len(node.types) > 1 or kind in _GO_TYPES:
        return _scalar_fault(node, value, struct, steps)
    if not isinstance(value, dict if kind == "object" else list):
        return _mismatch(node, value, struct, steps)
    if isinstance(value, list):
        if node.items is not None:
            for entry in value:
                if fault := _first_fault(node.items, entry, struct, steps):
                    return fault
        return None
    struct = str(node.source.get("title") or struct)
    for key, member in value.items():
        # Go's decoder names the members of structs in the path, but not the keys of maps.
        child, inner = (node.properties[key], (*steps, key)) if key in node.properties else (node.additional, steps)
        if child is not None and (fault := _first_fault(child, member, struct, inner)):
            return fault
    return None


def _mismatch(node: SchemaNode, value: Json, struct: str, steps: tuple[str, ...]) -> str:
    where = f"Go struct field {struct}.{'.'.join(steps)}" if steps else "Go value"
    shown = (
        f"{_json_word(value)} {value}"
        if _json_word(value) == "number" and node.types[0] == "integer"
        else _json_word(value)
    )
    return f"json: cannot unmarshal {shown} into {where} of type {_go_type(node)}"


def _scalar_fault(node: SchemaNode, value: Json, struct: str, steps: tuple[str, ...]) -> str | None:
    word = _json_word(value)
    match node.types:
        case ("string",):
            right = word == "string"
            if right and node.source.get("format") == "date-time" and parse_timestamp(value) is None:
                return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
        case ("boolean",):
            right = word == "bool"
        case ("integer",):
            low, high = INTEGER_RANGES.get(node.source.get("format", ""), INTEGER_RANGES["int64"])
            right = word == "number" and float(value).is_integer() and low <= value <= high
        case _:
            right = word in ("string", "number")
            expression = node.source.get("pattern")
            if word == "string" and expression and not matcher(expression)(value):
                return f"quantities must match the regular expression '{expression}'"
    return None if right else _mismatch(node, value, struct, steps)
