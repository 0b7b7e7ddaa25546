"""The objects of a what-if question: the scheduler's state and the workloads of the controllers, with undo.

A question applies a change, runs controllers and scheduler, and takes everything back, at a cost that follows what changed
and not the size of the cluster. Manifests keep the fields that the scheduler does not read, so that a changed object is whole.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import numpy as np
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.api.model import Json
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import READY
from volcanopy.whatif import kinds
from volcanopy.whatif.kinds import KINDS, WORKLOADS, ManifestError

Key = tuple[str, str]
"""Kind and ``namespace/name`` of an object."""
_READY: list[int] = np.flatnonzero(READY).tolist()


class Cluster:
    """Objects by kind and key: read models of the scheduler's kinds, manifests of the controllers' kinds."""

    def __init__(
        self,
        objects: Iterable[Object] = (),
        scheduler_names: Iterable[str] = (names.SCHEDULER, ""),
        default_queue: str = names.DEFAULT_QUEUE,
    ) -> None:
        self.state = State(scheduler_names, default_queue)
        self.objects: dict[Key, Any] = {}
        self.bodies: dict[Key, Json] = {}
        """Manifests of read models that came as manifests."""
        self.owned: dict[str, dict[str, None]] = {}
        """Pods by the uid of their controller."""
        self.members: dict[str, dict[str, None]] = {}
        """Pods by the key of their pod group, whatever their scheduler."""
        self.terminating: dict[str, None] = {}
        """Pods that are being deleted."""
        self._journal: list[tuple[Key, Any, Json | None]] = []
        pods: list[core.Pod] = []
        for item in objects:
            if isinstance(item, core.Pod):
                pods.append(item)
                self.objects["Pod", item.metadata.key] = item
                self._index(item, present=True)
            else:
                self.put(item)
        self.state.load(pods)
        self._journal.clear()

    # Changes

    def put(self, item: Any, body: Json | None = None) -> None:
        """Insert or replace a read model; ``body`` is its manifest, if it has one."""
        key = (type(item).__name__, item.metadata.key)
        self._remember(key)
        before = self.objects.get(key)
        if isinstance(before, core.Pod):
            self._index(before, present=False)
        self.objects[key] = item
        if body is None:
            self.bodies.pop(key, None)
        else:
            self.bodies[key] = body
        if isinstance(item, core.Pod):
            self._index(item, present=True)
        self.state.upsert(item)

    def put_manifest(self, body: Json) -> bool:
        """Insert or replace an object by its manifest; return whether its kind is known. Raises ManifestError."""
        identity = (kinds.group_of(body), str(body.get("kind")))
        known = KINDS.get(identity)
        if known is not None:
            body = kinds.with_namespace(body, known.namespaced)
            self.put(kinds.read(body, known), body)
            return True
        if identity not in WORKLOADS:
            return False
        body = kinds.with_namespace(body, WORKLOADS[identity])
        self.put_workload(body)
        return True

    def put_workload(self, body: Json) -> None:
        """Insert or replace an object of the controllers."""
        key = (str(body["kind"]), kinds.key_of(body))
        self._remember(key)
        self.objects[key] = body

    def remove(self, kind: str, key: str) -> None:
        """Remove an object; nothing happens if it does not exist."""
        item = self.objects.get((kind, key))
        if item is None:
            return
        self._remember((kind, key))
        del self.objects[kind, key]
        self.bodies.pop((kind, key), None)
        if isinstance(item, core.Pod):
            self._index(item, present=False)
        if not isinstance(item, dict):
            self.state.delete(item)

    def _remember(self, key: Key) -> None:
        self._journal.append((key, self.objects.get(key), self.bodies.get(key)))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back all changes at the end of the block."""
        begin = len(self._journal)
        try:
            yield
        finally:
            first: dict[Key, tuple[Any, Json | None]] = {}
            for key, item, body in self._journal[begin:]:
                first.setdefault(key, (item, body))
            for key, (item, body) in first.items():
                self._restore(key, item, body)
            del self._journal[begin:]

    def _restore(self, key: Key, item: Any, body: Json | None) -> None:
        now = self.objects.get(key)
        if now is item:
            return
        if item is None:
            self.remove(*key)
        elif isinstance(item, dict):
            self.objects[key] = item
        else:
            self.put(item, body)

    def _index(self, pod: core.Pod, *, present: bool) -> None:
        self.terminating.pop(pod.metadata.key, None)
        if present and pod.metadata.deletion_timestamp is not None:
            self.terminating[pod.metadata.key] = None
        controller = pod.metadata.controller
        for table, name in ((self.owned, controller.uid if controller else ""), (self.members, pod_fields.job_key(pod))):
            if not name:
                continue
            if present:
                table.setdefault(name, {})[pod.metadata.key] = None
            elif pods := table.get(name):
                pods.pop(pod.metadata.key, None)
                if not pods:
                    del table[name]

    # Reads

    def body(self, kind: str, key: str) -> Json:
        """Return the manifest of an object. Raises KeyError."""
        item = self.objects[kind, key]
        if isinstance(item, dict):
            return item
        body = self.bodies.get((kind, key))
        return kinds.body_of(item) if body is None else body

    def of_kind(self, kind: str) -> dict[str, Any]:
        """Return the objects of a kind by key, ordered by key."""
        return {key: self.objects[kind, key] for key in sorted(key for of, key in self.objects if of == kind)}

    def pod(self, key: str) -> core.Pod | None:
        """Return a pod, if it exists."""
        pod = self.objects.get(("Pod", key))
        return pod if isinstance(pod, core.Pod) else None

    def group(self, key: str) -> core.PodGroup | None:
        """Return a pod group, if it exists."""
        group = self.objects.get(("PodGroup", key))
        return group if isinstance(group, core.PodGroup) else None

    def pods_of_group(self, key: str) -> list[core.Pod]:
        """Return the pods that name a pod group, ordered by key."""
        return [self.objects["Pod", pod] for pod in sorted(self.members.get(key, ()))]

    def pods_of_owner(self, uid: str) -> list[core.Pod]:
        """Return the pods that an object controls, ordered by key."""
        return [self.objects["Pod", pod] for pod in sorted(self.owned.get(uid, ()))]

    def is_started(self, group: str) -> bool:
        """Whether as many pods of a gang have a node, or have succeeded, as it and each of its tasks require."""
        state = self.state
        row = state.jobs.rows.get(group)
        if row is None or state.jobs.plain["groups"][row] is None:
            return False
        ready = int(state.jobs.counts["counts"][_READY, row].sum())
        if ready < max(int(state.jobs.plain["min_available"][row]), 1):
            return False
        roles = state.job_roles.get(row, {}).values()
        minimum, counts = state.roles.plain["minimum"], state.roles.counts["counts"]
        return all(int(counts[_READY, role].sum()) >= int(minimum[role]) for role in roles)

    def snapshot(self, now: datetime, session: str) -> Snapshot:
        """Return the scheduler's snapshot."""
        return self.state.snapshot(now, session)

    def settle_assumed(self, binding: Mapping[str, str], evicting: Iterable[str], now: datetime) -> None:
        """Bind and evict the pods for which the cycle before has decided that."""
        for key, node in binding.items():
            if (pod := self.pod(key)) is not None:
                self.put(replace(pod, spec=replace(pod.spec, node_name=node)))
        for key in evicting:
            if (pod := self.pod(key)) is not None:
                self.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=now)))


__all__ = ["Cluster", "Key", "ManifestError"]
