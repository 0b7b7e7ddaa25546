"""Sets of field paths in the form of `metadata.managedFields`, and the sets of the fields of objects.

A set is the JSON of `fieldsV1` itself: a tree of path elements (`f:name`, `k:{"name":"a"}`, `v:"x"`). An element is in
the set where its tree is empty or has the key `.`; its other keys are what is owned below it. Schemas define which lists
have elements of their own and which are one value.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

Json = Any
FieldSet = dict[str, Any]
Schema = Mapping[str, Any]
ANY: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}
_HERE: Final[FieldSet] = {}


def owned(element: FieldSet | None) -> bool:
    """Whether an element of a tree is itself in the set."""
    return element is not None and (not element or "." in element)


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in either set; `left` itself if the right one adds nothing."""
    result = left
    for key, theirs in right.items():
        ours = left.get(key)
        new = theirs if ours is None else _either(ours, theirs)
        if new is not ours:
            result = dict(left) if result is left else result
            result[key] = new
    return result


def _either(ours: FieldSet, theirs: FieldSet) -> FieldSet:
    if not theirs:
        return ours if owned(ours) else {".": {}, **ours}
    return union(ours or {".": {}}, theirs)


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in both sets."""
    result: FieldSet = {}
    for key, theirs in right.items():
        ours = left.get(key)
        if ours is None or key == ".":
            continue
        member = owned(ours) and owned(theirs)
        below = intersection(ours, theirs)
        if below or member:
            result[key] = {".": {}, **below} if below and member else below
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in the left set and not in the right one; `left` itself if that takes nothing away."""
    result = left
    for key, theirs in right.items():
        ours = left.get(key)
        if ours is None or key == ".":
            continue
        new = _without(ours, theirs)
        if new is ours:
            continue
        result = dict(left) if result is left else result
        if new is None:
            del result[key]
        else:
            result[key] = new
    return result


def _without(ours: FieldSet, theirs: FieldSet) -> FieldSet | None:
    """An element's tree without what is in another, None if nothing is left of it."""
    if not ours:
        return None if owned(theirs) else ours
    rest = difference(ours, theirs)
    if "." in rest and owned(theirs):
        rest = {key: below for key, below in rest.items() if key != "."}
        return rest or None
    if not rest:
        return None
    return {} if len(rest) == 1 and "." in rest else rest


def path_names(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """The paths in a set as messages print them: `.spec.tasks[name="a"].replicas`."""
    for key in sorted(fields):
        if key == ".":
            continue
        path = prefix + _element_name(key)
        if owned(fields[key]):
            yield path
        yield from path_names(fields[key], path)


def _element_name(element: str) -> str:
    kind, _, text = element.partition(":")
    match kind:
        case "f":
            return f".{text}"
        case "k":
            return "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in json.loads(text).items()) + "]"
        case "v":
            return f"[={text}]"
    return f"[{text}]"


def member_schema(schema: Schema, key: str) -> Schema:
    """The schema of a member of an object; what is unknown may be anything."""
    child = (schema.get("properties") or {}).get(key)
    if child is None:
        child = schema.get("additionalProperties")
    return child if isinstance(child, Mapping) else ANY


def item_schema(schema: Schema) -> Schema:
    """The schema of the items of a list."""
    child = schema.get("items")
    return child if isinstance(child, Mapping) else ANY


def _list_type(schema: Schema) -> str:
    kind = schema.get("x-kubernetes-list-type")
    if kind is None and "merge" in str(schema.get("x-kubernetes-patch-strategy", "")).split(","):
        kind = "map" if schema.get("x-kubernetes-patch-merge-key") else "set"
    return str(kind or "atomic")


def granular(value: Json, schema: Schema) -> bool:
    """Whether the parts of a value are owned one by one."""
    if isinstance(value, dict):
        return schema.get("x-kubernetes-map-type") != "atomic"
    return isinstance(value, list) and _list_type(schema) in ("map", "set")


def item_element(item: Json, schema: Schema) -> str:
    """The path element of an item of a map or set list."""
    if _list_type(schema) == "set" or not isinstance(item, dict):
        return f"v:{_encode(item)}"
    names = schema.get("x-kubernetes-list-map-keys") or [schema.get("x-kubernetes-patch-merge-key")]
    if len(names) == 1 and names[0] in item:
        return f'k:{{"{names[0]}":{_encode(item[names[0]])}}}'
    properties = item_schema(schema).get("properties") or {}
    keys = {}
    for name in sorted(names):
        value = item.get(name, (properties.get(name) or {}).get("default"))
        if value is not None:
            keys[name] = value
    return f"k:{_encode(keys)}"


_ENCODER: Final = msgspec.json.Encoder(order="sorted")


def _encode(value: Json) -> str:
    return _ENCODER.encode(value).decode()


def fields_of(value: Json, schema: Schema) -> FieldSet:
    """What an applied value sets: its leaves, the keys of its maps, and the items of its lists."""
    result: FieldSet = {}
    if isinstance(value, dict):
        known = schema.get("properties") or {}
        for key, member in value.items():
            child = member_schema(schema, key)
            below = fields_of(member, child) if member and granular(member, child) else {}
            result[f"f:{key}"] = {".": {}, **below} if below and key not in known else below
    elif isinstance(value, list):
        items = item_schema(schema)
        for item in value:
            below = fields_of(item, items) if granular(item, items) else {}
            result[item_element(item, schema)] = {".": {}, **below} if below else {}
    return result


def whole(value: Json, schema: Schema) -> FieldSet:
    """Every element of a value, its containers too; an empty tree for a leaf."""
    if not value or not granular(value, schema):
        return {}
    result: FieldSet = {".": {}}
    if isinstance(value, dict):
        properties = schema.get("properties") or _HERE
        for key, member in value.items():
            if type(member) is dict or type(member) is list:
                child = properties.get(key)
                result[f"f:{key}"] = whole(member, member_schema(schema, key) if child is None else child)
            else:
                result[f"f:{key}"] = {}
    else:
        items = item_schema(schema)
        for item in value:
            result[item_element(item, schema)] = whole(item, items)
    return result


Compared = tuple[FieldSet, FieldSet]


def compare(old: Json, new: Json, schema: Schema) -> Compared | None:
    """What changed or came (first set) and what went (second) between two values; None if the value itself changed."""
    if old is new:
        return {}, {}
    if type(old) is not type(new) or not granular(new, schema):
        return ({}, {}) if old == new else None
    if isinstance(new, list):
        items = item_schema(schema)
        before = {item_element(item, schema): item for item in old}
        after = {item_element(item, schema): item for item in new}
        return _compare_members(before, after, "", lambda _: items)
    return _compare_members(old, new, "f:", lambda key: member_schema(schema, key))


_ABSENT: Final = object()


def _compare_members(
    old: Mapping[str, Json], new: Mapping[str, Json], prefix: str, schema_of: Callable[[str], Schema]
) -> Compared:
    changed: FieldSet = {}
    removed: FieldSet = {}
    for key, member in new.items():
        before = old.get(key, _ABSENT)
        if before is member:
            continue
        child = schema_of(key)
        if before is _ABSENT:
            changed[prefix + key] = whole(member, child)
        elif (comparison := compare(before, member, child)) is None:
            changed[prefix + key] = came = whole(member, child)
            if gone := difference(whole(before, child), came):
                removed[prefix + key] = gone
        else:
            if comparison[0]:
                changed[prefix + key] = comparison[0]
            if comparison[1]:
                removed[prefix + key] = comparison[1]
    for key, member in old.items():
        if key not in new:
            removed[prefix + key] = whole(member, schema_of(key))
    return changed, removed
