"""How GPUs are told of: by nodes, by what pods ask for, and by the annotations of pods that have been given some.

There are two ways, and a cluster uses one of them. *Shared GPUs*: a node offers an amount of GPU memory and a number of
cards, a pod asks for memory of one card, or for whole cards; a card is known by its number. *vGPUs*: a node's device
plugin lists its cards in an annotation, each container asks for memory and cores of one card or of several; a card is
known by its UUID.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from volcanopy.api import core, names, quantity
from volcanopy.scheduler.filters.gpus.card_selection import Card, CardRequest

HAMI_CORE = "hami-core"
_SLOTS = 1 << 31
"""How many pods may share a card where only its memory limits them."""


class CardShare(NamedTuple):
    """What a pod holds of one card, by the card's id; all of its memory if ``whole``."""

    id: str
    memory: int
    cores: int = 0
    whole: bool = False


class VgpuRegister(NamedTuple):
    """What a node says of its vGPUs: its cards, the mode that they are in, and whether what it says can be read."""

    cards: tuple[Card, ...] = ()
    mode: str = HAMI_CORE
    readable: bool = True


# Shared GPUs


@lru_cache(maxsize=16384)
def shared_cards(memory: int, number: int, unhealthy: str) -> tuple[Card, ...]:
    """The cards of a node that offers so much memory on so many cards, all alike."""
    if number <= 0:
        return ()
    broken = {one.strip() for one in unhealthy.split(",")}
    return tuple(Card(str(one), memory // number, _SLOTS, sound=str(one) not in broken) for one in range(number))


def shared_memory_requests(spec: core.PodSpec) -> tuple[CardRequest | None, ...]:
    """The memory that a pod wants of one card; nothing if it wants none."""
    units = _of_pod(spec, names.GPU_MEMORY)
    return (CardRequest(memory=units),) if units else ()


def whole_card_requests(spec: core.PodSpec) -> tuple[CardRequest | None, ...]:
    """How many cards a pod wants for itself; nothing if it wants none."""
    number = _of_pod(spec, names.GPU_NUMBER)
    return (CardRequest(number=number, whole=True),) if number else ()


@lru_cache(maxsize=16384)
def shared_held(said: str, want: CardRequest | None) -> tuple[CardShare, ...]:
    """What a pod with this wish holds of the cards that its annotation numbers; all of them if it names no amount."""
    whole = want is None or want.whole
    memory = 0 if want is None or whole else want.memory
    return tuple(CardShare(one.strip(), memory, whole=whole) for one in said.split(",") if one.strip())


def _of_pod(spec: core.PodSpec, resource: str) -> int:
    """What a pod's containers want together, or its greediest init container alone."""
    together = sum(_limit(one, resource) for one in spec.containers)
    return max([together, *(_limit(one, resource) for one in spec.init_containers)])


def _limit(container: core.Container, resource: str) -> int:
    said = container.resources.limits.get(resource, container.resources.requests.get(resource, 0))
    return quantity.amount(resource, said)


# vGPUs


@lru_cache(maxsize=16384)
def register(said: str) -> VgpuRegister:
    """The cards of a node: ``uuid,pods,memory,type,health,mode`` of each, a colon after each."""
    cards, mode = [], HAMI_CORE
    for text in said.split(":"):
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


def vgpu_requests(spec: core.PodSpec) -> tuple[CardRequest | None, ...]:
    """What each container wants, None for one that wants none; nothing if none of them wants any."""
    wants = tuple(_vgpu_request(container) for container in spec.containers)
    return wants if any(wants) else ()


def _vgpu_request(container: core.Container) -> CardRequest | None:
    memory, percent = _limit(container, names.VGPU_MEMORY), _limit(container, names.VGPU_PERCENTAGE)
    number = _limit(container, names.VGPU_NUMBER) or (1 if memory or percent else 0)
    if not number:
        return None
    if not memory and not percent:
        percent = 100
    return CardRequest(number, memory, 0 if memory else percent, _limit(container, names.VGPU_CORES))


def vgpu_text(containers: Iterable[Sequence[tuple[str, str, int, int]]]) -> str:
    """The cards of each container, as id, type, memory and cores, for the annotation that the device plugin reads."""
    return ";".join(
        "".join(f"{uuid},{kind},{memory},{cores}:" for uuid, kind, memory, cores in cards) for cards in containers
    )


@lru_cache(maxsize=65536)
def vgpu_held(said: str) -> tuple[CardShare, ...]:
    """What a pod holds, by such an annotation; what cannot be read in it is left out."""
    fields = [text.split(",") for text in said.replace(";", ":").split(":")]
    return tuple(
        CardShare(one[0], int(one[2]), int(one[3]))
        for one in fields
        if len(one) == 4 and one[2].isdigit() and one[3].isdigit()
    )
