"""Predicates of schemas: whether a value is valid, compiled to closures without paths or messages.

Most values are valid and cost no more than this. `validation` walks an invalid value again and reports its errors; a test
compares the two.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from embedded_apiserver.schema.formats import FORMATS, INTEGER_RANGES, matcher
from embedded_apiserver.schema.schema_tree import SchemaNode, read_schema

Json = Any
Check = Callable[[Any], bool]


def json_type(value: Json) -> str:
    """The JSON schema type of a value; a float is a number even where it is whole."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
    return "object"


def has_type(value: Json, types: tuple[str, ...]) -> bool:
    """Whether the value is of one of these types (none means any)."""
    if not types:
        return True
    kind = json_type(value)
    if kind in types:
        return True
    if kind == "integer":
        return "number" in types
    return kind == "number" and "integer" in types and float(value).is_integer()


def compile_check(node: SchemaNode) -> Check | None:
    """The predicate of a schema; None where it allows everything."""
    checks = [_type_check(node.types)] if node.types and node.types not in (("object",), ("array",)) else []
    checks += _scalar_checks(node)
    if (array := _array_check(node)) is not None:
        checks.append(array)
    if (mapping := _object_check(node)) is not None:
        checks.append(mapping)
    checks += _logic_checks(node)
    if not checks:
        return None
    judge = checks[0] if len(checks) == 1 else _every(tuple(checks))
    if node.nullable and not node.source.get("enum"):
        return lambda value: value is None or judge(value)
    return judge


def _every(checks: tuple[Check, ...]) -> Check:
    if len(checks) == 2:
        first, second = checks
        return lambda value: first(value) and second(value)

    def judge(value: Json) -> bool:
        for check in checks:  # noqa: SIM110 - a loop is twice as fast as all() over a generator here
            if not check(value):
                return False
        return True

    return judge


def _type_check(types: tuple[str, ...]) -> Check:
    match types:
        case ("string",):
            return lambda value: type(value) is str
        case ("integer",):
            return lambda value: type(value) is int or (type(value) is float and value.is_integer())
        case ("boolean",):
            return lambda value: type(value) is bool
        case ("integer", "string"):
            return lambda value: type(value) is str or type(value) is int
    return lambda value: has_type(value, types)


def _scalar_checks(node: SchemaNode) -> list[Check]:
    source = node.source
    checks: list[Check] = []
    if enum := source.get("enum"):
        checks.append(lambda value: any(same(value, allowed) for allowed in enum))
    if bounds := bounds_of(node):
        checks.append(lambda value: in_bounds(value, bounds))
    low, high = source.get("minLength"), source.get("maxLength")
    if low is not None or high is not None:
        checks.append(
            lambda value: (
                type(value) is not str or ((low is None or len(value) >= low) and (high is None or len(value) <= high))
            )
        )
    if expression := source.get("pattern"):
        matches = matcher(expression)
        checks.append(lambda value: type(value) is not str or matches(value))
    if (form := format_of(node)) is not None:
        checks.append(lambda value: type(value) is not str or form(value))
    return checks


def same(value: Json, allowed: Json) -> bool:
    """Equality as JSON knows it: true is not 1."""
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def format_of(node: SchemaNode) -> Check | None:
    """The predicate of a text's format, None where it has none that is known."""
    return FORMATS.get(node.source.get("format", "")) if node.types in ((), ("string",)) else None


Bounds = tuple[float | None, float | None, bool, bool, float | None, tuple[int, int] | None]


def bounds_of(node: SchemaNode) -> Bounds | None:
    """What limits a number, None where nothing does."""
    source = node.source
    limits = INTEGER_RANGES.get(source.get("format", "")) if "integer" in node.types else None
    low, high, multiple = source.get("minimum"), source.get("maximum"), source.get("multipleOf")
    if low is None and high is None and multiple is None and limits is None:
        return None
    return low, high, bool(source.get("exclusiveMinimum")), bool(source.get("exclusiveMaximum")), multiple, limits


def in_bounds(value: Json, bounds: Bounds) -> bool:
    """Whether a number keeps within its limits; anything else does."""
    if type(value) is not int and type(value) is not float:
        return True
    low, high, above, below, multiple, limits = bounds
    if low is not None and (value < low or (above and value == low)):
        return False
    if high is not None and (value > high or (below and value == high)):
        return False
    if limits is not None and not limits[0] <= value <= limits[1]:
        return False
    return multiple is None or value % multiple == 0


def _array_check(node: SchemaNode) -> Check | None:
    source = node.source
    strict = node.types == ("array",)
    low, high = source.get("minItems"), source.get("maxItems")
    item = compile_check(node.items) if node.items else None
    unique = node.list_type in ("set", "map") or source.get("uniqueItems")
    if not strict and low is None and high is None and item is None and not unique:
        return None

    def judge(value: Json) -> bool:
        if type(value) is not list:
            return not strict
        if low is not None and len(value) < low:
            return False
        if high is not None and len(value) > high:
            return False
        if item is not None:
            for entry in value:
                if not item(entry):
                    return False
        return not unique or len(value) < 2 or not any(repeated(value, node))

    return judge


def required_members(node: SchemaNode) -> tuple[str, ...]:
    """The required members of an object; an embedded resource needs apiVersion and kind."""
    named = tuple(node.source.get("required") or ())
    return (*named, "apiVersion", "kind") if node.source.get("x-kubernetes-embedded-resource") else named


def _object_check(node: SchemaNode) -> Check | None:
    source = node.source
    strict = node.types == ("object",)
    members = {name: check for name, child in node.properties.items() if (check := compile_check(child)) is not None}
    other = compile_check(node.additional) if node.additional else None
    required = required_members(node)
    low, high = source.get("minProperties"), source.get("maxProperties")
    if not strict and not members and other is None and not required and low is None and high is None:
        return None
    known, needed = node.properties, frozenset(required)

    def judge(value: Json) -> bool:
        if type(value) is not dict:
            return not strict
        if needed and not needed <= value.keys():
            return False
        for key, member in value.items():
            check = members.get(key)
            if check is None:
                if other is None or key in known:
                    continue
                check = other
            if not check(member):
                return False
        return (low is None or len(value) >= low) and (high is None or len(value) <= high)

    return judge


def _logic_checks(node: SchemaNode) -> list[Check]:
    def branches(word: str) -> list[Check]:
        return [compile_check(read_schema(part)) or (lambda _: True) for part in node.source.get(word) or ()]

    checks: list[Check] = list(branches("allOf"))
    if exclusive := branches("oneOf"):
        checks.append(lambda value: sum(check(value) for check in exclusive) == 1)
    if any_of := branches("anyOf"):
        checks.append(lambda value: any(check(value) for check in any_of))
    if unwanted := node.source.get("not"):
        negated = compile_check(read_schema(unwanted)) or (lambda _: True)
        checks.append(lambda value: not negated(value))
    return checks


def _identity(entry: Json, keys: tuple[str, ...]) -> Json:
    return {key: entry[key] for key in keys if key in entry} if isinstance(entry, dict) else {}


def repeated(value: list[Json], node: SchemaNode) -> Iterable[tuple[int, Json]]:
    """The entries of a set or map list that name again what an earlier entry named: index and identity, once each."""
    seen: dict[str, int] = {}
    for index, entry in enumerate(value):
        identity = _identity(entry, node.list_keys) if node.list_type == "map" else entry
        text = json.dumps(identity, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield index, identity
