"""What is wrong with a Queue, or with deleting one: its parent, the queues that must stay, quantities."""

from collections.abc import Iterator, Mapping

from volcanopy.api import names
from volcanopy.api.core import Queue as KnownQueue
from volcanopy.api.model import InvalidObjectError, Json, Problem
from volcanopy.api.quantity import QuantityError, amount
from volcanopy.api.scheduling import Queue


def queue_problems(manifest: Json, queues: Mapping[str, KnownQueue] | None) -> Iterator[Problem]:
    """Everything that is wrong with a queue; ``queues`` is None when the others are not known."""
    try:
        queue = Queue.read(manifest, unknown="refuse")
    except InvalidObjectError as error:
        yield from error.problems
        return
    spec = queue.spec
    yield from _amounts("spec.capability", spec.capability)
    yield from _amounts("spec.deserved", spec.deserved)
    yield from _amounts("spec.guarantee.resource", spec.guarantee.resource if spec.guarantee else None)
    parent = spec.parent
    if parent in {"", names.ROOT_QUEUE}:
        return
    if parent == queue.metadata.name:
        yield Problem("spec.parent", "a queue cannot be its own parent")
    elif queues is not None and parent not in queues:
        yield Problem("spec.parent", f"there is no queue {parent!r}: make it first")
    elif queues is not None and (way := _circle(queue.metadata.name, parent, queues)):
        yield Problem("spec.parent", f"queues would be part of each other in a circle: {way}")


def queue_deletion_problems(manifest: Json, queues: Mapping[str, KnownQueue] | None) -> Iterator[Problem]:
    """Why a queue cannot be deleted."""
    metadata = manifest.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    if name in {names.DEFAULT_QUEUE, names.ROOT_QUEUE}:
        yield Problem("metadata.name", f"the queue {name!r} cannot be deleted: the system needs it")
    children = sorted(one.metadata.name for one in (queues or {}).values() if one.spec.parent == name)
    if children and name:
        yield Problem("metadata.name", f"queue {name!r} is divided into {', '.join(children)}: delete those first")


def _amounts(path: str, resources: Mapping[str, str | int] | None) -> Iterator[Problem]:
    for name, text in (resources or {}).items():
        try:
            negative = amount(name, text) < 0
        except QuantityError as error:
            yield Problem(f"{path}[{name}]", str(error))
        else:
            if negative:
                yield Problem(f"{path}[{name}]", f"{text} is negative")


def _circle(name: str, parent: str, queues: Mapping[str, KnownQueue]) -> str:
    """The way from a queue over its parents back to itself; empty if there is none."""
    way = [name, parent]
    while parent in queues and len(way) <= len(queues) + 1:
        parent = queues[parent].spec.parent
        way.append(parent)
        if parent == name:
            return " -> ".join(way)
    return ""
