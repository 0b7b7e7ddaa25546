"""Decoding of responses into typed objects; objects that do not match their type are skipped and reported."""

import gc
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw

from volcanopy.api.decoding import decoder, readable_part
from volcanopy.kube.client.errors import Unreadable
from volcanopy.kube.client.kinds import Bare, Kind, ObjectList
from volcanopy.kube.client.logs import Logger

log = Logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rejected(Generic[T]):
    """An object that does not match the type ``T``: its key, the error, and the object without what does not match."""

    key: str
    error: str
    part: T | None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A complete list at ``resource_version``; the items lack those that are ``rejected``."""

    items: list[T]
    resource_version: str
    rejected: tuple[Rejected[T], ...] = ()


def read_object(kind: Kind[T], body: bytes) -> T:
    """Decode one object. Raises :class:`Unreadable`."""
    try:
        return kind.decode(body)
    except msgspec.DecodeError as fault:
        raise Unreadable(f"{kind.kind} from the API server: {fault}") from fault


def read_page(kind: Kind[T], body: bytes, rejected: list[Rejected[T]]) -> ObjectList[T]:
    """Decode one page of a list, with garbage collection disabled: it would scan the growing page again and again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        page = kind.list_decoder.decode(body)
    except msgspec.ValidationError:
        page = _decode_items(kind, body, rejected)
    except msgspec.DecodeError as fault:
        raise Unreadable(f"list of {kind.plural} from the API server: {fault}") from fault
    finally:
        if collecting:
            gc.enable()
    if kind.type is dict:
        for item in page.items or ():
            # Lists of built-in kinds omit them from their items.
            item.setdefault("apiVersion", kind.api_version)  # type: ignore[attr-defined]
            item.setdefault("kind", kind.kind)  # type: ignore[attr-defined]
    return page


def _decode_items(kind: Kind[T], body: bytes, rejected: list[Rejected[T]]) -> ObjectList[T]:
    try:
        raw: ObjectList[Raw] = decoder(ObjectList[Raw]).decode(body)
    except msgspec.DecodeError as fault:
        raise Unreadable(f"list of {kind.plural} from the API server: {fault}") from fault
    items: list[T] = []
    for item in raw.items or ():
        try:
            items.append(kind.decode(item))
        except msgspec.ValidationError as fault:
            rejected.append(reject(kind, item, fault))
    return ObjectList(items, raw.metadata)


def reject(kind: Kind[T], body: Raw, fault: msgspec.ValidationError) -> Rejected[T]:
    """Log an object that does not match its type, and return what can be read of it."""
    key = decoder(Bare).decode(body).identity.key
    log.error("object does not match its type", kind=kind.kind, key=key, error=str(fault))
    return Rejected(key, str(fault), readable_part(body, kind.type))
