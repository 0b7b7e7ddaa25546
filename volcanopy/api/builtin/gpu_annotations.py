"""The shared GPUs that nodes list, and the shares of them in the annotations of pods, as device plugins write and read them.

A cluster uses one of two modes. *Shared GPUs*: a node has an allocatable amount of GPU memory and a number of cards, a pod
requests memory of one card, or whole cards; cards are identified by number. *vGPUs*: the device plugin of a node lists its
cards in an annotation, a container requests memory and cores of one or several cards; cards are identified by UUID.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from volcanopy.api import core, quantity

ALL_CORES = 100
HAMI_CORE = "hami-core"
MIG = "mig"
_SLOTS = 1 << 31
"""The number of pods per card where only its memory limits them."""


@dataclass(frozen=True)
class Card:
    """One card as reported by its node."""

    id: str
    memory: int
    slots: int
    type: str = ""
    healthy: bool = True
    cores: int = ALL_CORES


class CardShare(NamedTuple):
    """The share of a pod in one card, by the card's id; all of its memory if ``whole``.

    ``instance`` is the name of its instance on a card in MIG mode; ``memory`` is then what the pod requests.
    """

    id: str
    memory: int
    cores: int = 0
    whole: bool = False
    instance: str = ""


class VgpuRegister(NamedTuple):
    """The vGPUs registered by a node: its cards, their mode, and whether the annotation is valid."""

    cards: tuple[Card, ...] = ()
    mode: str = HAMI_CORE
    readable: bool = True


@lru_cache(maxsize=16384)
def shared_cards(memory: int, number: int, unhealthy: str) -> tuple[Card, ...]:
    """Return the cards of a node with this total memory on this number of equal cards."""
    if number <= 0:
        return ()
    ids = {name.strip() for name in unhealthy.split(",")}
    return tuple(Card(str(card), memory // number, _SLOTS, healthy=str(card) not in ids) for card in range(number))


@lru_cache(maxsize=16384)
def shared_gpu_shares(annotation: str, memory: int) -> tuple[CardShare, ...]:
    """Return the shares of a pod in the cards of its annotation; whole cards if it requests no memory of one."""
    return tuple(CardShare(card.strip(), memory, whole=not memory) for card in annotation.split(",") if card.strip())


def pod_limit(spec: core.PodSpec, resource: str) -> int:
    """Return the sum of the limits of the containers, or the largest limit of an init container."""
    total = sum(limit(container, resource) for container in spec.containers)
    return max([total, *(limit(container, resource) for container in spec.init_containers)])


def limit(container: core.Container, resource: str) -> int:
    """Return the limit of a container, in base units; its request without one."""
    value = container.resources.limits.get(resource, container.resources.requests.get(resource, 0))
    return quantity.amount(resource, value)


@lru_cache(maxsize=16384)
def parse_register(annotation: str, handshake: str = "") -> VgpuRegister:
    """Parse the cards of a node: ``uuid,pods,memory,type,health,mode`` of each, terminated by colons.

    The ``handshake`` of older device plugins is ``Deleted_`` with a time where the plugin has gone.
    """
    if handshake.startswith("Deleted"):
        return VgpuRegister()
    cards, mode = [], HAMI_CORE
    for text in annotation.split(":"):
        if not text.strip():
            continue
        fields = [field.strip() for field in text.split(",")]
        try:
            uuid, slots, memory, kind, health = fields[:5]
            cards.append(Card(uuid, int(memory), int(slots), kind, health.lower() == "true"))
        except ValueError:
            return VgpuRegister(readable=False)
        mode = fields[5] if len(fields) > 5 and fields[5] else HAMI_CORE
    return VgpuRegister(tuple(cards), mode)


def format_vgpus(containers: Iterable[Sequence[tuple[str, str, int, int]]]) -> str:
    """Format the cards of each container (id, type, memory, cores) as the annotation read by the device plugin.

    The device plugin compares the family of a type, ``NVIDIA`` of ``NVIDIA-Tesla V100``, so the annotation has only that.
    """
    return ";".join(
        "".join(f"{uuid},{kind.partition('-')[0]},{memory},{cores}:" for uuid, kind, memory, cores in cards)
        for cards in containers
    )


@lru_cache(maxsize=65536)
def vgpu_shares(annotation: str) -> tuple[CardShare, ...]:
    """Return the shares of a pod in such an annotation; invalid entries are ignored."""
    fields = [text.split(",") for text in annotation.replace(";", ":").split(":")]
    return tuple(
        CardShare(card, int(memory), int(cores), instance=instance.removesuffix("]"))
        for name, _, memory, cores in (entry for entry in fields if len(entry) == 4)
        if memory.isdigit() and cores.isdigit()
        for card, _, instance in (name.partition("["),)
    )


def instance_id(uuid: str, instance: str) -> str:
    """Return the id of an instance of a card in MIG mode, as the device plugin looks for it."""
    return f"{uuid}[{instance}]"
