"""What follows a deletion: dependents of what is gone, and the contents of namespaces that end.

Both run beside the requests, a few objects at a time, so that a large clean-up delays no request.
"""

import asyncio
from collections import deque

import structlog

from embedded_apiserver.context import Context
from embedded_apiserver.crud.delete import FOREGROUND, ORPHAN, DeleteOptions, remove
from embedded_apiserver.crud.write import finished, release
from embedded_apiserver.status_errors import ApiError
from embedded_apiserver.store.object_store import Address, Body, Bucket, Event, StoredObject

BATCH = 64
"""Objects looked at before other requests get their turn."""
RETRY = 1.0
"""Seconds before another attempt after an error."""

log = structlog.get_logger(__name__)


class Collector:
    """The garbage collector and the namespace emptier of one server."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._suspects: deque[Address] = deque()
        self._leaving: deque[str] = deque()
        self._ending: set[str] = set()
        self._wake = asyncio.Event()
        ctx.store.listeners.append(self._changed)

    def owner_leaving(self, uid: str) -> None:
        """An owner is marked for deletion: its propagation policy may need work."""
        self._leaving.append(uid)
        self._wake.set()

    def namespace_ending(self, name: str) -> None:
        """A namespace is to be emptied."""
        self._ending.add(name)
        self._wake.set()

    def resume(self) -> None:
        """Take up what an earlier life of the server left undone."""
        store = self._ctx.store
        for entry in store.bucket("namespaces").entries():
            if "deletionTimestamp" in entry.body["metadata"]:
                self._ending.add(entry.name)
        for uid, addresses in store.dependents.items():
            self._suspects.extend(addresses)
            self._leaving.append(uid)
        self._wake.set()

    def _changed(self, bucket: Bucket, event: Event) -> None:
        entry = event.entry
        if event.type == "DELETED":
            dependents = self._ctx.store.dependents.get(entry.uid)
            if dependents:
                self._suspects.extend(dependents)
                self._wake.set()
            if entry.namespace in self._ending:
                self._wake.set()
            self._notify_owners(entry)
        elif event.type == "ADDED":
            owners = entry.body["metadata"].get("ownerReferences")
            if owners and any(owner["uid"] not in self._ctx.store.by_uid for owner in owners):
                self._suspects.append((bucket.name, entry.namespace, entry.name))
                self._wake.set()
        elif bucket.name == "namespaces" and entry.name in self._ending:
            self._wake.set()
        elif "deletionTimestamp" in entry.body["metadata"]:
            self._leaving.append(entry.uid)
            self._wake.set()

    def _notify_owners(self, entry: StoredObject) -> None:
        """An owner that waits for its dependents may be free now."""
        if b'"ownerReferences":' not in entry.raw:
            return
        for owner in entry.body["metadata"].get("ownerReferences") or ():
            address = self._ctx.store.by_uid.get(owner["uid"])
            holder = self._ctx.store.at(address) if address is not None else None
            if holder is not None and "deletionTimestamp" in holder.body["metadata"]:
                self._leaving.append(owner["uid"])
                self._wake.set()

    async def run(self) -> None:
        """Work until cancelled. After an error, such as a full disk, everything is looked at again."""
        while True:
            try:
                await self._work()
            except Exception as error:
                expected = isinstance(error, ApiError)  # its message is enough
                log.error("garbage collection failed, it is tried again", error=str(error), exc_info=not expected)
                await asyncio.sleep(RETRY)
                self.resume()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._suspects or self._leaving:
                for _ in range(BATCH):
                    if self._leaving:
                        self._leave(self._leaving.popleft())
                    elif self._suspects:
                        self._judge(self._suspects.popleft())
                await asyncio.sleep(0)
            for name in sorted(self._ending):
                await self._empty(name)

    def _judge(self, address: Address) -> None:
        """Delete an object whose owners are all gone; take dead owners off one that has others."""
        store = self._ctx.store
        entry = store.at(address)
        if entry is None:
            return
        metadata = entry.body["metadata"]
        owners: list[Body] = metadata.get("ownerReferences") or []
        alive = [owner for owner in owners if self._exists(owner, entry.namespace)]
        if not owners or len(alive) == len(owners):
            return
        kind = self._ctx.registry.of_bucket(address[0])
        if kind is None:
            return
        waiting = [owner for owner in alive if self._waits(owner)]
        if alive and len(waiting) < len(alive):
            made = {**entry.body, "metadata": {**metadata, "ownerReferences": alive}}
            store.put(store.bucket(address[0]), made)
            return
        if "deletionTimestamp" not in metadata:
            remove(self._ctx, kind, entry, DeleteOptions({"propagationPolicy": "Background"}))

    def _exists(self, owner: Body, namespace: str) -> bool:
        """The owner lives. An owner of a kind that is not served cannot be looked for, and counts as living."""
        address = self._ctx.store.by_uid.get(owner["uid"])
        if address is None:
            return self._ctx.registry.named(owner.get("apiVersion", ""), owner.get("kind", "")) is None
        return address[1] in {"", namespace} and address[2] == owner.get("name")

    def _waits(self, owner: Body) -> bool:
        """The owner is being deleted in the foreground: it goes when its dependents have gone."""
        address = self._ctx.store.by_uid.get(owner["uid"])
        entry = self._ctx.store.at(address) if address is not None else None
        return entry is not None and FOREGROUND in (entry.body["metadata"].get("finalizers") or ())

    def _leave(self, uid: str) -> None:
        """Carry out the propagation policy of an owner that is marked for deletion."""
        store = self._ctx.store
        address = store.by_uid.get(uid)
        entry = store.at(address) if address is not None else None
        if address is None or entry is None or "deletionTimestamp" not in entry.body["metadata"]:
            return
        finalizers = entry.body["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for dependent in store.owned_by(uid):
                self._orphan(dependent, uid)
            release(store, store.bucket(address[0]), entry, ORPHAN)
        elif FOREGROUND in finalizers:
            blocked = False
            for dependent in store.owned_by(uid):
                blocked = self._press(dependent, uid) or blocked
            if not blocked:
                current = store.at(address)
                if current is not None:
                    release(store, store.bucket(address[0]), current, FOREGROUND)

    def _orphan(self, address: Address, uid: str) -> None:
        entry = self._ctx.store.at(address)
        if entry is None:
            return
        metadata = {**entry.body["metadata"]}
        left = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] != uid]
        if left:
            metadata["ownerReferences"] = left
        else:
            metadata.pop("ownerReferences", None)
        self._ctx.store.put(self._ctx.store.bucket(address[0]), {**entry.body, "metadata": metadata})

    def _press(self, address: Address, uid: str) -> bool:
        """Delete one dependent of an owner that waits; true if the owner has to wait for it."""
        store = self._ctx.store
        entry = store.at(address)
        kind = self._ctx.registry.of_bucket(address[0])
        if entry is None or kind is None:
            return False
        owners: list[Body] = entry.body["metadata"].get("ownerReferences") or []
        solid = [o for o in owners if o["uid"] != uid and self._exists(o, entry.namespace) and not self._waits(o)]
        if solid:
            self._orphan(address, uid)
            return False
        if "deletionTimestamp" not in entry.body["metadata"]:
            policy = "Foreground" if store.owned_by(entry.uid) else "Background"
            remove(self._ctx, kind, entry, DeleteOptions({"propagationPolicy": policy}))
        blocking = any(owner.get("blockOwnerDeletion") for owner in owners if owner["uid"] == uid)
        return blocking and store.at(address) is not None

    async def _empty(self, name: str) -> None:
        """Delete what is in a namespace, and the namespace when nothing is left."""
        store = self._ctx.store
        namespaces = store.bucket("namespaces")
        if namespaces.get("", name) is None:
            self._ending.discard(name)
            return
        left = 0
        for number, (bucket, entry) in enumerate(store.in_namespace(name)):
            kind = self._ctx.registry.of_bucket(bucket.name)
            if kind is None:
                store.remove(bucket, entry)
                continue
            left += 1
            if "deletionTimestamp" not in entry.body["metadata"]:
                left -= remove(self._ctx, kind, entry, DeleteOptions({"propagationPolicy": "Background"})) is None
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
        entry_now = namespaces.get("", name)
        if left or entry_now is None:
            return
        body = entry_now.body
        if (body.get("spec") or {}).get("finalizers"):
            made = {
                **body,
                "spec": {**body["spec"], "finalizers": [f for f in body["spec"]["finalizers"] if f != "kubernetes"]},
            }
        else:
            made = body
        if finished(made):
            store.remove(namespaces, entry_now)
            self._ending.discard(name)
        elif made is not body:
            store.put(namespaces, made)
