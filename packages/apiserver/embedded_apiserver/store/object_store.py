"""Every object of the embedded cluster, in memory: one total order of versions, a history to watch, indexes to ask.

An object version is encoded once, when it is stored; where there are many, it is compressed when others were written since.
Lists and watches are joins of those bytes.
Stored bodies are never changed: a writer builds a new one (unchanged parts may be shared) and hands it to `put`.
"""

import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any

import msgspec

from embedded_apiserver.status_errors import expired

Body = dict[str, Any]
Address = tuple[str, str, str]
"""Bucket, namespace ("" for cluster-scoped) and name."""

HISTORY = 10_000
"""Events remembered per bucket; a watch that starts before them is answered 410."""
HISTORY_BYTES = 16 * 2**20
"""Bytes of the remembered versions of a bucket; the oldest events are forgotten first."""
DECODED = 2_000
"""Objects of a bucket that are kept decoded, the ones written last: this form takes three times the memory of the bytes."""
DECODED_BYTES = 8 * 2**20
"""The bytes of these objects at most."""
COMPRESSED_FROM = 20_000
"""With so many objects in a bucket, those that are not decoded are compressed from then on: it costs a write about 20 us."""
SIMILAR = 500
"""Of so many objects that are compressed one after another, the first is the dictionary: pods of one job differ in few bytes."""
_WINDOW, _MEMORY = -13, 5
"""For zlib: a window of 8 KiB without a header, and little memory for a call: a pod takes 10 us, and 3 us to read."""

encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class StoredObject:
    """One version of one object."""

    __slots__ = ("_body", "_content", "_dictionary", "name", "namespace", "size", "uid", "version")

    def __init__(self, namespace: str, name: str, uid: str, version: int, raw: bytes, body: Body | None) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.version = version
        self.size = len(raw)
        self._content = raw
        self._dictionary: bytes | None = None
        self._body = body

    @property
    def raw(self) -> bytes:
        """The bytes of the object."""
        if self._dictionary is None:
            return self._content
        return zlib.decompressobj(_WINDOW, self._dictionary).decompress(self._content)

    @property
    def body(self) -> Body:
        """The object; read only. One that was not written lately is decoded again at each use."""
        if self._body is None:
            return decode(self.raw)  # type: ignore[no-any-return]
        return self._body

    def copy(self) -> Body:
        """The object, free to be changed."""
        return decode(self.raw)  # type: ignore[no-any-return]

    def fade(self) -> None:
        """Keep the bytes only."""
        self._body = None

    def compress(self, dictionary: bytes) -> None:
        """Keep the bytes only, and these compressed with the bytes of a similar object."""
        self._body = None
        if self._dictionary is None and dictionary is not self._content:
            packer = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, dictionary)
            self._content, self._dictionary = packer.compress(self._content) + packer.flush(), dictionary

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels."""
        return self.body["metadata"].get("labels") or {}


class Event:
    """One change: `previous` is None for ADDED; for DELETED, `entry` is the last state with the deletion's version."""

    __slots__ = ("entry", "previous", "type", "version")

    def __init__(self, type_: str, entry: StoredObject, previous: StoredObject | None) -> None:
        self.type = type_
        self.entry = entry
        self.previous = previous
        self.version = entry.version


Listener = Callable[["Bucket", Event], None]


class Bucket:
    """The objects of one resource."""

    def __init__(self, name: str, history: int = HISTORY) -> None:
        self.name = name
        self.objects: dict[str, dict[str, StoredObject]] = {}
        self.history: deque[Event] = deque()
        self.limit = history
        self.compacted = 0
        self._history_bytes = 0
        self._decoded: OrderedDict[tuple[str, str], StoredObject] = OrderedDict()
        self._decoded_bytes = 0
        self._dictionary = b""
        self._compressed = 0
        self.watchers: dict[Callable[[Event], None], Callable[[], None]] = {}
        """In the order of their arrival, in which they get each event; with what ends each of them."""
        self.by_node: dict[str, dict[tuple[str, str], StoredObject]] | None = {} if name == "pods" else None
        self.count = 0

    def get(self, namespace: str, name: str) -> StoredObject | None:
        """The current version, or None."""
        names = self.objects.get(namespace)
        return names.get(name) if names is not None else None

    def entries(self, namespace: str | None = None) -> list[StoredObject]:
        """Current versions ordered by namespace and name; None means every namespace."""
        spaces = sorted(self.objects) if namespace is None else [namespace]
        entries: list[StoredObject] = []
        for space in spaces:
            names = self.objects.get(space)
            if names:
                entries.extend(names[name] for name in sorted(names))
        return entries

    def entries_at(
        self, version: int, namespace: str | None = None, after: tuple[str, str] = ("", "")
    ) -> list[StoredObject]:
        """The versions as they stood at `version`, of the names after one: the present, with later events undone.

        410 if they are forgotten.
        """
        if version < self.compacted:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            )
        undone: dict[tuple[str, str], StoredObject | None] = {}
        for event in reversed(self.since(version)):
            if namespace in {None, event.entry.namespace}:
                undone[event.entry.namespace, event.entry.name] = event.previous
        present = [e for e in self.entries(namespace) if (key := (e.namespace, e.name)) > after and key not in undone]
        if undone:
            present += [entry for key, entry in undone.items() if entry is not None and key > after]
            present.sort(key=lambda entry: (entry.namespace, entry.name))
        return present

    def on_node(self, node: str) -> list[StoredObject]:
        """Pods bound to the node, ordered."""
        entries = (self.by_node or {}).get(node, {})
        return [entries[key] for key in sorted(entries)]

    def since(self, version: int) -> list[Event]:
        """Events after `version`, oldest first. 410 if some of them are forgotten."""
        if version < self.compacted:
            raise expired(f"too old resource version: {version} ({self.compacted})")
        return [*takewhile(lambda event: event.version > version, reversed(self.history))][::-1]

    def record(self, event: Event) -> None:
        """Take the event into objects, index and history, and notify the watchers."""
        entry, previous = event.entry, event.previous
        if event.type == "DELETED":
            names = self.objects[entry.namespace]
            del names[entry.name]
            if not names:
                del self.objects[entry.namespace]
            self.count -= 1
        else:
            self.objects.setdefault(entry.namespace, {})[entry.name] = entry
            self.count += previous is None
        if self.by_node is not None:
            self._index_node(event)
        if previous is not None:
            previous.fade()
        if (replaced := self._decoded.pop((entry.namespace, entry.name), None)) is not None:
            self._decoded_bytes -= replaced.size
        if event.type != "DELETED":
            self.keep_decoded(entry)
        self.history.append(event)
        self._history_bytes += entry.size
        while len(self.history) > self.limit or self._history_bytes > HISTORY_BYTES:
            self._forget()
        for watcher in self.watchers:
            watcher(event)

    def keep_decoded(self, entry: StoredObject) -> None:
        """Keep an object decoded until others are written; then only its bytes, compressed where there are many objects."""
        self._decoded[entry.namespace, entry.name] = entry
        self._decoded_bytes += entry.size
        while len(self._decoded) > DECODED or (self._decoded_bytes > DECODED_BYTES and len(self._decoded) > 1):
            _, oldest = self._decoded.popitem(last=False)
            self._decoded_bytes -= oldest.size
            if self.count < COMPRESSED_FROM:
                oldest.fade()
                continue
            if self._compressed % SIMILAR == 0:
                self._dictionary = oldest.raw
            self._compressed += 1
            oldest.compress(self._dictionary)

    def _forget(self) -> None:
        forgotten = self.history.popleft()
        self._history_bytes -= forgotten.entry.size
        self.compacted = forgotten.version

    def compact(self, version: int) -> None:
        """Forget the events up to a version."""
        while self.history and self.history[0].version <= version:
            self._forget()

    def _index_node(self, event: Event) -> None:
        entry, previous = event.entry, event.previous
        assert self.by_node is not None
        key = (entry.namespace, entry.name)
        old = previous.body["spec"].get("nodeName") if previous is not None else None
        new = entry.body["spec"].get("nodeName") if event.type != "DELETED" else None
        if old and old != new:
            pods = self.by_node[old]
            pods.pop(key, None)
            if not pods:
                del self.by_node[old]
        if new:
            self.by_node.setdefault(new, {})[key] = entry


class Store:
    """All buckets, one version counter, and who owns whom. Nothing is remembered of the changes up to version `base`."""

    def __init__(self, history: int = HISTORY) -> None:
        self.version = 0
        self.buckets: dict[str, Bucket] = {}
        self.by_uid: dict[str, Address] = {}
        self.dependents: dict[str, dict[Address, None]] = {}
        self.listeners: list[Listener] = []
        self.journal: Listener | None = None
        """Called before a change takes effect; the change is given up if it raises."""
        self.base = 0
        self._history = history

    def compact(self, version: int) -> None:
        """Forget the changes up to a version: a watch that starts before it is answered 410."""
        for bucket in self.buckets.values():
            bucket.compact(version)

    def bucket(self, name: str) -> Bucket:
        """The bucket of that name, created at its first use."""
        bucket = self.buckets.get(name)
        if bucket is None:
            bucket = self.buckets[name] = Bucket(name, self._history)
            bucket.compacted = self.base
        return bucket

    def at(self, address: Address) -> StoredObject | None:
        """The current object at an address."""
        bucket = self.buckets.get(address[0])
        return bucket.get(address[1], address[2]) if bucket is not None else None

    def put(self, bucket: Bucket, body: Body) -> StoredObject:
        """Store a new version of the body (its resourceVersion is set here) and notify the watchers."""
        if next(iter(body)) != "kind":
            body = {"kind": body["kind"], "apiVersion": body["apiVersion"], **body}
        metadata = body["metadata"]
        namespace: str = metadata.get("namespace", "")
        name: str = metadata["name"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        entry = StoredObject(namespace, name, metadata["uid"], self.version, encode(body), body)
        previous = bucket.get(namespace, name)
        event = Event("ADDED" if previous is None else "MODIFIED", entry, previous)
        self._write_ahead(bucket, event)
        owners = metadata.get("ownerReferences")
        address = (bucket.name, namespace, name)
        if previous is None:
            self.by_uid[entry.uid] = address
            if owners:
                self._own(address, owners)
        else:
            before = previous.body["metadata"].get("ownerReferences")
            if before != owners:
                self._disown(address, before or ())
                self._own(address, owners or ())
        self._notify(bucket, event)
        return entry

    def remove(self, bucket: Bucket, entry: StoredObject) -> StoredObject:
        """Take the object out; the returned entry is its last state under the deletion's version."""
        body = dict(entry.body)
        self.version += 1
        body["metadata"] = metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        last = StoredObject(entry.namespace, entry.name, entry.uid, self.version, encode(body), None)
        event = Event("DELETED", last, entry)
        self._write_ahead(bucket, event)
        address = (bucket.name, entry.namespace, entry.name)
        self.by_uid.pop(entry.uid, None)
        self._disown(address, metadata.get("ownerReferences") or ())
        self._notify(bucket, event)
        return last

    def restore(self, bucket: Bucket, body: Body) -> None:
        """Take in an object that was stored in an earlier life: no event, no new version."""
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "")
        version = int(metadata["resourceVersion"])
        entry = StoredObject(namespace, metadata["name"], metadata["uid"], version, encode(body), body)
        bucket.keep_decoded(entry)
        address = (bucket.name, namespace, entry.name)
        bucket.objects.setdefault(namespace, {})[entry.name] = entry
        bucket.count += 1
        node = body["spec"].get("nodeName") if bucket.by_node is not None else None
        if node and bucket.by_node is not None:
            bucket.by_node.setdefault(node, {})[namespace, entry.name] = entry
        self.by_uid[entry.uid] = address
        self._own(address, metadata.get("ownerReferences") or ())
        self.version = max(self.version, version)

    def drop(self, name: str) -> None:
        """Forget an empty bucket, and end its watches: its kind is served no more, or not by the same definition."""
        bucket = self.buckets.pop(name, None)
        if bucket is not None:
            self.bucket(name).compacted = self.version  # a client that missed the deletions lists again
            for end in bucket.watchers.values():
                end()

    def owned_by(self, uid: str) -> list[Address]:
        """Who names this uid among its owners."""
        return list(self.dependents.get(uid, ()))

    def in_namespace(self, namespace: str) -> Iterator[tuple[Bucket, StoredObject]]:
        """Everything in a namespace; safe against changes on the way."""
        for bucket in list(self.buckets.values()):
            for entry in list(bucket.objects.get(namespace, {}).values()):
                yield bucket, entry

    def _own(self, address: Address, owners: Iterable[Body]) -> None:
        for owner in owners:
            self.dependents.setdefault(owner["uid"], {})[address] = None

    def _disown(self, address: Address, owners: Iterable[Body]) -> None:
        for owner in owners:
            held = self.dependents.get(owner["uid"])
            if held is not None:
                held.pop(address, None)
                if not held:
                    del self.dependents[owner["uid"]]

    def _write_ahead(self, bucket: Bucket, event: Event) -> None:
        if self.journal is not None:
            try:
                self.journal(bucket, event)
            except BaseException:
                self.version -= 1
                raise

    def _notify(self, bucket: Bucket, event: Event) -> None:
        bucket.record(event)
        for listener in self.listeners:
            listener(bucket, event)
