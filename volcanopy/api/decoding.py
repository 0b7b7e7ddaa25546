"""Decoding of JSON into read models, in which null is the same as an absent field, as in Go.

A kubelet writes `null` for each empty list without `omitempty` (`status.images[].names`, `spec.drivers` of a CSINode). Decoding
tries the object as it is first: what has no null where the model allows none costs nothing more.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

T = TypeVar("T")
_MOST_FAULTS = 20
"""Fields that are left out of an object before it counts as unreadable as a whole."""
_STEP = re.compile(r"\.([^.\[\]`]+)|\[(\d+)\]")


def decode(body: bytes | str | msgspec.Raw, shape: type[T]) -> T:
    """Return the object of a JSON text. Raises msgspec.ValidationError when it does not match the type."""
    try:
        return cast("T", decoder(cast("Any", shape)).decode(body))
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(body), shape), shape)


def convert(value: Any, shape: type[T]) -> T:
    """Return the object of decoded JSON. Raises msgspec.ValidationError when it does not match the type."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(value, shape), shape)


def readable_part(body: bytes | msgspec.Raw, shape: type[T]) -> T | None:
    """Return the object without the members that do not match the type, None if its metadata or too many do not."""
    value = without_nulls(msgspec.json.decode(body), shape)
    for _ in range(_MOST_FAULTS):
        try:
            return msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            _, _, where = str(error).partition(" - at `$")
            path = [int(index) if index else name for name, index in _STEP.findall(where.partition("[...]")[0])]
            if not path or path[0] == "metadata":
                return None
            _remove(value, path)
    return None


def _remove(value: Any, path: list[str | int]) -> None:
    for step in path[:-1]:
        value = value[step]
    del value[path[-1]]


@cache
def decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type, created once."""
    return msgspec.json.Decoder(shape)


def without_nulls(value: Any, shape: Any) -> Any:
    """Return decoded JSON without the fields and entries that are null where the type has no null."""
    return _cleaner(shape)(value)


@cache
def _cleaner(shape: Any) -> Callable[[Any], Any]:
    return _of_type(inspect.type_info(shape))


def _of_type(kind: inspect.Type) -> Callable[[Any], Any]:
    """Return the function that cleans the values of a type. Types are trees: no read model contains itself."""
    match kind:
        case inspect.StructType(fields=fields):
            members = {field.encode_name: (_of_type(field.type), _has_null(field.type)) for field in fields}
            return lambda value: _mapping(value, lambda name: members.get(name, (_unchanged, True)))
        case inspect.DictType(value_type=item):
            entry = (_of_type(item), _has_null(item))
            return lambda value: _mapping(value, lambda _: entry)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) | inspect.SetType(item_type=item):
            clean = _of_type(item)
            return lambda value: [clean(element) for element in value] if isinstance(value, list | tuple) else value
        case inspect.UnionType(types=types):
            structured = [type_ for type_ in types if isinstance(type_, _STRUCTURED)]
            return _of_type(structured[0]) if len(structured) == 1 else _unchanged
        case inspect.Metadata(type=inner):
            return _of_type(inner)
    return _unchanged


_STRUCTURED = inspect.StructType | inspect.DictType | inspect.ListType | inspect.VarTupleType


def _has_null(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(map(_has_null, kind.types))
    return isinstance(kind, inspect.NoneType | inspect.AnyType | inspect.RawType)


def _mapping(value: Any, field: Callable[[str], tuple[Callable[[Any], Any], bool]]) -> Any:
    if not isinstance(value, dict):
        return value
    cleaned = {}
    for name, content in value.items():
        clean, has_null = field(name)
        if content is not None or has_null:
            cleaned[name] = clean(content)
    return cleaned


def _unchanged(value: Any) -> Any:
    return value
