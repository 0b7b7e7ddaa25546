"""The objects of a what-if question: the scheduler's state and the workloads of the controllers, with undo.

A question applies a change, runs controllers and scheduler, and takes everything back, at a cost that follows what changed
and not the size of the cluster. Manifests keep the fields that the scheduler does not read, so that a changed object is whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.api.builtin import pod_claims
from volcanopy.api.model import Json
from volcanopy.scheduler.cache.claim_cache import assume_devices, assume_volume
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.model.task_status import READY
from volcanopy.whatif import kinds
from volcanopy.whatif.kinds import KINDS, WORKLOADS

T = TypeVar("T")
Key = tuple[str, str]
"""Kind and ``namespace/name`` of an object."""
_OF_JOBS = (core.Pod, core.PodGroup)
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
        self.keys: dict[str, dict[str, None]] = {}
        """The keys of the objects of each kind."""
        self.changed_jobs: set[str] = set()
        """Keys of BatchJobs that changed, or whose pods or pod group did, since the job controller handled them."""
        self.bodies: dict[Key, Json] = {}
        """Manifests of read models that came as manifests."""
        self.owned: dict[str, dict[str, None]] = {}
        """Pods by the uid of their controller."""
        self.members: dict[str, dict[str, None]] = {}
        """Pods by the key of their pod group, whatever their scheduler."""
        self.terminating: dict[str, None] = {}
        """Pods that are being deleted."""
        self._journal: list[tuple[Key, Any, Json | None]] = []
        self._computed: dict[object, Any] = {}
        pods: list[core.Pod] = []
        for item in objects:
            if isinstance(item, core.Pod):
                pods.append(item)
                self._set(("Pod", item.metadata.key), item)
            else:
                self.put(item)
        self.state.load(pods)
        self.commit()

    # Changes

    def put(self, item: Any, body: Json | None = None) -> None:
        """Insert or replace a read model; ``body`` is its manifest, if it has one."""
        key = (type(item).__name__, item.metadata.key)
        self._set(key, item, body)
        self.state.upsert(item)
        if isinstance(item, core.Pod) and pod_fields.is_over(item):
            self._release(item)

    def put_copies(self, pods: Sequence[core.Pod]) -> None:
        """Insert new pods of a job of this scheduler that are equal but for names and task numbers."""
        for pod in pods:
            self._set(("Pod", pod.metadata.key), pod)
        self.state.insert_copies(pods)

    def put_manifest(self, body: Json) -> bool:
        """Insert or replace an object by its manifest; return whether its kind is known. Raises ManifestError."""
        identity = (kinds.group_of(body), str(body.get("kind")))
        kind = KINDS.get(identity)
        if kind is not None:
            body = kinds.with_namespace(body, kind.namespaced)
            self.put(kinds.read(body, kind), body)
            return True
        if identity not in WORKLOADS:
            return False
        body = kinds.with_namespace(body, WORKLOADS[identity])
        self.put_workload(body)
        return True

    def put_workload(self, body: Json) -> None:
        """Insert or replace an object of the controllers."""
        self._set((str(body["kind"]), kinds.key_of(body)), body)

    def remove(self, kind: str, key: str) -> None:
        """Remove an object; nothing happens if it does not exist."""
        item = self.objects.get((kind, key))
        if item is None:
            return
        self._set((kind, key), None)
        if not isinstance(item, dict):
            self.state.delete(item)
        if isinstance(item, core.Pod):
            self._release(item)

    def bind_claims(self, bind: Bind) -> None:
        """Give the claims of a pod the volumes and devices of its bind."""
        pod = self.pod(bind.pod)
        if bind.claims is None or pod is None:
            return
        by_kind: dict[str, dict[str, Any]] = {
            "PersistentVolumeClaim": {choice.claim: None for choice in bind.claims.volumes},
            "PersistentVolume": {choice.volume: None for choice in bind.claims.volumes if choice.volume},
            "ResourceClaim": {choice.claim: None for choice in bind.claims.devices},
        }
        for kind, items in by_kind.items():
            items.update((key, self.objects[kind, key]) for key in items)
        for volume in bind.claims.volumes:
            assume_volume(volume, bind.node, by_kind["PersistentVolumeClaim"], by_kind["PersistentVolume"])
        for device in bind.claims.devices:
            assume_devices(device, pod.metadata.name, pod.metadata.uid, by_kind["ResourceClaim"])
        for items in by_kind.values():
            for item in items.values():
                self.put(item)

    def _release(self, pod: core.Pod) -> None:
        """Take back devices and cpus of a pod that has ended, as the controller of claims and the agent of its node do."""
        for requested in pod_claims.devices(pod) if pod.spec.resource_claims else ():
            claim = self.objects.get(("ResourceClaim", requested.key))
            users = claim.status.reserved_for if claim is not None else ()
            other_users = tuple(user for user in users if user.uid != pod.metadata.uid)
            if claim is not None and len(other_users) < len(users):
                allocation = claim.status.allocation if other_users else None
                self.put(replace(claim, status=replace(claim.status, reserved_for=other_users, allocation=allocation)))
        report = self.objects.get(("NumaTopology", pod.spec.node_name))
        if report is not None:
            pods = {pod.metadata.uid, pod.metadata.key}
            cpus = report.spec.pod_allocations
            rest = tuple(entry for entry in cpus if (entry.uid or f"{entry.namespace}/{entry.name}") not in pods)
            if len(rest) < len(cpus):
                self.put(replace(report, spec=replace(report.spec, pod_allocations=rest)))

    def commit(self) -> None:
        """Keep all changes so far: later trials do not take them back."""
        self._journal.clear()
        self._computed.clear()
        self.changed_jobs.clear()

    def _set(self, key: Key, item: Any, body: Json | None = None) -> None:
        before = self.objects.get(key)
        self._journal.append((key, before, self.bodies.pop(key, None)))
        if body is not None:
            self.bodies[key] = body
        if before is not None and isinstance(item, _OF_JOBS) and before.metadata is item.metadata:
            self.objects[key] = item
            if item.metadata.owner_references:
                self._note_changed_job(item)  # the indices follow from the metadata
            return
        if before is not None:
            self._index(key, before, present=False)
        if item is None:
            del self.objects[key]
        else:
            self.objects[key] = item
            self._index(key, item, present=True)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back all changes at the end of the block."""
        begin, changed_jobs = len(self._journal), set(self.changed_jobs)
        try:
            yield
        finally:
            first: dict[Key, tuple[Any, Json | None]] = {}
            for key, item, body in self._journal[begin:]:
                first.setdefault(key, (item, body))
            removed_pods: list[core.Pod] = []
            for key, (item, body) in first.items():
                if isinstance(item, core.Pod) and key not in self.objects:
                    removed_pods.append(item)
                    self._set(key, item, body)
                else:
                    self._restore(key, item, body)
            self.state.load(removed_pods)
            del self._journal[begin:]
            self.changed_jobs = changed_jobs

    def mark(self) -> int:
        """Return the present point in the history of changes."""
        return len(self._journal)

    def changes_since(self, mark: int) -> list[Key]:
        """Return the keys of the objects that changed since a point, each once, in the order of their first change."""
        first: dict[Key, Any] = {}
        for key, item, _ in self._journal[mark:]:
            first.setdefault(key, item)
        return [key for key, item in first.items() if self.objects.get(key) is not item]

    def bodies_since(self, mark: int, kind: str) -> dict[Key, Json | None]:
        """Return what the objects of a kind that changed since a point were there; None for those that are new."""
        first: dict[Key, Json | None] = {}
        for key, item, body in self._journal[mark:]:
            if key[0] == kind and key not in first:
                first[key] = item if item is None or isinstance(item, dict) else body or kinds.body_of(item)
        return first

    def without(self, is_removed: Callable[[Key, Any], bool]) -> "Cluster":
        """Return a new cluster with the objects for which ``is_removed`` is false."""
        objects = {key: item for key, item in self.objects.items() if not is_removed(key, item)}
        cluster = Cluster(
            (item for item in objects.values() if not isinstance(item, dict)),
            self.state.scheduler_names,
            self.state.default_queue,
        )
        for item in objects.values():
            if isinstance(item, dict):
                cluster.put_workload(item)
        cluster.bodies.update((key, body) for key, body in self.bodies.items() if key in objects)
        for key, item in self.objects.items():
            if key not in objects and isinstance(item, core.Pod):
                cluster._release(item)
        cluster.commit()
        return cluster

    def once(self, compute: "Callable[[Cluster], T]") -> T:
        """``compute(cluster)``, kept while nothing has changed since the last :meth:`commit`."""
        if self._journal:
            return compute(self)
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        result: T = self._computed[compute]
        return result

    def copy(self, source: "Cluster", keys: Iterable[Key]) -> None:
        """Insert objects of another cluster, which the job controller has handled."""
        for key in keys:
            item = source.objects[key]
            if isinstance(item, dict):
                self.put_workload(item)
            else:
                self.put(item, source.bodies.get(key))
        self.changed_jobs.clear()

    def _restore(self, key: Key, item: Any, body: Json | None) -> None:
        if self.objects.get(key) is item:
            return
        if item is None:
            self.remove(*key)
        elif isinstance(item, dict):
            self._set(key, item)
        else:
            self.put(item, body)

    def _index(self, key: Key, item: Any, *, present: bool) -> None:
        kind, name = key
        _toggle(self.keys, kind, name, present=present)
        if kind == "BatchJob":
            self.changed_jobs.add(name)
        elif kind == "Command":
            self.changed_jobs.add(f"{name.partition('/')[0]}/{(item.get('target') or {}).get('name')}")
        elif isinstance(item, _OF_JOBS):
            controller = self._note_changed_job(item) if item.metadata.owner_references else None
            if isinstance(item, core.Pod):
                if controller is not None:
                    _toggle(self.owned, controller.uid, name, present=present)
                _toggle(self.members, pod_fields.job_key(item), name, present=present)
                self.terminating.pop(name, None)
                if present and item.metadata.deletion_timestamp is not None:
                    self.terminating[name] = None

    def _note_changed_job(self, item: core.Pod | core.PodGroup) -> core.OwnerReference | None:
        """Note the job of a pod or pod group as changed; return its controller."""
        controller = item.metadata.controller
        if controller is not None and controller.kind == "BatchJob":
            self.changed_jobs.add(f"{item.metadata.namespace}/{controller.name}")
        return controller

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
        return {key: self.objects[kind, key] for key in sorted(self.keys.get(kind, ()))}

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
        count_due(state)
        ready = int(state.jobs.amounts["counts"][_READY, row].sum())
        if ready < max(int(state.jobs.plain["min_available"][row]), 1):
            return False
        roles = state.job_roles.get(row, {}).values()
        minimum, counts = state.roles.plain["minimum"], state.roles.amounts["counts"]
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


def _toggle(table: dict[str, dict[str, None]], entry: str, name: str, *, present: bool) -> None:
    if present and entry:
        table.setdefault(entry, {})[name] = None
    elif names_of := table.get(entry):
        names_of.pop(name, None)
        if not names_of:
            del table[entry]
