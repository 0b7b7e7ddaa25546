"""Schema errors of a value, worded as by a real API server.

Called only where the compiled predicate of `predicates` is false.
"""

import json

from embedded_apiserver.schema.field_errors import (
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
from embedded_apiserver.schema.predicates import (
    Json,
    bounds_of,
    format_of,
    has_type,
    in_bounds,
    json_type,
    repeated,
    required_members,
    same,
)
from embedded_apiserver.schema.schema_tree import SchemaNode, read_schema


def explain(node: SchemaNode, value: Json, steps: FieldPath = ()) -> list[FieldError]:
    """Every error of a value, worded as by a real API server; empty where the predicate is true."""
    place = path_text(steps) if steps else ""
    if value is None and node.nullable and not node.source.get("enum"):
        return []
    # A value of the wrong type is judged by the rules for its own type too, as a real server does.
    wrong = not has_type(value, node.types) and not (value is None and node.nullable)
    errors = [_wrong_type(node, value, steps, place)] if wrong else []
    errors += _explain_logic(node, value, steps, place)
    if isinstance(value, str):
        errors += _explain_text(node, value, steps, place)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        errors += _explain_number(node, value, steps, place)
    elif isinstance(value, list):
        errors += _explain_list(node, value, steps, place)
    if (enum := node.source.get("enum")) and not any(same(value, allowed) for allowed in enum):
        choices = [f'"{choice if isinstance(choice, str) else json.dumps(choice)}"' for choice in enum]
        errors.append(
            FieldError(path_text(steps), NOT_SUPPORTED, f"supported values: {', '.join(choices)}", value, steps)
        )
    if isinstance(value, dict):
        errors += _explain_object(node, value, steps, place)
    return errors


def _invalid(steps: FieldPath, place: str, value: Json, complaint: str) -> FieldError:
    return FieldError(path_text(steps), INVALID, f"{place} in body {complaint}", value, steps)


def _wrong_type(node: SchemaNode, value: Json, steps: FieldPath, place: str) -> FieldError:
    actual, expected = json_type(value), ",".join(node.types)
    form = node.source.get("format", "")
    known = form in INTEGER_RANGES or form in ("float", "double") or form in FORMATS
    if known and value is not None and not isinstance(value, (str, list)):
        # With a format, a real server compares formats instead of types and names its own of the value.
        expected, actual = form, {"integer": "int64", "number": "float64"}.get(actual, "")
    return FieldError(
        path_text(steps), TYPE_INVALID, f'{place} in body must be of type {expected}: "{actual}"', actual, steps
    )


def _explain_text(node: SchemaNode, value: str, steps: FieldPath, place: str) -> list[FieldError]:
    source = node.source
    errors = []
    high, low = source.get("maxLength"), source.get("minLength")
    # Length and pattern: only the first that fails is reported.
    if high is not None and len(value) > high:
        unit = "byte" if high == 1 else "bytes"
        errors.append(FieldError(path_text(steps), TOO_LONG, f"may not be more than {high} {unit}", value, steps))
    elif low is not None and len(value) < low:
        errors.append(_invalid(steps, place, value, f"should be at least {low} chars long"))
    elif (expression := source.get("pattern")) and not matcher(expression)(value):
        errors.append(_invalid(steps, place, value, f"should match '{expression}'"))
    form = format_of(node)
    if form is not None and not form(value):
        complaint = f"{place} in body must be of type {source['format']}: {json.dumps(value, ensure_ascii=False)}"
        errors.append(FieldError(path_text(steps), TYPE_INVALID, complaint, value, steps))
    return errors


def _explain_number(node: SchemaNode, value: float, steps: FieldPath, place: str) -> list[FieldError]:
    if isinstance(value, float) and not value.is_integer() and node.types == ("integer",):
        return [_out_of_range(node, place), *_explain_bounds(node, value, steps, place)]
    return _explain_bounds(node, value, steps, place)


def _out_of_range(node: SchemaNode, place: str) -> FieldError:
    form = node.source.get("format")
    kind = f"with format {form}" if form in INTEGER_RANGES else "(default format)"
    return FieldError("<nil>", INVALID, f"Checked value must be of type {node.types[0]} {kind} in {place}", "")


def _explain_bounds(node: SchemaNode, value: float, steps: FieldPath, place: str) -> list[FieldError]:
    bounds = bounds_of(node)
    if bounds is None or in_bounds(value, bounds):
        return []
    low, high, above, below, multiple, limits = bounds
    errors = []
    if limits is not None and not limits[0] <= value <= limits[1]:
        errors.append(_out_of_range(node, place))
    if multiple is not None and value % multiple:
        errors.append(_invalid(steps, place, value, f"should be a multiple of {go_number(multiple)}"))
    if high is not None and (value > high or (below and value == high)):
        comparison = "less than" if below else "less than or equal to"
        errors.append(_invalid(steps, place, value, f"should be {comparison} {_limit(value, high)}"))
    if low is not None and (value < low or (above and value == low)):
        comparison = "greater than" if above else "greater than or equal to"
        errors.append(_invalid(steps, place, value, f"should be {comparison} {_limit(value, low)}"))
    return errors


def _limit(value: float, limit: float) -> str:
    """A limit as it is shown: beside an integer, as an integer."""
    return str(int(limit)) if isinstance(value, int) else go_number(limit)


def _too_many(steps: FieldPath, high: int, count: int) -> FieldError:
    noun = "item" if high == 1 else "items"
    return FieldError(path_text(steps), TOO_MANY, f"must have at most {high} {noun}", count, steps)


def _explain_list(node: SchemaNode, value: list[Json], steps: FieldPath, place: str) -> list[FieldError]:
    errors = []
    if node.items is not None:
        for index, entry in enumerate(value):
            errors += explain(node.items, entry, (*steps, index))
    low, high = node.source.get("minItems"), node.source.get("maxItems")
    if low is not None and len(value) < low:
        errors.append(_invalid(steps, place, len(value), f"should have at least {low} items"))
    if high is not None and len(value) > high:
        errors.append(_too_many(steps, high, len(value)))
    odd = [index for index, entry in enumerate(value) if not isinstance(entry, dict | None)]
    if node.list_type == "map" and odd:
        text = "must be an object for an array of list-type map"
        errors.append(FieldError(path_text((*steps, odd[0])), INVALID, text, value[odd[0]], (*steps, odd[0])))
    elif node.list_type in ("set", "map"):
        for index, identity in repeated(value, node):
            errors.append(FieldError(path_text((*steps, index)), DUPLICATE, "", identity, steps))
    return errors


def _explain_object(node: SchemaNode, value: dict[str, Json], steps: FieldPath, place: str) -> list[FieldError]:
    errors = []
    low, high = node.source.get("minProperties"), node.source.get("maxProperties")
    if low is not None and len(value) < low:
        errors.append(_invalid(steps, place, len(value), f"should have at least {low} properties"))
    if high is not None and len(value) > high:
        errors.append(_too_many(steps, high, len(value)))
    for key, member in value.items():
        child = node.member(key)
        if child is not None:
            errors += explain(child, member, (*steps, key))
    for key in required_members(node):
        if key not in value:
            errors.append(FieldError(path_text((*steps, key)), REQUIRED, "", steps=steps))
    return errors


def _shortest(errors_by_schema: list[list[FieldError]]) -> list[FieldError]:
    return min(errors_by_schema, key=lambda part: len(part))  # noqa: PLW0108 - mypy cannot infer `len` here


def _explain_logic(node: SchemaNode, value: Json, steps: FieldPath, place: str) -> list[FieldError]:
    def faults(word: str) -> list[list[FieldError]]:
        return [explain(read_schema(part), value, steps) for part in node.source.get(word) or ()]

    def general(requirement: str) -> FieldError:
        return FieldError("<nil>", INVALID, f'"{place}" must {requirement}', "", steps)

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
    if (unwanted := node.source.get("not")) and not explain(read_schema(unwanted), value, steps):
        errors.append(general("not validate the schema (not)"))
    return errors
