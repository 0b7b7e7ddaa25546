"""The patch formats of the embedded API server, as functions from an object and a patch to a new object.

No function changes its inputs. Results share unchanged parts with them, so objects are to be treated as immutable
once they were patched.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonpatch

from embedded_apiserver.apply.field_sets import Schema, member_schema

Json = Any

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_MOST_OPERATIONS = 10_000
"""The most operations of a JSON patch, as for kube-apiserver."""
_MOST_COPIED = 3 * 1024 * 1024
"""The most bytes that the operations of a JSON patch copy together, as for kube-apiserver: each may double an object."""


class PatchError(ValueError):
    """A patch that is malformed or does not fit the object; the text is for the user."""


def merge_patch(target: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386): null deletes, lists are replaced whole."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merge_patch(result.get(key), value)
        else:
            result[key] = value
    return result


def json_patch(target: Json, operations: Sequence[Mapping[str, Any]]) -> Json:
    """Apply a JSON patch (RFC 6902), all of its operations or none; raises PatchError."""
    if not isinstance(operations, list):
        raise PatchError("a JSON patch must be a list of operations")
    if len(operations) > _MOST_OPERATIONS:
        raise PatchError(f"a JSON patch must have at most {_MOST_OPERATIONS} operations, has {len(operations)}")
    try:
        result, copied = copy.deepcopy(target), 0
        for number, patch in enumerate(jsonpatch.JsonPatch([operation]) for operation in operations):
            if operations[number]["op"] == "copy":
                copied += len(json.dumps(jsonpatch.JsonPointer(operations[number].get("from", "")).resolve(result)))
                if copied > _MOST_COPIED:
                    raise PatchError(f"the copy operations of the patch exceed the limit of {_MOST_COPIED} bytes")
            result = patch.apply(result, in_place=True)
    except jsonpatch.JsonPatchTestFailed as fault:
        raise PatchError(f"the test operation of the patch failed: {fault}") from None
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as fault:
        raise PatchError(f"the patch cannot be applied: {fault}") from None
    return result


def strategic_merge(target: Json, patch: Json, schema: Schema | None) -> Json:
    """Apply a strategic merge patch: lists merge by the keys that the schema declares, directives are obeyed.

    `schema` is the kind's schema with its references resolved; lists without a merge strategy are replaced as a whole.
    """
    if not isinstance(patch, dict):
        raise PatchError("a strategic merge patch must be an object")
    return _merge_maps(target if isinstance(target, dict) else {}, patch, schema or {})


def _merge_maps(target: Mapping[str, Json], patch: Mapping[str, Json], schema: Schema) -> dict[str, Json]:
    directive = patch.get(_PATCH)
    if directive is not None:
        return _directed_map(directive, patch)
    result = dict(target)
    if _RETAIN in patch:
        _retain(result, patch)
    ordered = [key.removeprefix(_ORDER) for key in patch if key.startswith(_ORDER)]
    for key in ordered:
        _merge_ordered(result, patch, key, member_schema(schema, key))
    for key, value in patch.items():
        if key == _RETAIN or key.startswith(_ORDER) or key in ordered:
            continue
        if key.startswith(_DELETE):
            _delete_primitives(result, key.removeprefix(_DELETE), value)
        elif value is None:
            result.pop(key, None)
        else:
            _merge_member(result, key, value, member_schema(schema, key))
    return result


def _directed_map(directive: Json, patch: Mapping[str, Json]) -> dict[str, Json]:
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive == "merge":
        raise PatchError(f"unknown patch type: {directive} in map: it is only known for the items of lists")
    raise PatchError(f"unknown patch type: {directive} in map: known are replace and delete")


def _retain(result: dict[str, Json], patch: Mapping[str, Json]) -> None:
    keep = patch[_RETAIN]
    if not isinstance(keep, list):
        raise PatchError("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in keep:
            raise PatchError(f"invalid patch format of retainKeys: {key} is set but not in the list")
    for key in [key for key in result if key not in keep]:
        del result[key]


def _delete_primitives(result: dict[str, Json], key: str, unwanted: Json) -> None:
    if not isinstance(unwanted, list):
        raise PatchError("invalid patch format of primitive list")
    if isinstance(result.get(key), list):
        result[key] = [item for item in result[key] if item not in unwanted]


def _strategies(schema: Schema) -> list[str]:
    return str(schema.get("x-kubernetes-patch-strategy", "")).split(",")


def _merge_member(result: dict[str, Json], key: str, value: Json, schema: Schema) -> None:
    current = result.get(key)
    strategies = _strategies(schema)
    if isinstance(value, dict) and isinstance(current, dict):
        result[key] = value if "replace" in strategies else _merge_maps(current, value, schema)
    elif isinstance(value, list) and isinstance(current, list):
        result[key] = _merge_lists(current, value, schema) if "merge" in strategies else value
    elif isinstance(value, dict) and value.get(_PATCH) is not None:
        result.pop(key, None)
    else:
        result[key] = _plain(value)


def _plain(value: Json) -> Json:
    """A patch value as it is stored where nothing was: without nulls in objects and without directives."""
    if isinstance(value, dict):
        return {
            key: _plain(member)
            for key, member in value.items()
            if member is not None and not key.startswith((_RETAIN, _ORDER, _DELETE)) and not _directed(member)
        }
    if isinstance(value, list):
        return [_plain(item) for item in value if not _directed(item)]
    return value


def _directed(value: Json) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _merge_ordered(result: dict[str, Json], patch: Mapping[str, Json], key: str, schema: Schema) -> None:
    """Merge the list `key` and give it the order that the patch's element order demands."""
    order = patch[_ORDER + key]
    live, desired = result.get(key), patch.get(key)
    if not isinstance(order, list) or not isinstance(live, list | None) or not isinstance(desired, list | None):
        raise PatchError("invalid patch format of setElementOrder list")
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    order_of = _identities(order, merge_key)
    listed = iter(order_of)
    for identity in _identities((item for item in desired or () if not _directed(item)), merge_key):
        if identity not in listed:
            raise PatchError(f"The order in patch list {desired} doesn't match $setElementOrder list: {order}")
    if live is None and desired is None:
        return
    if live is None or desired is None:
        merged = live if desired is None else _plain(desired)
    else:
        merged = _merge_lists(live, desired, schema) if "merge" in _strategies(schema) else desired
    result[key] = _arrange(merged or [], order_of, _identities(live or (), merge_key), merge_key)


def _identities(items: Iterable[Json], merge_key: str | None) -> list[Json]:
    """The identity of each item of a list: the merge key's value, or the primitive itself."""
    identities = []
    for item in items:
        if not isinstance(item, dict):
            identities.append(item)
        elif not merge_key or merge_key not in item:
            raise PatchError(f"map: {item} does not contain declared merge key: {merge_key or ''}")
        else:
            identities.append(item[merge_key])
    return identities


def _merge_lists(live: list[Json], patch: list[Json], schema: Schema) -> list[Json]:
    if not any(isinstance(item, dict) for item in (*live, *patch)):
        merged = list(dict.fromkeys([*live, *patch]))
        return _arrange(merged, patch, live, None)
    merge_key = schema.get("x-kubernetes-patch-merge-key")
    if not merge_key:
        raise PatchError("cannot merge lists without merge key")
    live, patch = _apply_item_directives(live, patch, merge_key)
    items = dict(zip(_identities(live, merge_key), live, strict=True))
    item_schema = schema.get("items") or {}
    for identity, item in zip(_identities(patch, merge_key), patch, strict=True):
        items[identity] = _merge_maps(items[identity], item, item_schema) if identity in items else _plain(item)
    return _arrange(list(items.values()), _identities(patch, merge_key), _identities(live, merge_key), merge_key)


def _apply_item_directives(live: list[Json], patch: list[Json], merge_key: str) -> tuple[list[Json], list[Json]]:
    """Obey `$patch` in items: which live items stay, and which patch items are ordinary."""
    ordinary = [item for item in patch if not _directed(item)]
    deleted = []
    for item in patch:
        match item.get(_PATCH) if isinstance(item, dict) else None:
            case None:
                continue
            case "replace":
                return [], ordinary
            case "delete":
                deleted += _identities([item], merge_key)
            case "merge":
                raise PatchError("merging lists cannot yet be specified in the patch")
            case other:
                raise PatchError(f"unknown patch type: {other} in map: known are delete and replace")
    return [item for item in live if item.get(merge_key) not in deleted], ordinary


def _arrange(items: list[Json], desired: list[Json], live: list[Json], merge_key: str | None) -> list[Json]:
    """Order items: those of the patch as it has them; the others stay before what followed them in the live list."""
    identities = _identities(items, merge_key)
    rank = {identity: index for index, identity in enumerate(live)}
    place = {identity: index for index, identity in enumerate(desired)}
    ours = [(item, ident) for item, ident in zip(items, identities, strict=True) if ident in place]
    ours.sort(key=lambda pair: place[pair[1]])
    others = [(item, ident) for item, ident in zip(items, identities, strict=True) if ident not in place]
    others.sort(key=lambda pair: rank.get(pair[1], len(rank)))
    result = []
    left = 0
    for item, identity in ours:
        while left < len(others) and identity in rank and rank.get(others[left][1], len(rank)) < rank[identity]:
            result.append(others[left][0])
            left += 1
        result.append(item)
    return result + [item for item, _ in others[left:]]
