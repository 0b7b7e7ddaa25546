"""The workloads that pods belong to: what they say of their pods, whatever kind they are.

ReplicaSets and StatefulSets are watched, because what they say may change while their pods stay. Of any other kind
that has pods, known to us or not, the object itself is read when a pod of it comes.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from volcanopy.api.core import Meta, OwnerReference, ReadModel
from volcanopy.jobcontroller.workload_podgroups import Owner, said_by_owner
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Forbidden, NotFound
from volcanopy.kube.client.kinds import Kind

log = logging.getLogger(__name__)

GOOD_FOR = 5.0
"""Seconds that what was read of an owner is taken for its present state."""
_REMEMBERED = 10_000


class WorkloadSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """How many pods a workload has; None where it does not count them."""

    replicas: int | None = None


class Workload(ReadModel, frozen=True, kw_only=True, gc=False):
    """The part of a workload that its PodGroup follows from."""

    metadata: Meta
    spec: WorkloadSpec = WorkloadSpec()


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct):
    resources: list[_Resource]


class _Read(NamedTuple):
    at: float
    owner: Owner | None


REPLICA_SETS = Kind("apps", "v1", "ReplicaSet", "replicasets", True, Workload)
STATEFUL_SETS = Kind("apps", "v1", "StatefulSet", "statefulsets", True, Workload)


def slim(workload: Workload) -> Workload:
    """A workload without what does not concern its PodGroup."""
    meta = workload.metadata
    lean = msgspec.structs.replace(meta, annotations=said_by_owner(meta.annotations), labels={})
    return msgspec.structs.replace(workload, metadata=lean)


class WorkloadOwners:
    """What workloads say. ``changed`` is called with the namespace and the uid of one that says something else now."""

    def __init__(self, client: Client, changed: Callable[[str, str], None]) -> None:
        self._client, self._changed = client, changed
        self._watched: dict[str, Workload] = {}
        self._read: OrderedDict[str, _Read] = OrderedDict()
        self._kinds: dict[tuple[str, str], Kind[Workload] | None] = {}

    def changes(self, changes: Sequence[Change[Workload]]) -> None:
        """ReplicaSets or StatefulSets have changed."""
        for change in changes:
            now, meta = change.object, change.object.metadata
            if change.type is ChangeType.DELETED:
                self._watched.pop(meta.uid, None)
                continue
            before = self._watched.get(meta.uid)
            self._watched[meta.uid] = now
            if before is None or _owner(before) != _owner(now):
                self._changed(meta.namespace, meta.uid)

    async def of(self, reference: OwnerReference, namespace: str) -> tuple[Owner | None, float]:
        """What a workload says, None if it is gone; and in how many seconds to ask again, 0 if that is not needed.

        Raises KubeError, except that a kind that we may not read, or that nobody serves, says nothing.
        """
        watched = self._watched.get(reference.uid)
        if watched is not None:
            return _owner(watched), 0.0
        now = asyncio.get_running_loop().time()
        known = self._read.get(reference.uid)
        if known is not None and now - known.at < GOOD_FOR:
            # It may say something else by now, and nobody would tell.
            return known.owner, known.at + GOOD_FOR - now
        known = self._read[reference.uid] = _Read(now, await self._look_up(reference, namespace))
        self._read.move_to_end(reference.uid)
        if len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)
        return known.owner, 0.0

    async def _look_up(self, reference: OwnerReference, namespace: str) -> Owner | None:
        kind = await self._kind(reference)
        if kind is None:
            return Owner()
        try:
            found = await self._client.get(kind, namespace if kind.namespaced else None, reference.name)
        except NotFound:
            return None
        except Forbidden as fault:
            log.warning("annotations of %s %s/%s are not heeded: %s", kind.kind, namespace, reference.name, fault)
            return Owner()
        return _owner(found) if found.metadata.uid == reference.uid else None

    async def _kind(self, reference: OwnerReference) -> Kind[Workload] | None:
        """The kind of an owner as the server serves it; None where it does not."""
        about = reference.api_version, reference.kind
        if about not in self._kinds:
            group, _, version = reference.api_version.rpartition("/")
            try:
                answer = await self._client.get_raw(f"/apis/{group}/{version}" if group else f"/api/{version}")
            except (NotFound, Forbidden):
                return None
            served = msgspec.json.decode(answer, type=_Resources).resources
            one = next((one for one in served if one.kind == reference.kind and "/" not in one.name), None)
            if one is None:
                return None
            self._kinds[about] = Kind(group, version, one.kind, one.name, one.namespaced, Workload)
        return self._kinds[about]


def _owner(workload: Workload) -> Owner | None:
    """What a workload says; one that is on its way out counts as gone, since its PodGroup goes with it."""
    if workload.metadata.deletion_timestamp is not None:
        return None
    return Owner(said_by_owner(workload.metadata.annotations), workload.spec.replicas)
