"""The types of a pod template, as the schema of a BatchJob has them: an API server rejects what differs, and drops nulls."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from volcanopy.api.builtin.schemas import structural
from volcanopy.api.model import UNKNOWN_FIELD, Json, Problem

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_BITS = {"int32": 32}
"""Bits of the whole numbers of a format; others have 64."""


def template_problems(template: Any, path: str) -> Iterator[Problem]:
    """Yield the fields of a template that have a wrong type, are missing or unknown. ``path`` is that of the template."""
    return _of_type(template, _schema(), path)


@cache
def _schema() -> Json:
    return structural("io.k8s.api.core.v1.PodTemplateSpec", 0)


def _of_type(value: Any, schema: Json, path: str) -> Iterator[Problem]:
    """Yield what does not have the type that the schema of a pod template requires."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield Problem(path, "Invalid value: must be a quantity, or a number or text")
        return
    kind = str(schema.get("type", "object"))
    allowed = _TYPES[kind]
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        yield Problem(path, f"Invalid value: must be of type {kind}")
        return
    bits = _BITS.get(schema.get("format", ""), 64)
    if isinstance(value, int) and not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        yield Problem(path, f"Invalid value: must be a whole number of {bits} bits")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield Problem(path, "Required value")
        for number, item in enumerate(value):
            yield from _of_type(item, schema.get("items", {}), f"{path}[{number}]")
    elif isinstance(value, dict):
        properties, value_schema = schema.get("properties", {}), schema.get("additionalProperties")
        for field in schema.get("required", ()):
            if value.get(field) is None:
                yield Problem(f"{path}.{field}", "Required value")
        for field, item in value.items():
            if item is None and (field in properties or value_schema):
                continue
            if field in properties:
                yield from _of_type(item, properties[field], f"{path}.{field}")
            elif isinstance(value_schema, dict):
                yield from _of_type(item, value_schema, f"{path}[{field}]")
            elif properties:
                yield Problem(f"{path}.{field}", UNKNOWN_FIELD)
