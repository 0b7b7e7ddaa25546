"""The queues that exist in every served API: the root queue and the default queue, one object in each API, with the same content.

The object of volcanopy's API is the one that counts. A user may change either:

1. An annotation of volcanopy's object records the content of both when they were last synchronized.
2. A field that differs from its recorded value has been changed by a user, and :func:`synchronized` writes it into the other
   object. A field that was changed in both gets the value of volcanopy's object, as does every field without a record.
3. The record has the content that the server has stored. So a field that older definitions of Volcano lack is not one that a
   user has removed.
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import fields

from volcanopy.api import core, names
from volcanopy.api.model import Json

_FIELDS = frozenset(field.encode_name for field in fields(core.QueueSpec))
_ANNOTATIONS = frozenset({names.HIERARCHY, names.HIERARCHY_WEIGHTS})

Content = Mapping[str, Any]
"""Fields of the specification, and the annotations that the scheduler reads, by volcanopy's names."""


def content_of(queue: Json) -> Content:
    """Return the content that the objects of a queue share."""
    spec, annotations = queue.get("spec") or {}, (queue["metadata"].get("annotations") or {})
    content = {key: spec[key] for key in _FIELDS & spec.keys()} | {
        key: annotations[key] for key in _ANNOTATIONS & annotations.keys()
    }
    return {key: value for key, value in content.items() if value is not None}


def synchronized(queue: Json, copy: Json) -> tuple[Json, Json]:
    """Return a queue of volcanopy's API and its copy in another one, with the changes of both."""
    record, content, copied = _record(queue), content_of(queue), content_of(copy)
    changes, copy_changes = _changes(None, content), {}
    if record is not None:
        changes = _changes(record[0], content)
        copy_changes = {key: value for key, value in _changes(record[1], copied).items() if key not in changes}
    return _changed(queue, content, copy_changes), _changed(copy, copied, changes)


def recorded(queue: Json, copy: Json | None) -> Json:
    """Return a queue of volcanopy's API with the record of its content and that of its copy, which may not exist yet."""
    record = [content_of(queue), {} if copy is None else content_of(copy)]
    value = json.dumps(record, separators=(",", ":"), sort_keys=True)
    metadata = queue["metadata"]
    annotations = {**(metadata.get("annotations") or {}), names.SYNCHRONIZED_CONTENT: value}
    return {**queue, "metadata": {**metadata, "annotations": annotations}}


def copy_in(queue: Json, api_version: str) -> Json:
    """Return the object of a queue that another API lacks."""
    empty = {"apiVersion": api_version, "kind": queue["kind"], "metadata": {"name": queue["metadata"]["name"]}}
    return _changed(empty, {}, content_of(queue))


def _record(queue: Json) -> tuple[Content, Content] | None:
    """Return the recorded content of a queue and its copy; None without a record that can be read."""
    try:
        record = json.loads((queue["metadata"].get("annotations") or {})[names.SYNCHRONIZED_CONTENT])
    except (KeyError, ValueError):
        return None
    match record:
        case [dict(content), dict(copied)]:
            return content, copied
    return None


def _changes(before: Content | None, after: Content) -> Content:
    """Return the values that differ, None for what was removed; without an earlier content all of them."""
    if before is None:
        return {key: after.get(key) for key in _FIELDS | _ANNOTATIONS}
    return {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _changed(queue: Json, content: Content, changes: Content) -> Json:
    """Return a queue of this content with changes of it."""
    after = {key: value for key, value in {**content, **changes}.items() if value is not None}
    if after == content:
        return queue
    metadata = queue["metadata"]
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in _ANNOTATIONS}
    annotations |= {key: after[key] for key in _ANNOTATIONS & after.keys()}
    spec = {key: value for key, value in (queue.get("spec") or {}).items() if key not in _FIELDS}
    spec |= {key: after[key] for key in _FIELDS & after.keys()}
    return {**queue, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
