"""Kinds of objects that commands handle, their names on the command line, and the reading of their bodies."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import msgspec

from volcanopy.api.decoding import convert
from volcanopy.client.errors import CommandError
from volcanopy.kube.client.kinds import Json, Kind

T = TypeVar("T")


_NOUNS = {
    "BatchJob": "job",
    "CronBatchJob": "cron job",
    "PodGroup": "pod group",
    "JobFlow": "job flow",
    "JobTemplate": "job template",
}


def word(kind: Kind[Any]) -> str:
    """Return the noun for an object of the kind in messages."""
    return _NOUNS.get(kind.kind, kind.kind.lower())


def resource(kind: Kind[Any]) -> str:
    """Return the kind as ``-o name`` prints it: ``batchjob.batch.volcanopy.io``."""
    return f"{kind.kind.lower()}.{kind.group}" if kind.group else kind.kind.lower()


def read(model: type[T], body: Json) -> T:
    """Return the read model of an object; the body keeps the fields that the model does not have.

    Raises CommandError where a field has another type than in the model.
    """
    try:
        return convert(body, model)
    except msgspec.ValidationError as fault:
        raise CommandError(f'{model.__name__} "{key_of(body).name}" cannot be read: {fault}') from None


def readable(model: type[T], bodies: Iterable[Json]) -> list[T]:
    """Return the read models of objects. One that cannot be read is left out, with a warning on standard error."""
    items = []
    for body in bodies:
        try:
            items.append(read(model, body))
        except CommandError as error:
            _warn(f"warning: {error}: left out")
    return items


@cache
def _warn(message: str) -> None:
    """Print a warning, once however often an object is read."""
    sys.stderr.write(f"volcanopy: {message}\n")


@dataclass(frozen=True)
class ObjectKey:
    """Namespace and name of an object; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str


def key_of(body: Json) -> ObjectKey:
    """Return the namespace and name of an object."""
    metadata = body["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def spec_of(body: Json) -> Json:
    """Return the object's spec, empty if it has none."""
    return body.get("spec") or {}
