"""Parsing of NPUs shared by HAMi: the cards of nodes, the requests of pods, and the annotations with assigned cards."""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from volcanopy.api import core
from volcanopy.devices.cards.card_selection import ALL_CORES, Card, CardRequest
from volcanopy.devices.gpus.gpu_annotations import limit
from volcanopy.devices.npus.npu_kinds import NpuKind

NO_NETWORK = -1


class NpuRegister(NamedTuple):
    """The NPUs registered by a node: its cards, the network of each, and whether the annotation is valid."""

    cards: tuple[Card, ...] = ()
    networks: tuple[int, ...] = ()
    """``NO_NETWORK`` for a card without one."""
    readable: bool = True


class AssignedNpu(NamedTuple):
    """One card of a container."""

    id: str
    memory: int
    cores: int


@lru_cache(maxsize=4096)
def parse_register(annotation: str) -> NpuRegister:
    """Parse the cards of a node: a JSON list of ``id``, ``count``, ``devmem``, ``devcore``, ``health`` and ``custominfo``.

    Some device plugins never write ``health``, others leave it out where a card is unhealthy.
    """
    if not annotation:
        return NpuRegister()
    try:
        entries: list[dict[str, Any]] = json.loads(annotation)
        reported = any("health" in entry for entry in entries)
        cards = tuple(
            Card(
                id=str(entry["id"]),
                memory=int(entry.get("devmem", 0)),
                slots=int(entry.get("count", 0)),
                type=str(entry.get("type", "")),
                healthy=bool(entry.get("health", not reported)),
                cores=int(entry.get("devcore", 0)),
            )
            for entry in entries
        )
        networks = tuple(_network(entry.get("custominfo") or {}) for entry in entries)
    except (ValueError, TypeError, KeyError, AttributeError):
        return NpuRegister(readable=False)
    return NpuRegister(cards, networks)


def _network(info: dict[str, Any]) -> int:
    network = info.get("NetworkID")
    return int(network) if isinstance(network, int | float) else NO_NETWORK


def npu_requests(spec: core.PodSpec, kind: NpuKind, by_software: bool) -> tuple[CardRequest, ...]:
    """Return the requests of the containers that have one.

    Memory is rounded up to a template or the whole card, unless cards are divided ``by_software``: then they have 100 percent of
    cores. Without an amount of memory, a container gets whole cards.
    """
    return tuple(
        request for container in spec.containers if (request := _request(container, kind, by_software)) is not None
    )


def _request(container: core.Container, kind: NpuKind, by_software: bool) -> CardRequest | None:
    memory = limit(container, kind.memory_resource)
    number = limit(container, kind.resource) or (1 if memory else 0)
    if not number:
        return None
    return CardRequest(
        number,
        memory,
        0 if memory else 100,
        limit(container, kind.cores),
        sizes=None if by_software else kind.sizes,
        of_cores=ALL_CORES if by_software else None,
    )


def requests_parts_of_several(requests: Iterable[CardRequest], kind: NpuKind) -> bool:
    """Return whether a container requests several cards but only a part of the memory of each: templates cannot express that."""
    return any(
        request.number > 1
        and request.sizes is not None
        and not request.percent
        and int(kind.sizes.rounded(np.array([request.memory]))[0]) != kind.whole
        for request in requests
    )


def format_npus(containers: Iterable[Sequence[AssignedNpu]], word: str) -> str:
    """Format the cards of each container with a request as the annotation read by the device plugin."""
    return "".join(
        "".join(f"{card.id},{word},{card.memory},{card.cores}:" for card in cards) + ";" for cards in containers
    )


def format_for_runtime(containers: Iterable[Sequence[AssignedNpu]], kind: NpuKind, by_software: bool) -> str:
    """Format the cards of all containers as JSON: id and template, or id, memory and cores of cards divided by software."""
    entries: list[dict[str, Any]] = []
    for card in (card for cards in containers for card in cards):
        more = {"memory": card.memory, "core": card.cores} if by_software else {"temp": kind.template(card.memory)}
        entries.append({"UUID": card.id, **{key: value for key, value in more.items() if value}})
    return json.dumps(entries, separators=(",", ":"))
