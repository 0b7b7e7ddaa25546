"""The entries of `metadata.managedFields`, and the message of a conflict between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from embedded_apiserver.apply.field_sets import ANY, FieldSet, Schema

Json = Any
Object = dict[str, Any]

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_METADATA: Final = {
    "type": "object",
    "properties": {
        "annotations": _TEXTS,
        "labels": _TEXTS,
        "generateName": _TEXT,
        "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
    },
}
# Fields that the server sets have no manager.
UNOWNED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{name}": {}
            for name in (
                "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
                "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds",
            )
        },
    },
}  # fmt: skip


class Conflict(NamedTuple):
    """One field that another manager owns with another value."""

    manager: str
    path: str


class ApplyConflict(ValueError):
    """An apply that would take fields from other managers; the text is the real server's message."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        self.conflicts = conflicts
        if len(conflicts) == 1:
            text = f"conflict with {conflicts[0].manager}: {conflicts[0].path}"
        else:
            lines = []
            for manager in sorted({conflict.manager for conflict in conflicts}):
                lines.append(f"conflicts with {manager}:")
                lines += [f"- {conflict.path}" for conflict in conflicts if conflict.manager == manager]
            text = "\n".join(lines)
        plural = "" if len(conflicts) == 1 else "s"
        super().__init__(f"Apply failed with {len(conflicts)} conflict{plural}: {text}")

    @property
    def paths(self) -> set[str]:
        """The fields in question."""
        return {conflict.path for conflict in self.conflicts}

    @property
    def causes(self) -> list[dict[str, str]]:
        """The causes of the Status object that a server answers with."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {conflict.manager}", "field": conflict.path}
            for conflict in self.conflicts
        ]


class ManagedFieldsEntry(NamedTuple):
    """One entry of managedFields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    def to_json(self) -> dict[str, Any]:
        """The entry as an object carries it."""
        entry: dict[str, Any] = {"apiVersion": self.api_version, "fieldsType": "FieldsV1", "fieldsV1": self.fields}
        entry |= {"manager": self.manager, "operation": self.operation}
        if self.subresource:
            entry["subresource"] = self.subresource
        return {**entry, "time": self.time} if self.time else entry

    def is_of(self, other: ManagedFieldsEntry) -> bool:
        """Whether this entry is of the same manager, doing the same thing to the same part."""
        return (self.manager, self.operation, self.subresource) == (other.manager, other.operation, other.subresource)

    @property
    def shown(self) -> str:
        """The manager as a conflict names it."""
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == "Update":
            text += f" using {self.api_version}"
        return text


def ownable(fields: FieldSet) -> FieldSet:
    """The set without the fields that the server sets; cheaper than `difference`, since every write needs it."""
    owned = {key: below for key, below in fields.items() if key not in UNOWNED}
    if metadata := fields.get("f:metadata"):
        owned["f:metadata"] = {key: below for key, below in metadata.items() if key not in UNOWNED["f:metadata"]}
        if not owned["f:metadata"]:
            del owned["f:metadata"]
    return owned


def entries_of(obj: Mapping[str, Json] | None) -> list[ManagedFieldsEntry]:
    """The entries that an object carries; an empty one, which forgets all, is none."""
    if not obj:
        return []
    return [
        ManagedFieldsEntry(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
            entry.get("time", ""),
            entry.get("fieldsV1") or {},
        )
        for entry in (obj.get("metadata") or {}).get("managedFields") or ()
        if entry.get("manager") is not None or entry.get("operation")
    ]


def with_entries(obj: Object, entries: list[ManagedFieldsEntry]) -> Object:
    """The object with these entries, in the order of a real server; those that own nothing are left out."""
    kept = [entry for entry in entries if entry.fields]
    kept.sort(key=lambda entry: (entry.operation, entry.time, entry.manager, entry.subresource))
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key != "managedFields"}
    if kept:
        metadata["managedFields"] = [entry.to_json() for entry in kept]
    return {**obj, "metadata": metadata}


_ROOTS: Final[dict[int, tuple[Schema | None, Schema]]] = {}


def root_schema(schema: Schema | None) -> Schema:
    """The schema with the metadata of every object added; cached, since every write needs it."""
    known = _ROOTS.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    if len(_ROOTS) > 1000:
        _ROOTS.clear()
    root = _make_root(schema)
    _ROOTS[id(schema)] = (schema, root)
    return root


def _make_root(schema: Schema | None) -> Schema:
    properties = {**((schema or {}).get("properties") or {}), "metadata": _METADATA}
    return {**(schema or ANY), "properties": properties}


def bare(obj: Mapping[str, Json]) -> Object:
    """The object without its managed fields."""
    metadata = obj.get("metadata") or {}
    if "managedFields" not in metadata:
        return dict(obj)
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
