"""Tables as `kubectl get` shows them: `meta.k8s.io/v1` Table objects from columns and objects.

Built-in kinds have their own columns, custom resources those of their definition.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from embedded_apiserver.field_errors import go_number
from embedded_apiserver.schema.formats import parse_timestamp
from embedded_apiserver.schema.json_path import compile_path
from embedded_apiserver.wire.columns import AGE, NAME, Column, age_since

Json = Any


def crd_columns(version_spec: Mapping[str, Any]) -> list[Column]:
    """The columns of one version of a CustomResourceDefinition; without any of its own, name and age.

    Raises JsonPathError for a column whose path cannot be understood.
    """
    own = version_spec.get("additionalPrinterColumns")
    if not own:
        age = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": AGE.description}
        return [NAME, _crd_column(age)]
    return [NAME, *(_crd_column(column) for column in own)]


def _crd_column(column: Mapping[str, Any]) -> Column:
    kind = str(column.get("type", "string"))
    path = str(column["jsonPath"])
    find = compile_path(path)

    def cell(obj: Mapping[str, Any], now: datetime) -> Json:
        values = find(obj)
        return _custom_cell(kind, values[0], now) if values else None

    about = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(str(column["name"]), cell, kind, column.get("format", ""), about, int(column.get("priority", 0)))


def _custom_cell(kind: str, value: Json, now: datetime) -> Json:
    """A value as a cell of a column of this type; None where it is of another type."""
    match kind, value:
        case "string", _:
            return _printed(value)
        case _, None:
            return None
        case "date", str():
            return age_since(value, now) if parse_timestamp(value) else "<invalid>"
        case "boolean", bool():
            return value
        case "integer" | "number", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return value
    return None


def _printed(value: Json) -> str:
    match value:
        case None:
            return "<nil>"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return go_number(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def table(
    columns: Sequence[Column],
    objects: Iterable[Mapping[str, Any]],
    *,
    include: str = "Metadata",
    list_meta: Mapping[str, Any] | None = None,
    now: datetime,
) -> dict[str, Any]:
    """A Table of objects; `include` selects what each row contains: `Metadata`, `Object` or `None`."""
    rows = []
    for obj in objects:
        row: dict[str, Any] = {"cells": [column.cell(obj, now) for column in columns]}
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj.get("metadata") or {},
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(list_meta or {}),
        "columnDefinitions": [column.definition() for column in columns],
        "rows": rows,
    }
