"""Fast check of well-formed built-in objects: their schema as msgspec types, checked in C.

`fits` answers whether an object has known fields of the right types only. Where it answers no, the slow check of
`definitions` decides and reports the errors.
"""

from functools import cache
from typing import Annotated, Any

import msgspec

from embedded_apiserver.schema.definitions import Definitions
from embedded_apiserver.store.object_store import Body

_SCALARS: dict[str, Any] = {"string": str, "boolean": bool, "number": float}
_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


def fits(definitions: Definitions, group: str, version: str, kind: str, body: Body) -> bool:
    """The object is surely well formed."""
    shape = _shape(definitions.kubernetes_version, group, version, kind)
    if shape is None:
        return False
    try:
        msgspec.convert(body, shape)
    except msgspec.ValidationError:
        return False
    return True


@cache
def _shape(_minor: str, group: str, version: str, kind: str) -> Any:
    schema = Definitions.load().schema(group, version, kind)
    return None if schema is None else _Shapes().of(schema)


class _Shapes:
    """Types of one kind's schema; a schema that contains itself is cut off by `Any` at the second sight."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._open: set[int] = set()
        self._count = 0

    def of(self, schema: dict[str, Any]) -> Any:
        made = self._made.get(id(schema))
        if made is None:
            if id(schema) in self._open:
                return msgspec.Raw  # never matches: the slow check decides
            self._open.add(id(schema))
            made = self._made[id(schema)] = self._build(schema)
            self._open.discard(id(schema))
        return made

    def _build(self, schema: dict[str, Any]) -> Any:
        kind = schema.get("type")
        if schema.get("x-kubernetes-int-or-string"):
            return str | int
        if isinstance(kind, list):
            return Annotated[str, msgspec.Meta(pattern=schema["pattern"])] | float if schema.get("pattern") else Any
        if schema.get("format") == "date-time":
            return _moment()
        if kind == "integer":
            return _INT32 if schema.get("format") == "int32" else _INT64
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            return _generic(list, self.of(schema["items"]) if schema.get("items") else Any)
        properties = schema.get("properties")
        if properties:
            self._count += 1
            fields = [(f"f{i}", self.of(child) | None, None) for i, child in enumerate(properties.values())]
            names = dict(zip((f"f{i}" for i in range(len(properties))), properties, strict=True))
            return msgspec.defstruct(f"Shape{self._count}", fields, rename=names, forbid_unknown_fields=True, gc=False)
        if schema.get("additionalProperties"):
            return _generic(dict, str, self.of(schema["additionalProperties"]))
        return Any


def _generic(origin: Any, *arguments: Any) -> Any:
    """`list[X]` of a type that is known at run time only."""
    return origin[arguments if len(arguments) > 1 else arguments[0]]


def _moment() -> Any:
    return Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")]
