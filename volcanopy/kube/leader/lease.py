"""A Lease (``coordination.k8s.io/v1``) as a lock that one of several processes holds for as long as it renews it.

Here is only how such a lock is read and written; who may take it, and when, is decided in ``leader``. Each write is on
condition that the Lease is as it was when it was last read, so of two that write at once one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from volcanopy.kube.client.kinds import Json, Kind

LEASES: Kind[Json] = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, dict)


class LeaseChanged(KubeError):
    """The Lease is not as it was when it was read: somebody else has written, or our own lost write has arrived."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says. ``duration`` is in seconds; ``holder`` is empty when nobody holds it."""

    holder: str
    duration: int
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0
    """How often it has passed from one holder to another."""


@dataclass(frozen=True, slots=True)
class ObservedLease:
    """A Lease as it was read or written last: what it says, and the object, to write back what is not ours."""

    record: Record
    object: Json


class Lock(Protocol):
    """Where the record is kept."""

    async def read(self, deadline: float) -> ObservedLease | None:
        """The Lease as it is now, None if there is none. Raises KubeError when that cannot be found out in time."""

    async def write(self, record: Record, basis: ObservedLease | None, deadline: float) -> ObservedLease:
        """Write the record over ``basis``; None makes the Lease. Raises Overtaken when it is not so any more."""

    async def follow(self, changed: Callable[[], object]) -> None:
        """Call when the Lease may have changed, until cancelled. A hint: nothing depends on its coming, or its coming soon."""


class LeaseLock:
    """The lock as a Lease on an API server."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = client, namespace, name

    def __str__(self) -> str:
        return f"lease {self._namespace}/{self._name}"

    async def read(self, deadline: float) -> ObservedLease | None:
        """The Lease as it is now."""
        try:
            found = await self._client.get(LEASES, self._namespace, self._name, deadline=deadline)
        except NotFound:
            return None
        return ObservedLease(_record(found), found)

    async def write(self, record: Record, basis: ObservedLease | None, deadline: float) -> ObservedLease:
        """Write the record over what was read."""
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
                # The namespace is missing: that is to be said, and to be waited out.
                raise
            raise LeaseChanged(str(error)) from error
        return ObservedLease(record, written)

    async def follow(self, changed: Callable[[], object]) -> None:
        """Watch the Lease, so that its release is heard of at once."""
        watch = Reflector(self._client, LEASES, self._namespace, field_selector=f"metadata.name={self._name}")
        await watch.run(lambda _: changed())


def _record(found: Json) -> Record:
    spec: Json = found.get("spec") or {}
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
