"""Schema errors of a value, worded as by a real API server. A valid value costs no texts: paths are made for errors only."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from embedded_apiserver.field_errors import (
    DUPLICATE,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    FieldError,
    FieldPath,
    go_number,
    path_text,
)
from embedded_apiserver.schema.formats import FORMATS, INTEGER_RANGES, matcher
from embedded_apiserver.schema.schema_tree import SchemaNode

Json = Any


_JSON_TYPES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
}


def _json_type(value: Json) -> str:
    """The JSON schema type of a value; a float is a number even where it is whole."""
    return _JSON_TYPES.get(type(value), "object")


def _has_type(value: Json, types: tuple[str, ...]) -> bool:
    """Whether the value is of one of these types (none means any)."""
    kind = _json_type(value)
    if not types or kind in types:
        return True
    if kind == "integer":
        return "number" in types
    return kind == "number" and "integer" in types and float(value).is_integer()


def explain(node: SchemaNode, value: Json, steps: FieldPath = (), old: Json = None) -> list[FieldError]:
    """Every error of a value, worded as by a real API server; members that are as in an old object are not looked at."""
    if value is None and node.nullable and not node.source.get("enum"):
        return []
    # A value of the wrong type is judged by the rules for its own type too, as a real server does.
    wrong = not _has_type(value, node.types) and not (value is None and node.nullable)
    errors = [_wrong_type(node, value, steps)] if wrong else []
    if node.logic:
        errors += _explain_logic(node, value, steps)
    if isinstance(value, str):
        errors += _explain_text(node, value, steps)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        errors += _explain_number(node, value, steps)
    elif isinstance(value, list):
        errors += _explain_list(node, value, steps)
    if (enum := node.source.get("enum")) and not any(_same(value, allowed) for allowed in enum):
        choices = [f'"{choice if isinstance(choice, str) else json.dumps(choice)}"' for choice in enum]
        errors.append(
            FieldError(path_text(steps), NOT_SUPPORTED, f"supported values: {', '.join(choices)}", value, steps)
        )
    if isinstance(value, dict):
        errors += _explain_object(node, value, steps, old if isinstance(old, dict) else {})
    return errors


def _place(steps: FieldPath) -> str:
    return path_text(steps) if steps else ""


def _invalid(steps: FieldPath, value: Json, complaint: str) -> FieldError:
    return FieldError(path_text(steps), INVALID, f"{_place(steps)} in body {complaint}", value, steps)


def _wrong_type(node: SchemaNode, value: Json, steps: FieldPath) -> FieldError:
    actual, expected = _json_type(value), ",".join(node.types)
    form = node.source.get("format", "")
    known = form in INTEGER_RANGES or form in ("float", "double") or form in FORMATS
    if known and value is not None and not isinstance(value, (str, list)):
        # With a format, a real server compares formats instead of types and names its own of the value.
        expected, actual = form, {"integer": "int64", "number": "float64"}.get(actual, "")
    return FieldError(
        path_text(steps), TYPE_INVALID, f'{_place(steps)} in body must be of type {expected}: "{actual}"', actual, steps
    )


def _same(value: Json, allowed: Json) -> bool:
    """Equality as JSON knows it: true is not 1."""
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)


def _format_of(node: SchemaNode) -> Callable[[str], bool] | None:
    """The check of a text's format, None where it has none that is known."""
    return FORMATS.get(node.source.get("format", "")) if node.types in ((), ("string",)) else None


def _explain_text(node: SchemaNode, value: str, steps: FieldPath) -> list[FieldError]:
    source = node.source
    errors = []
    high, low = source.get("maxLength"), source.get("minLength")
    # Length and pattern: only the first that fails is reported.
    if high is not None and len(value) > high:
        unit = "byte" if high == 1 else "bytes"
        errors.append(FieldError(path_text(steps), TOO_LONG, f"may not be more than {high} {unit}", value, steps))
    elif low is not None and len(value) < low:
        errors.append(_invalid(steps, value, f"should be at least {low} chars long"))
    elif (expression := source.get("pattern")) and not matcher(expression)(value):
        errors.append(_invalid(steps, value, f"should match '{expression}'"))
    form = _format_of(node)
    if form is not None and not form(value):
        complaint = (
            f"{_place(steps)} in body must be of type {source['format']}: {json.dumps(value, ensure_ascii=False)}"
        )
        errors.append(FieldError(path_text(steps), TYPE_INVALID, complaint, value, steps))
    return errors


def _explain_number(node: SchemaNode, value: float, steps: FieldPath) -> list[FieldError]:
    if isinstance(value, float) and not value.is_integer() and node.types == ("integer",):
        return [_out_of_range(node, steps), *_explain_bounds(node, value, steps)]
    return _explain_bounds(node, value, steps)


def _out_of_range(node: SchemaNode, steps: FieldPath) -> FieldError:
    form = node.source.get("format")
    kind = f"with format {form}" if form in INTEGER_RANGES else "(default format)"
    return FieldError("<nil>", INVALID, f"Checked value must be of type {node.types[0]} {kind} in {_place(steps)}", "")


def _explain_bounds(node: SchemaNode, value: float, steps: FieldPath) -> list[FieldError]:
    source, errors = node.source, []
    limits = INTEGER_RANGES.get(source.get("format", "")) if "integer" in node.types else None
    low, high, multiple = source.get("minimum"), source.get("maximum"), source.get("multipleOf")
    if limits is not None and not limits[0] <= value <= limits[1]:
        errors.append(_out_of_range(node, steps))
    if multiple is not None and value % multiple:
        errors.append(_invalid(steps, value, f"should be a multiple of {go_number(multiple)}"))
    below, above = source.get("exclusiveMaximum"), source.get("exclusiveMinimum")
    if high is not None and (value > high or (below and value == high)):
        comparison = "less than" if below else "less than or equal to"
        errors.append(_invalid(steps, value, f"should be {comparison} {_limit(value, high)}"))
    if low is not None and (value < low or (above and value == low)):
        comparison = "greater than" if above else "greater than or equal to"
        errors.append(_invalid(steps, value, f"should be {comparison} {_limit(value, low)}"))
    return errors


def _limit(value: float, limit: float) -> str:
    """A limit as it is shown: beside an integer, as an integer."""
    return str(int(limit)) if isinstance(value, int) else go_number(limit)


def _explain_size(node: SchemaNode, count: int, limit: str, noun: str, steps: FieldPath) -> list[FieldError]:
    """The errors of a number of entries; `limit` is the end of the names of its limits in schemas."""
    errors = []
    low, high = node.source.get(f"min{limit}"), node.source.get(f"max{limit}")
    if low is not None and count < low:
        errors.append(_invalid(steps, count, f"should have at least {low} {noun}"))
    if high is not None and count > high:
        most = f"{high} item" if high == 1 else f"{high} items"
        errors.append(FieldError(path_text(steps), TOO_MANY, f"must have at most {most}", count, steps))
    return errors


def _identity(entry: Json, keys: tuple[str, ...]) -> Json:
    return {key: entry[key] for key in keys if key in entry} if isinstance(entry, dict) else {}


def _repeated(value: list[Json], node: SchemaNode) -> Iterable[tuple[int, Json]]:
    """The entries of a set or map list that name again what an earlier entry named: index and identity, once each."""
    seen: dict[str, int] = {}
    for index, entry in enumerate(value):
        identity = _identity(entry, node.list_keys) if node.list_type == "map" else entry
        text = json.dumps(identity, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield index, identity


def _explain_list(node: SchemaNode, value: list[Json], steps: FieldPath) -> list[FieldError]:
    errors = []
    if node.items is not None:
        for index, entry in enumerate(value):
            errors += explain(node.items, entry, (*steps, index))
    errors += _explain_size(node, len(value), "Items", "items", steps)
    odd = [index for index, entry in enumerate(value) if not isinstance(entry, dict | None)]
    if node.list_type == "map" and odd:
        text = "must be an object for an array of list-type map"
        errors.append(FieldError(path_text((*steps, odd[0])), INVALID, text, value[odd[0]], (*steps, odd[0])))
    elif node.list_type in ("set", "map"):
        for index, identity in _repeated(value, node):
            errors.append(FieldError(path_text((*steps, index)), DUPLICATE, "", identity, steps))
    return errors


def _required_members(node: SchemaNode) -> tuple[str, ...]:
    """The required members of an object; an embedded resource needs apiVersion and kind."""
    named = tuple(node.source.get("required") or ())
    return (*named, "apiVersion", "kind") if node.source.get("x-kubernetes-embedded-resource") else named


def _explain_object(
    node: SchemaNode, value: dict[str, Json], steps: FieldPath, old: dict[str, Json]
) -> list[FieldError]:
    errors = _explain_size(node, len(value), "Properties", "properties", steps)
    for key, member in value.items():
        child, before = node.member(key), old.get(key)
        if child is not None and (before is None or member != before):
            errors += explain(child, member, (*steps, key), before)
    for key in _required_members(node):
        if key not in value:
            errors.append(FieldError(path_text((*steps, key)), REQUIRED, "", steps=steps))
    return errors


def _shortest(errors_by_schema: list[list[FieldError]]) -> list[FieldError]:
    return min(errors_by_schema, key=lambda part: len(part))  # noqa: PLW0108 - mypy cannot infer `len` here


def _explain_logic(node: SchemaNode, value: Json, steps: FieldPath) -> list[FieldError]:
    def faults(word: str) -> list[list[FieldError]]:
        return [explain(part, value, steps) for part in node.logic.get(word, ())]

    def general(requirement: str) -> FieldError:
        return FieldError("<nil>", INVALID, f'"{_place(steps)}" must {requirement}', "", steps)

    errors: list[FieldError] = []
    if (errors_by_schema := faults("anyOf")) and all(errors_by_schema):
        errors += [general("validate at least one schema (anyOf)"), *_shortest(errors_by_schema)]
    if (errors_by_schema := faults("oneOf")) and (right := sum(not part for part in errors_by_schema)) != 1:
        detail = f"Found {right} valid alternatives" if right else "Found none valid"
        errors.append(general(f"validate one and only one schema (oneOf). {detail}"))
        errors += _shortest(errors_by_schema) if not right else []
    if (errors_by_schema := faults("allOf")) and any(errors_by_schema):
        errors += [fault for part in errors_by_schema for fault in part]
        errors.append(
            general(f"validate all the schemas (allOf){'' if not all(errors_by_schema) else '. None validated'}")
        )
    if not all(faults("not")):
        errors.append(general("not validate the schema (not)"))
    return errors
