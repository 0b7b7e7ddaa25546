"""Field ownership: server-side apply, and the tracking of ordinary writes.

Both are pure: an object and a write go in, the object with its `metadata.managedFields` comes out. Inputs are never
changed. `schema` is the kind's schema with references resolved, or None where nothing is known.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from embedded_apiserver.apply.field_sets import (
    FieldSet,
    Schema,
    compare,
    difference,
    fields_of,
    granular,
    intersection,
    item_element,
    item_schema,
    member_schema,
    owned,
    path_names,
    union,
    whole,
)
from embedded_apiserver.apply.managed_field_entries import (
    UNOWNED,
    ApplyConflict,
    Conflict,
    ManagedFieldsEntry,
    bare,
    entries_of,
    ownable,
    root_schema,
    with_entries,
)

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

Json = Any
Object = dict[str, Any]

_STRUCTS: Final = frozenset({"spec", "status", "metadata", "template", "strategy", "updateStrategy", "containers"})


def _always_there(new: Mapping[str, Json], root: Schema) -> Object:
    """The containers that every object of a built-in kind has; no manager owns them."""
    if "title" not in root:
        return {}
    return {
        key: _always_there(value, root) if isinstance(value, dict) else []
        for key, value in new.items()
        if key in _STRUCTS and isinstance(value, dict | list)
    }


def track(
    old: Object | None,
    new: Object,
    *,
    manager: str,
    subresource: str = "",
    schema: Schema | None,
    api_version: str,
    now: str,
) -> Object:
    """The new object, with what this write changed in the name of `manager` (operation Update).

    `managedFields` in `new` replace those of `old`, and an empty list forgets them all, as on a real server.
    """
    explicit = (new.get("metadata") or {}).get("managedFields")
    entries = entries_of(new if explicit is not None else old)
    root = root_schema(schema)
    comparison = compare(bare(old) if old else _always_there(new, root), bare(new), root)
    changed, removed = comparison if comparison is not None else (whole(new, root), {})
    changed = ownable(changed)
    if not changed and not removed:
        return new if explicit == (old or {}).get("metadata", {}).get("managedFields") else with_entries(new, entries)
    lost = union(changed, removed) if changed and removed else changed or removed
    mine = changed
    others = []
    for entry in entries:
        if (entry.manager, entry.operation, entry.api_version, entry.subresource) == (
            manager,
            "Update",
            api_version,
            subresource,
        ):
            mine = union(difference(entry.fields, removed), changed)
            if not changed:
                others.append(entry._replace(fields=mine))
        else:
            others.append(entry._replace(fields=difference(entry.fields, lost)))
    if changed:
        others.append(ManagedFieldsEntry(manager, "Update", api_version, subresource, now, mine))
    return with_entries(new, others)


def apply(
    live: Object | None,
    applied: Object,
    *,
    manager: str,
    force: bool,
    schema: Schema | None,
    api_version: str,
    now: str,
    subresource: str = "",
) -> Object:
    """The live object after a server-side apply; `live` itself if nothing changed; raises ApplyConflict.

    Fields that this manager applied before and no longer applies go, unless another manager owns them too. As on a real
    server, kubectl's own applies take over what its client-side apply had written, and keep its annotation true.
    """
    root = root_schema(schema)
    me = ManagedFieldsEntry(manager, "Apply", api_version, subresource, now, {})
    if manager != "kubectl" or live is None:
        return _apply(live, applied, me, root, force=force)
    last_applied = _last_applied(live)
    try:
        result = _apply(live, applied, me, root, force=force)
    except ApplyConflict as conflict:
        if last_applied is None or not conflict.paths <= _still_as_applied(last_applied, live, root):
            raise
        result = _apply(live, applied, me, root, force=True)
    return result if last_applied is None else _with_last_applied(result, applied)


def _last_applied(live: Object) -> Json | None:
    """What kubectl's client-side apply wrote last, by its annotation; None where it did not."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        config = json.loads(text)
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def _still_as_applied(last_applied: Object, live: Object, root: Schema) -> set[str]:
    """The fields that the client-side apply set and that are still as it set them."""
    changed, removed = compare(last_applied, bare(live), root) or ({}, {})
    return set(path_names(difference(difference(fields_of(last_applied, root), changed), removed)))


def _with_last_applied(obj: Object, applied: Object) -> Object:
    """The object with the annotation of the client-side apply set to what was applied now."""
    config = bare(applied)
    metadata = dict(config.get("metadata") or {})
    annotations = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED
    }
    if annotations:
        metadata["annotations"] = annotations
    text = (
        json.dumps({**config, "metadata": metadata}, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    )
    if obj["metadata"].get("annotations", {}).get(LAST_APPLIED) == text:
        return obj
    shown = {**obj["metadata"].get("annotations", {}), LAST_APPLIED: text}
    return {**obj, "metadata": {**obj["metadata"], "annotations": shown}}


def _apply(live: Object | None, applied: Object, me: ManagedFieldsEntry, root: Schema, *, force: bool) -> Object:
    config = bare(applied)
    entries = entries_of(live)
    if live is not None and not entries:
        before = difference(_without_containers(whole(bare(live), root)), UNOWNED)
        entries = [ManagedFieldsEntry("before-first-apply", "Update", me.api_version, "", me.time, before)]
    applied = difference(fields_of(config, root), UNOWNED)
    mine = [entry for entry in entries if entry.is_of(me)]
    others = [entry for entry in entries if not entry.is_of(me)]
    current = bare(live) if live is not None else {}
    merged = _merge(current, config, root)
    last: FieldSet = {}
    for entry in mine:
        last = union(last, entry.fields)
    dropped = difference(last, applied)
    if dropped:
        kept: FieldSet = applied
        for entry in others:
            kept = union(kept, entry.fields)
        merged = _remove(merged, dropped, kept, root) or {}
    changed, removed = compare(current, merged, root) or (whole(merged, root), {})
    conflicts = [(entry, intersection(entry.fields, changed)) for entry in others]
    if not force and any(fields for _, fields in conflicts):
        raise ApplyConflict([Conflict(entry.shown, path) for entry, fields in conflicts for path in path_names(fields)])
    if live is not None and not changed and not removed and last == applied and entries == entries_of(live):
        return live
    lost = union(changed, removed)
    rest = [entry._replace(fields=difference(entry.fields, lost)) for entry in others]
    # A real server dates an entry when the object changed, not when only the owners did.
    moment = me.time if changed or removed or live is None else (mine[0].time if mine else "")
    return with_entries(merged, [*rest, me._replace(time=moment, fields=applied)])


def _without_containers(fields: FieldSet) -> FieldSet:
    """The set without the elements that only hold others."""
    return {key: _without_containers(below) for key, below in fields.items() if key != "."}


def _merge(live: Json, config: Json, schema: Schema) -> Json:
    """The live value merged with the applied configuration."""
    if type(live) is not type(config) or not granular(config, schema):
        return config
    if isinstance(config, dict):
        result = dict(live)
        for key, value in config.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _merge(result.get(key), value, member_schema(schema, key))
        return result
    items = item_schema(schema)
    before = {item_element(item, schema): item for item in live}
    after = {item_element(item, schema): item for item in config}
    result_items = []
    ours = list(after)
    position = 0
    for element, item in before.items():
        if element not in after:
            result_items.append(item)
            continue
        # Shared items come in the configuration's order, with its new items before the shared one that follows them.
        while position < len(ours) and (ours[position] not in before or ours[position] == element):
            result_items.append(_merge(before.get(ours[position]), after[ours[position]], items))
            position += 1
            if ours[position - 1] == element:
                break
    result_items += [_merge(before.get(element), after[element], items) for element in ours[position:]]
    return result_items


def _remove(value: Json, dropped: FieldSet, kept: FieldSet, schema: Schema) -> Json:
    """The value without what is in `dropped` and neither itself nor in part in `kept`; None if nothing is left."""
    if isinstance(value, dict):
        left: dict[str, Json] = {}
        for key, member in value.items():
            rest = _remove_member(member, dropped.get(f"f:{key}"), kept.get(f"f:{key}"), member_schema(schema, key))
            if rest is not _GONE:
                left[key] = rest
        return left or None
    if isinstance(value, list):
        items = item_schema(schema)
        remaining = [
            _remove_member(item, dropped.get(element), kept.get(element), items)
            for item in value
            for element in (item_element(item, schema),)
        ]
        return [item for item in remaining if item is not _GONE] or None
    return value


_GONE: Final = object()


def _remove_member(value: Json, dropped: FieldSet | None, kept: FieldSet | None, schema: Schema) -> Json:
    if dropped is None:
        return value
    if owned(dropped) and kept is None:
        return _GONE
    if not granular(value, schema) or not value:
        return value
    rest = _remove(value, dropped, kept or {}, schema)
    if rest is None:
        return type(value)() if kept is not None else _GONE
    return rest
