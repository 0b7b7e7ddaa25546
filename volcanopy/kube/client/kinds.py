"""Kinds: the REST path of a resource, and the Python type that its objects are decoded into.

Several kinds may name the same resource with different types: a slim struct for a watch of thousands of objects, ``dict``
where the whole object is needed (:attr:`Kind.raw`).
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from sys import intern
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from volcanopy.api import names
from volcanopy.api.decoding import decode, decoder

S = TypeVar("S")
T = TypeVar("T")
Json = dict[str, Any]
JSON = "application/json"
_METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


class Identity(NamedTuple):
    """The identity of an object and of one version of it."""

    namespace: str
    name: str
    uid: str
    version: str

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone for a cluster-scoped object: one text, as that of the object's metadata."""
        return intern(f"{self.namespace}/{self.name}") if self.namespace else self.name


class ListMeta(Struct, rename="camel"):
    """The metadata of a list: its resource version, and the token of the next page."""

    resource_version: str = ""
    continue_: str = field(name="continue", default="")


class ObjectList(Struct, Generic[T]):
    """A list, or one page of it."""

    items: list[T] | None = None
    metadata: ListMeta = field(default_factory=ListMeta)


class WatchEvent(Struct, Generic[T]):
    """A line of a watch stream: a change of one object."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


class AnyEvent(Struct):
    """A line of a watch stream with an undecoded object."""

    type: str
    object: Raw


class _BareMeta(Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Bare(Struct):
    """An object of which only the identity is decoded: a bookmark, or an object that does not match its type."""

    metadata: _BareMeta = field(default_factory=_BareMeta)

    @property
    def identity(self) -> Identity:
        """The identity, as by :attr:`Kind.identify` for a whole object."""
        return Identity(self.metadata.namespace, self.metadata.name, self.metadata.uid, self.metadata.resource_version)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A resource of the API and the type ``T`` (a msgspec struct, or ``dict``) of its objects here.

    A struct may be any part of the object, as long as it has ``metadata`` with ``name``, ``uid`` and
    ``resourceVersion`` (and ``namespace``, where the kind is namespaced) under whatever Python names.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    type: type[T]
    separate_status: bool = True
    """Whether the status is a subresource; if not, it is written with the object."""

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def of(self, shape: builtins.type[S]) -> Kind[S]:
        """Return the same resource with objects of another type."""
        return cast("Kind[S]", dataclasses.replace(self, type=cast("Any", shape)))

    def in_version(self, version: str) -> Kind[T]:
        """Return the same resource in another version of its group."""
        return dataclasses.replace(self, version=version)

    @property
    def raw(self) -> Kind[Json]:
        """The same resource with whole objects, as dicts."""
        return self.of(dict)

    def with_status(self, manifest: Json, status: Json) -> Json:
        """Return the body that replaces the status of an object as it was read.

        To a subresource it contains only what identifies the object: the API server takes the rest from the object that it has.
        """
        if not self.separate_status:
            return {**manifest, "status": status}
        meta = manifest["metadata"]
        identity = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in meta}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": identity, "status": status}

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of an object, of one of its subresources, or (without a name) of the collection.

        Without a namespace: the collection over all namespaces. Raises ValueError if the parts do not match the kind.
        """
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and not self.namespaced:
            raise ValueError(f"{self.kind} is not namespaced: namespace {namespace!r} cannot be given")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r}: its namespace is missing")
        if subresource and not name:
            raise ValueError(f"{self.kind}/{subresource}: the object's name is missing")
        parts = [base]
        if namespace:
            parts.append(f"namespaces/{_quoted(namespace)}")
        parts.append(self.plural)
        if name:
            parts.append(_quoted(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def decode(self, body: bytes | Raw) -> T:
        """Decode one object. Raises msgspec.ValidationError when it does not match the type ``T``."""
        return decode(body, self.type)

    @property
    def identify(self) -> Callable[[T], Identity]:
        """The function that returns an object's identity."""
        return cast("Callable[[T], Identity]", _identify(cast("Any", self.type)))

    @property
    def list_media(self) -> str:
        """The media type of lists: only metadata for :class:`Bare` objects."""
        return _METADATA if self.type is Bare else JSON

    @property
    def list_decoder(self) -> msgspec.json.Decoder[ObjectList[T]]:
        """The decoder of one page of a list."""
        return cast("msgspec.json.Decoder[ObjectList[T]]", decoder(ObjectList[self.type]))  # type: ignore[name-defined]

    @property
    def event_decoder(self) -> msgspec.json.Decoder[WatchEvent[T]]:
        """The decoder of the lines of a watch."""
        return cast("msgspec.json.Decoder[WatchEvent[T]]", decoder(WatchEvent[self.type]))  # type: ignore[name-defined]


class OwnNames:
    """The names of a client: volcanopy's, on the server as in the program."""

    api = names.API
    """The name of the API that the client is a view of."""

    def of_api(self, kind: Kind[T]) -> Kind[T]:
        """Return a kind as the server names it."""
        return kind

    def reading(self, transform: Callable[[T], T] | None) -> Callable[[T], T] | None:
        """Return the transformation of objects that are listed or watched, so that they have volcanopy's names."""
        return transform


@functools.lru_cache(65536)
def _quoted(name: str) -> str:
    return quote(name, safe="")


@functools.cache
def _identify(shape: type) -> Callable[[Any], Identity]:
    if not issubclass(shape, Struct):
        return _identify_mapping
    meta = next((member for member in msgspec.structs.fields(shape) if member.encode_name == "metadata"), None)
    if meta is None or not (isinstance(meta.type, type) and issubclass(meta.type, Struct)):
        raise TypeError(f"{shape.__name__} needs a field `metadata` that is a struct")
    names = {member.encode_name: member.name for member in msgspec.structs.fields(meta.type)}
    if missing := [name for name in ("name", "uid", "resourceVersion") if name not in names]:
        raise TypeError(f"the metadata of {shape.__name__} needs the field {', '.join(missing)}")
    fields = [names[name] for name in ("namespace", "name", "uid", "resourceVersion") if name in names]
    read = attrgetter(*(f"{meta.name}.{name}" for name in fields))
    if "namespace" in names:
        return lambda item: Identity._make(read(item))
    return lambda item: Identity("", *read(item))


def _identify_mapping(item: Mapping[str, Any]) -> Identity:
    meta = item.get("metadata") or {}
    return Identity(
        meta.get("namespace", ""), meta.get("name", ""), meta.get("uid", ""), meta.get("resourceVersion", "")
    )
