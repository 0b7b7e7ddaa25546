"""Creation and deletion of objects that belong to an owner, and the errors that end a reconcile early."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import structlog

from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotLeading,
    is_outage,
)
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.writes.write_slots import WriteSlots

log = structlog.get_logger(__name__)

T = TypeVar("T")

WRITES_AT_ONCE = 48
"""The writes in flight of a worker: enough for a thousand a second."""
PART_OF_AN_OBJECT = 4
"""Of the writes in flight, one object has at most one in so many."""


class NameTakenError(Exception):
    """An object of this name exists and belongs to another owner."""


class TerminatingError(Exception):
    """An object of this name of an earlier owner is being deleted: its name is free when it is gone."""


class OutdatedError(Exception):
    """The object has changed since it was read, or is gone: the plan is void."""


async def create_owned(
    client: Client, kind: Kind[T], namespace: str, manifest: Json, owned: Callable[[T], bool], owner: str = "job"
) -> tuple[T, bool]:
    """Create an object, or return the existing one if it is ``owned``; with whether it was created.

    Raises NameTakenError if it belongs to another owner, TerminatingError if that one is being deleted. ``owner`` is the noun in
    the message.
    """
    name = manifest["metadata"]["name"]
    try:
        return await client.create(kind, namespace, manifest), True
    except AlreadyExists:
        existing = await existing_object(client, kind, namespace, name)
        if existing is not None and not owned(existing) and _is_terminating(existing):
            raise TerminatingError(f"{kind.kind} {name} of an earlier {owner} is being deleted") from None
        if existing is None or not owned(existing):
            raise NameTakenError(f"{kind.kind} {name} exists and does not belong to this {owner}: delete it") from None
        return existing, False


def _is_terminating(item: Any) -> bool:
    """Whether an object, as JSON or as a read model, is being deleted."""
    if isinstance(item, dict):
        return "deletionTimestamp" in item["metadata"]
    return item.metadata.deletion_timestamp is not None


async def existing_object(client: Client, kind: Kind[T], namespace: str, name: str) -> T | None:
    """Return an object, None if it belongs to no job. Raises NotFound.

    A Secret is read with a patch that changes nothing: the controllers may not read Secrets, and a policy of the chart lets
    them patch those of jobs only.
    """
    if kind.kind != "Secret":
        return await client.get(kind, namespace, name)
    try:
        return await client.patch(kind, namespace, name, {})
    except Forbidden:
        return None


async def delete_same(client: Client, kind: Kind[Any], namespace: str, name: str, uid: str) -> None:
    """Delete an object and its dependents, if it is the one with this uid."""
    try:
        await client.delete(kind, namespace, name, uid=uid, propagation="Background")
    except (NotFound, Conflict) as error:
        if isinstance(error, Conflict) and not error.of_uid:
            raise
        log.debug("object already deleted", kind=kind.kind, key=f"{namespace}/{name}")


def is_controlled(manifest: Json, owner: str) -> bool:
    """Whether the controller of an object has this uid."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return any(reference.get("uid") == owner and reference.get("controller") for reference in owners)


async def all_of(
    slots: WriteSlots,
    namespace: str,
    write: Callable[[T], Awaitable[None]],
    effects: Iterable[T],
    written: Callable[[], None],
) -> Exception | None:
    """Apply effects on an object in a namespace concurrently, as many as there are slots; then return the first error, if any.

    ``written`` is called after each. An error that others would get as well ends the work: no further effect is begun. An
    OutdatedError is returned only if there is no other error.
    """
    errors: list[Exception] = []
    waiting = list(effects)
    remaining = iter(waiting)

    async def apply() -> None:
        for effect in remaining:
            async with slots.slot(namespace):
                if any(map(concerns_all, errors)):
                    return
                try:
                    await write(effect)
                except Exception as error:
                    errors.append(error)
                else:
                    written()

    at_once = min(max(slots.limit // PART_OF_AN_OBJECT, 1), len(waiting))
    await asyncio.gather(*(apply() for _ in range(at_once)))
    return min(errors, key=lambda error: (isinstance(error, OutdatedError), not concerns_all(error)), default=None)


def is_rejection(error: Exception) -> bool:
    """Whether an object cannot be created as it is now, while other objects may be, such as pods beyond a used-up quota."""
    is_own = isinstance(error, (Forbidden, Invalid, NameTakenError, TerminatingError))
    return is_own or (isinstance(error, ApiError) and error.of_webhook)


def concerns_all(error: Exception) -> bool:
    """Whether other writes would fail as well: a quota is used up, or the server is not available."""
    return isinstance(error, NotLeading) or (isinstance(error, Forbidden) and error.of_quota) or is_outage(error)
