"""Shared GPUs on the map of nodes: which part of the memory of each card each job uses."""

from volcanopy.api import core, names, quantity
from volcanopy.api.builtin import gpu_annotations
from volcanopy.api.builtin.gpu_annotations import Card
from volcanopy.api.quantity import QuantityError
from volcanopy.cli.ui.node_usage import NodeUsage


def cards_of(node: core.Node) -> tuple[Card, ...]:
    """Return the cards that a node shares: those that its device plugin lists, or equal ones."""
    notes = node.metadata.annotations
    if register := notes.get(names.VGPU_REGISTER):
        return gpu_annotations.parse_register(register, notes.get(names.VGPU_HANDSHAKE, "")).cards
    try:
        allocatable = quantity.amounts(node.status.allocatable)
    except QuantityError:
        return ()
    memory, number = allocatable.get(names.GPU_MEMORY, 0), allocatable.get(names.GPU_NUMBER, 0)
    return gpu_annotations.shared_cards(memory, number, notes.get(names.GPU_UNHEALTHY, ""))


def used_parts(node: core.Node, usage: NodeUsage) -> list[list[tuple[str, float]]]:
    """Return for each shared card of a node the jobs on it with the part of its memory that each uses."""
    cards = cards_of(node)
    parts: dict[str, list[tuple[str, float]]] = {card.id: [] for card in cards}
    memory = {card.id: card.memory for card in cards}
    for use in usage.of(node.metadata.name):
        for share in use.cards:
            if share.id in parts:
                part = 1.0 if share.whole or not memory[share.id] else min(1.0, share.memory / memory[share.id])
                parts[share.id].append((use.job, round(part, 3)))
    return [parts[card.id] for card in cards]
