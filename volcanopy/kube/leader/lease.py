"""A Lease (``coordination.k8s.io/v1``) as a lock with optimistic concurrency.

This module only reads and writes the lock; :mod:`volcanopy.kube.leader.elector` decides who may take it, and when. Each
write has the resource version of the last read, so of two concurrent writes one is rejected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import LEASES


class LeaseChanged(KubeError):
    """The Lease has changed since it was read: by another process, or by an own write whose response was lost."""


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a Lease. ``duration`` is in seconds; ``holder`` is empty for a released Lease."""

    holder: str
    duration: int
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0
    """The number of changes of the holder."""


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease as last read or written: its record, and the object, to write back the other fields."""

    record: Record
    object: Json


class Lock(Protocol):
    """The storage of the record."""

    async def read(self, deadline: float) -> ObservedLease | None:
        """Read the Lease, None if there is none. Raises KubeError, also at the deadline (seconds)."""

    async def write(self, record: Record, basis: ObservedLease | None, deadline: float) -> ObservedLease:
        """Replace ``basis`` by the record; None creates the Lease. Raises LeaseChanged when it has changed."""

    async def follow(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` when the Lease may have changed, until cancelled. Only a hint, correctness must not depend on it."""


class LeaseLock:
    """The lock as a Lease on an API server."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = client, namespace, name

    def __str__(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    async def read(self, deadline: float) -> ObservedLease | None:
        """Read the Lease."""
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name, deadline=deadline)
        except NotFound:
            return None
        return ObservedLease(_record(lease), lease)

    async def write(self, record: Record, basis: ObservedLease | None, deadline: float) -> ObservedLease:
        """Replace the Lease that was read."""
        try:
            if basis is None:
                metadata = {"name": self._name, "namespace": self._namespace}
                made = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
                body = {**made, "spec": _spec(record)}
                written = await self._client.create(LEASES, self._namespace, body, deadline=deadline)
            else:
                body = {**basis.object, "spec": {**(basis.object.get("spec") or {}), **_spec(record)}}
                written = await self._client.update(LEASES, self._namespace, self._name, body, deadline=deadline)
        except (AlreadyExists, Conflict) as error:
            raise LeaseChanged(str(error)) from error
        except NotFound as error:
            if basis is None:
                # The namespace is missing: report it, and retry.
                raise
            raise LeaseChanged(str(error)) from error
        return ObservedLease(record, written)

    async def follow(self, changed: Callable[[], object]) -> None:
        """Watch the Lease, so that its release is seen at once."""
        watch = Reflector(self._client, LEASES, self._namespace, field_selector=f"metadata.name={self._name}")
        await watch.run(lambda _: changed())


def _record(lease: Json) -> Record:
    spec: Json = lease.get("spec") or {}
    return Record(
        holder=spec.get("holderIdentity") or "",
        duration=spec.get("leaseDurationSeconds") or 0,
        acquired=_moment(spec.get("acquireTime")),
        renewed=_moment(spec.get("renewTime")),
        transitions=spec.get("leaseTransitions") or 0,
    )


def _spec(record: Record) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration,
        "acquireTime": _stamp(record.acquired),
        "renewTime": _stamp(record.renewed),
        "leaseTransitions": record.transitions,
    }


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
