"""The chips that MindCluster divides, as cards of which pods take AI cpus (as memory) and AI cores.

Besides, a usage table counts on each chip the pods that use its unit for images, those whose part includes it, and the pods
of each template whose part the device plugin has not made yet.
"""

from collections.abc import Callable, Sequence

import numpy as np

from volcanopy.devices.cards.card_selection import FIRST_RULE, CardCriteria, CardOrder, CardRequest, CardTable
from volcanopy.devices.cards.card_usage import AssignedCards, CardUsage, SessionCards
from volcanopy.devices.npus.chip_templates import ANY, CPUS, OFF, ON, TEMPLATES
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows

WHOLE = ""
"""Stands for the template of pods with whole chips."""
_IN_FLIGHT = (WHOLE, *TEMPLATES)
_USES_UNIT, _HAS_UNIT, _FIRST_TEMPLATE = 0, 1, 2
RULES = _FIRST_TEMPLATE + len(_IN_FLIGHT)


def counted(template: str, in_flight: bool) -> tuple[int, ...]:
    """Return the numbers of the counts in which a pod with this template is."""
    dvpp = TEMPLATES[template].dvpp if template else ANY
    unit = {ON: (_USES_UNIT,), ANY: (_HAS_UNIT,), OFF: ()}[dvpp]
    return (*unit, _FIRST_TEMPLATE + _IN_FLIGHT.index(template)) if in_flight else unit


def criteria(
    template: str, cores: int, per_chip: int, allowed: Mask, preference: Callable[..., Floats]
) -> CardCriteria:
    """Return the criteria of a pod that gets a template, or (``WHOLE``) all of as many chips as have its AI cores."""
    dvpp = TEMPLATES[template].dvpp if template else ANY
    excluded = {ON: (_USES_UNIT, _HAS_UNIT), ANY: (_USES_UNIT,), OFF: ()}[dvpp]
    request = (
        CardRequest(1, TEMPLATES[template].cpus, cores=TEMPLATES[template].cores)
        if template
        else CardRequest(cores // per_chip, CPUS, cores=per_chip)
    )
    return CardCriteria(
        (request,),
        allowed,
        np.array([FIRST_RULE + rule for rule in excluded], dtype=np.intp),
        preference,
        counted=np.array([FIRST_RULE + rule for rule in counted(template, in_flight=True)], dtype=np.intp),
    )


class ChipCards(SessionCards):
    """The chips of all nodes in a session."""

    def __init__(
        self,
        cluster: Cluster,
        cards: CardTable,
        usage: CardUsage,
        alternatives: Callable[[int, int], Sequence[CardCriteria]],
    ) -> None:
        """``alternatives`` returns what a task may get on a node, the best first."""
        super().__init__(cluster, cards, usage, CardOrder.FIRST, lambda row: alternatives(row, 0)[0])
        self._alternatives = alternatives

    def choose(self, task: int, node: int, pipelined: bool, previous: AssignedCards | None) -> AssignedCards | None:
        """Return the chips for a task on a node, with the first alternative that fits; None if none does."""
        for each in self._alternatives(task, node):
            assigned = self.assigned(node, each, pipelined)
            if assigned is not None:
                return assigned
        return None

    def others_in_flight(self, nodes: Rows, template: str) -> Mask:
        """Return which nodes have a pod of another template whose part has not been made yet."""
        own = _FIRST_TEMPLATE + _IN_FLIGHT.index(template)
        rows = [FIRST_RULE + rule for rule in range(_FIRST_TEMPLATE, RULES) if rule != own]
        pods: Ints = np.concatenate([[0], np.cumsum(self.usage(np.arange(len(self.cards)))[rows].sum(axis=0))])
        result: Mask = pods[self.cards.start[nodes + 1]] > pods[self.cards.start[nodes]]
        return result
