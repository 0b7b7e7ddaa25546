"""The slow and obvious twin of the choice of cards: one node, one container, one card at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

from volcanopy.scheduler.filters.gpus.card_selection import ALL_CORES, CardRequest, Order


@dataclass
class Load:
    """One card and what is taken of it."""

    memory: int
    slots: int
    pods: int = 0
    used: int = 0
    cores: int = 0
    allowed: bool = True


def place(cards: Sequence[Load], wants: Sequence[CardRequest | None], order: Order) -> list[list[int]] | None:
    """The cards that each container gets, by their places; None if the pod does not fit. The loads take it in."""
    given: list[list[int]] = []
    for want in wants:
        if want is None:
            given.append([])
            continue
        places = sorted(range(len(cards)), key=lambda place: _key(cards, place, order))
        result = [place for place in places if _fits(cards[place], want)][: want.number]
        if len(result) < want.number:
            return None
        for place_ in result:
            cards[place_].pods += 1
            cards[place_].used += _asked(cards[place_], want)
            cards[place_].cores += want.cores
        given.append(result)
    return given


def _asked(card: Load, want: CardRequest) -> int:
    if want.whole:
        return card.memory
    return card.memory * want.percent // 100 if want.percent else want.memory


def _fits(card: Load, want: CardRequest) -> bool:
    if not card.allowed or card.pods >= card.slots or card.used + _asked(card, want) > card.memory:
        return False
    if card.cores + want.cores > ALL_CORES or (want.cores == 0 and card.cores == ALL_CORES):
        return False
    return card.pods == 0 or not (want.whole or want.cores == ALL_CORES)


def _key(cards: Sequence[Load], place: int, order: Order) -> tuple[int, int]:
    match order:
        case Order.FIRST:
            return 0, place
        case Order.LAST:
            return 0, -place
        case Order.FULLEST:
            return -cards[place].used, place
        case Order.EMPTIEST:
            return cards[place].pods, place
