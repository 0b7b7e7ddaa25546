"""Reference implementation of card selection: one node, one container, one card at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from volcanopy.api.builtin.gpu_annotations import ALL_CORES
from volcanopy_policies.devices.cards.card_selection import CardOrder, CardRequest


@dataclass
class Load:
    """A card and its allocated memory and cores."""

    memory: int
    slots: int
    pods: int = 0
    used: int = 0
    cores: int = 0
    allowed: bool = True


def place(cards: Sequence[Load], requests: Sequence[CardRequest | None], order: CardOrder) -> list[list[int]] | None:
    """Return the indexes of the cards of each container; None if the pod does not fit. The loads are updated."""
    given: list[list[int]] = []
    for request in requests:
        if request is None:
            given.append([])
            continue
        places = sorted(range(len(cards)), key=lambda place: _key(cards, place, order))
        result = [place for place in places if _fits(cards[place], request)][: request.number]
        if len(result) < request.number:
            return None
        for place_ in result:
            cards[place_].pods += 1
            cards[place_].used += _asked(cards[place_], request)
            cards[place_].cores += request.cores
        given.append(result)
    return given


def _asked(card: Load, request: CardRequest) -> int:
    if request.whole:
        return card.memory
    return card.memory * request.percent // 100 if request.percent else request.memory


def _fits(card: Load, request: CardRequest) -> bool:
    if not card.allowed or card.pods >= card.slots or card.used + _asked(card, request) > card.memory:
        return False
    if card.cores + request.cores > ALL_CORES or (request.cores == 0 and card.cores == ALL_CORES):
        return False
    return card.pods == 0 or not (request.whole or request.cores == ALL_CORES)


def _key(cards: Sequence[Load], place: int, order: CardOrder) -> tuple[int, int]:
    match order:
        case CardOrder.FIRST:
            return 0, place
        case CardOrder.LAST:
            return 0, -place
        case CardOrder.FULLEST:
            return -cards[place].used, place
        case CardOrder.EMPTIEST:
            return cards[place].pods, place
