"""Label and field selectors of a request, against stored objects."""

from collections.abc import Iterable
from typing import Any

from embedded_apiserver.context import Call
from embedded_apiserver.kinds.kinds import FIELDS, Kind
from embedded_apiserver.schema.selectors import FieldSelector, LabelSelector, SelectorError
from embedded_apiserver.status_errors import bad_request
from embedded_apiserver.store.object_store import Body, Bucket, StoredObject

_ABSENT = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}


class Filter:
    """Which objects of a kind a request speaks of."""

    __slots__ = ("_fields", "_kind", "_labels", "_texts", "all", "everything", "name", "namespace", "node", "selective")

    def __init__(self, call: Call) -> None:
        self._kind = call.kind
        self.namespace = call.namespace if call.kind.namespaced else ""
        self.everything = not self.namespace
        self._labels: LabelSelector | None = None
        self._texts: list[tuple[bytes, ...]] = []
        self._fields: FieldSelector | None = None
        self.name = call.name
        self.node = ""
        self.selective = False
        labels, fields = call.query.get("labelSelector"), call.query.get("fieldSelector")
        try:
            if labels:
                self._labels = LabelSelector.parse(labels)
                self._texts = self._labels.required_texts()
                self.selective = True
            if fields:
                self._read(FieldSelector.parse(fields), call.kind)
        except SelectorError as error:
            raise bad_request(str(error)) from None
        self.all = self.everything and not self.selective and not self.name

    def _read(self, selector: FieldSelector, kind: Kind) -> None:
        """Keep the terms, and the two that an index answers."""
        self._fields = selector
        self.selective = True
        for path, operator, value in selector.terms:
            if path not in kind.fields:
                raise bad_request(_unknown(path, kind))
            if operator in {"=", "=="}:
                if path == "metadata.name":
                    self.name = value
                elif path == "spec.nodeName" and value:
                    self.node = value

    def matches(self, entry: StoredObject) -> bool:
        """The object is meant."""
        if self.all:
            return True
        if not self.everything and entry.namespace != self.namespace:
            return False
        if self.name and entry.name != self.name:
            return False
        if not self.selective:
            return True
        if any(not any(text in entry.raw for text in texts) for texts in self._texts):
            return False  # the bytes show it, which is much faster than to decode them
        body = entry.body
        if self._labels is not None and not self._labels.matches(body["metadata"].get("labels") or {}):
            return False
        return self._fields is None or self._fields.matches(lambda path: value_at(body, path, self._kind))

    def pick(self, bucket: Bucket) -> Iterable[StoredObject]:
        """The current objects that are meant, ordered, each compared when it is reached."""
        if self.node and bucket.by_node is not None:
            return filter(self.matches, bucket.on_node(self.node))
        if self.name and (self.namespace or not self._kind.namespaced):
            entry = bucket.get(self.namespace, self.name)
            return [entry] if entry is not None and self.matches(entry) else []
        entries = bucket.entries(None if self.everything else self.namespace)
        if not self.selective and not self.name:
            return entries
        return filter(self.matches, entries)


def _unknown(path: str, kind: Kind) -> str:
    if kind.group == "batch":
        return f'field label "{path}" not supported for {kind.kind}'
    if kind.custom or kind.fields != FIELDS:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def value_at(body: Body, path: str, kind: Kind) -> str:
    """The text of a field that selectors may ask about; "" if it is not set."""
    value: Any = body
    for part in kind.aliases.get(path, path).split("."):
        if not isinstance(value, dict):
            return ""
        value = value.get(part)
    if value is None:
        return _ABSENT.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
