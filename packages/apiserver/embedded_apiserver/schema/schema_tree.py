"""A structural schema as a tree of nodes, and what is done to an object before it is judged: pruning and defaulting.

Both walk the object once and copy only what they change.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from embedded_apiserver.field_errors import FieldPath, path_text

Json = Any
NO_DEFAULT: Final = object()
_ZERO: Final[Mapping[str, Json]] = {
    "string": "",
    "boolean": False,
    "integer": 0,
    "number": 0,
    "object": {},
    "array": [],
}
META: Final = frozenset({"apiVersion", "kind", "metadata"})
META_FIELDS: Final = frozenset({
    "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
    "generation", "labels", "managedFields", "name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid",
})  # fmt: skip


@dataclass(slots=True)
class SchemaNode:
    """One place of a schema. `source` is the schema text; the fields are what is asked often."""

    source: Mapping[str, Any]
    types: tuple[str, ...] = ()
    nullable: bool = False
    properties: dict[str, SchemaNode] = field(default_factory=dict)
    open: bool = False
    additional: SchemaNode | None = None
    items: SchemaNode | None = None
    default: Any = NO_DEFAULT
    preserve: bool = False
    embedded: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    defaulting: tuple[tuple[str, SchemaNode], ...] = ()
    has_defaults: bool = False
    has_rules: bool = False
    logic: Mapping[str, tuple[SchemaNode, ...]] = field(default_factory=dict)
    """The schemas of `allOf`, `anyOf`, `oneOf` and `not`."""

    def member(self, key: str) -> SchemaNode | None:
        """The schema of one member of an object."""
        return self.properties.get(key) or self.additional


def read_schema(source: Mapping[str, Any], known: dict[int, SchemaNode] | None = None) -> SchemaNode:
    """The tree of a structural schema (OpenAPI v3, as in a CustomResourceDefinition).

    With `known`, a schema that is one object in several places becomes one node, so a schema may contain itself.
    """
    if known is not None and id(source) in known:
        return known[id(source)]
    node = SchemaNode(source)
    if known is not None:
        known[id(source)] = node
    if source.get("x-kubernetes-int-or-string"):
        node.types = ("integer", "string")
    elif kind := source.get("type"):
        node.types = (kind,) if isinstance(kind, str) else tuple(name for name in kind if name != "null")
    node.nullable = bool(source.get("nullable"))
    node.properties = {name: read_schema(child, known) for name, child in (source.get("properties") or {}).items()}
    additional = source.get("additionalProperties")
    node.open = isinstance(additional, Mapping) or additional is True
    node.additional = read_schema(additional, known) if isinstance(additional, Mapping) else None
    items = source.get("items")
    node.items = read_schema(items, known) if isinstance(items, Mapping) else None
    node.default = NO_DEFAULT if source.get("default") is None else source["default"]
    node.preserve = bool(source.get("x-kubernetes-preserve-unknown-fields"))
    node.embedded = bool(source.get("x-kubernetes-embedded-resource"))
    node.list_type = source.get("x-kubernetes-list-type") or "atomic"
    node.list_keys = tuple(source.get("x-kubernetes-list-map-keys") or ())
    node.rules = tuple(source.get("x-kubernetes-validations") or ())
    logic = {word: source[word] for word in ("allOf", "anyOf", "oneOf") if source.get(word)}
    logic |= {"not": [source["not"]]} if source.get("not") else {}
    node.logic = {word: tuple(map(read_schema, parts)) for word, parts in logic.items()}
    children = [*node.properties.values(), *(child for child in (node.additional, node.items) if child)]
    node.has_defaults = any(child.has_defaults or child.default is not NO_DEFAULT for child in children)
    node.defaulting = tuple(
        (name, child)
        for name, child in node.properties.items()
        if child.has_defaults or child.default is not NO_DEFAULT
    )
    node.has_rules = bool(node.rules) or any(child.has_rules for child in children)
    return node


def drop_nulls(value: Json, node: SchemaNode | None) -> Json:
    """The value without the nulls that the schema neither allows nor has a default for."""
    if type(value) is dict:
        changed: dict[str, Json] | None = None
        for key, member in value.items():
            child = node.member(key) if node else None
            if member is None:
                if child and not child.nullable and child.default is NO_DEFAULT:
                    changed = dict(value) if changed is None else changed
                    del changed[key]
            elif type(member) is dict or type(member) is list:
                kept = drop_nulls(member, child)
                if kept is not member:
                    changed = dict(value) if changed is None else changed
                    changed[key] = kept
        return value if changed is None else changed
    if type(value) is list:
        kept_items = [drop_nulls(item, node.items if node else None) for item in value]
        return kept_items if any(new is not old for new, old in zip(kept_items, value, strict=True)) else value
    return value


def as_decoded(value: Json, node: SchemaNode | None) -> Json:
    """The value with its nulls as Go's decoder reads them into a built-in type: no field, or the zero value of an element."""
    if node is None:
        return value
    if type(value) is list:
        return [_element(item, node.items) for item in value]
    if type(value) is not dict:
        return value
    return {
        key: as_decoded(member, node.properties[key]) if key in node.properties else _element(member, node.additional)
        for key, member in value.items()
        if member is not None or key not in node.properties
    }


def _element(value: Json, node: SchemaNode | None) -> Json:
    """An element of a list or map; what has no schema stays as it is."""
    if value is not None or node is None or not node.types:
        return as_decoded(value, node)
    if len(node.types) > 1:  # a quantity, or a number or text
        return "0"
    return copy.copy(_ZERO[node.types[0]])


def default(value: Json, node: SchemaNode | None) -> Json:
    """The value with the schema's defaults where members are missing, or null without leave."""
    if node is None or not node.has_defaults:
        return value
    if type(value) is dict:
        return _default_map(value, node)
    if type(value) is list and node.items is not None:
        items = [default(_instead(item, node.items), node.items) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _instead(value: Json, node: SchemaNode) -> Json:
    if value is None and not node.nullable and node.default is not NO_DEFAULT:
        return copy.deepcopy(node.default)
    return value


def _default_map(value: dict[str, Json], node: SchemaNode) -> dict[str, Json]:
    result = value
    for key, child in node.defaulting:
        current = value.get(key, NO_DEFAULT)
        if current is NO_DEFAULT:
            if child.default is NO_DEFAULT:
                continue
            new = default(copy.deepcopy(child.default), child)
        else:
            new = default(_instead(current, child), child)
        if new is not current:
            result = dict(value) if result is value else result
            result[key] = new
    if node.additional is not None:
        for key, current in value.items():
            if key not in node.properties:
                new = default(_instead(current, node.additional), node.additional)
                if new is not current:
                    result = dict(value) if result is value else result
                    result[key] = new
    return result


def prune(value: Json, node: SchemaNode | None, steps: FieldPath, unknown: list[str]) -> Json:
    """The value without the fields that the schema does not know; their places are added to `unknown`.

    A field under `x-kubernetes-preserve-unknown-fields` is kept, but where the schema describes it, pruned inside.
    """
    if type(value) is list:
        keep = node is not None and node.preserve
        item = node.items if node else None
        if keep and item is None:
            return value
        items = [prune(entry, item, (*steps, index), unknown) for index, entry in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if type(value) is not dict:
        return value
    result = value
    for key, member in value.items():
        if node is not None and node.embedded and key in META:
            kept = _prune_metadata(member, (*steps, key), unknown) if key == "metadata" else member
            if kept is not member:
                result = dict(value) if result is value else result
                result[key] = kept
            continue
        child = node.properties.get(key) if node else None
        if child is not None or (node is not None and node.open):
            if type(member) is not dict and type(member) is not list:
                continue
            kept = prune(member, child or (node.additional if node else None), (*steps, key), unknown)
            if kept is member:
                continue
            result = dict(value) if result is value else result
            result[key] = kept
        elif node is None or not node.preserve:
            unknown.append(path_text((*steps, key)))
            result = dict(value) if result is value else result
            del result[key]
    return result


def _prune_metadata(value: Json, steps: FieldPath, unknown: list[str]) -> Json:
    """The metadata of an object without the fields that no metadata has."""
    if type(value) is not dict or META_FIELDS.issuperset(value):
        return value
    unknown.extend(path_text((*steps, key)) for key in value if key not in META_FIELDS)
    return {key: member for key, member in value.items() if key in META_FIELDS}
