"""NPUs that MindCluster divides: which nodes have enough of them, and the chips of each pod."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from volcanopy.api import names
from volcanopy.api.builtin.gpu_annotations import Card, limit
from volcanopy.scheduler.ledger.cluster import Cluster, NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import AssignedPod
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.nodes.traits.trait_cache import cached, cached_by_shapes
from volcanopy.scheduler.policy.plugin import NodeRejection
from volcanopy_policies.devices.cards.card_selection import (
    CORES,
    FIRST_RULE,
    MEMORY,
    CardCriteria,
    CardOrder,
    CardRequest,
    CardTable,
)
from volcanopy_policies.devices.cards.card_usage import AssignedCards, CardUsage, SessionCards
from volcanopy_policies.devices.cards.device_kind import DeviceKind, Shares
from volcanopy_policies.devices.npus import chip_templates
from volcanopy_policies.devices.npus.chip_templates import ANY, CPUS, OFF, ON, REAL, TEMPLATES, WITH_LESS_CPU

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
    """The chips of all nodes in a session, as cards of which pods take AI cpus (as memory) and AI cores.

    Besides, a usage table counts on each chip the pods that use its unit for images, those whose part includes it, and the pods
    of each template whose part the device plugin has not made yet.
    """

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

    def choose(
        self, task: int, node: int, pipelined: bool, previous: AssignedCards | None, idle: Ints | None = None
    ) -> AssignedCards | None:
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


NO_CHIPS = "node(s) didn't have NPUs that are divided by AI cores"
NO_TEMPLATE = "node(s) didn't have a template for the requested AI cores and labels"
UNFIT = "node(s) didn't have enough NPUs for the requested AI cores"
BUSY = "node(s) didn't have enough free AI cores and cpus on single NPUs"
IN_FLIGHT = "node(s) were dividing an NPU by another template"

FIRST_SCORE = 8
"""The score of the node with the fewest free AI cores."""

Option = tuple[str, CardCriteria]
"""A template, or WHOLE, and what a pod requests that gets it."""


class MindClusterNpus(DeviceKind):
    """The NPUs that MindCluster divides, in a session."""

    compares_nodes = True
    rules = (None,) * RULES

    def __init__(self, cluster: Cluster, weight: int) -> None:
        """``weight`` is that of the score."""
        super().__init__(cluster, "chips", "", weight)
        specs = cluster.snapshot.shapes.specs
        self.shapes: frozenset[int] = cached_by_shapes(
            cluster.traits,
            "AI cores requested",
            cluster.snapshot.shapes,
            lambda: frozenset(
                number
                for number, spec in enumerate(specs)
                if any(limit(container, names.NPU_CORES) for container in spec.containers)
            ),
        )
        self._known: dict[tuple[str, int, int], Sequence[Option]] = {}

    def requested(self, task: TaskView) -> bool:
        """Return whether the task requests AI cores of such NPUs."""
        return super().requested(task) and chip_templates.requested_cores(task.representative.pod) > 0

    def cache_key(self, task: TaskView) -> Hashable:
        """Return what the answers for a task depend on besides its shape."""
        return self._template(task)

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Return the nodes without enough chips for the task; evictions are no remedy, as in Volcano."""
        self._assignments.sync()
        rows = nodes.rows
        without = self._table.start[rows + 1] == self._table.start[rows]
        fits, _, in_flight, impossible = self._feasible(task, rows)
        divisible = np.array([bool(self._options(task, row)) for row in rows.tolist()], dtype=np.bool_) & ~without
        rejections = [
            NodeRejection(NO_CHIPS, without, final=True),
            NodeRejection(NO_TEMPLATE, ~without & ~divisible, final=True),
            NodeRejection(UNFIT, divisible & impossible, final=True),
            NodeRejection(BUSY, divisible & ~impossible & ~fits & ~in_flight, final=True),
            NodeRejection(IN_FLIGHT, divisible & ~impossible & in_flight, final=True),
        ]
        return [rejection for rejection in rejections if rejection.nodes.any()]

    def score(self, task: TaskView, nodes: NodesView) -> Floats:
        """Return a score for the feasible node with the fewest free AI cores.

        Where some nodes have fewer AI cpus than the template, the score of the first other node is twice as high.
        """
        scores: Floats = np.zeros(len(nodes), dtype=np.float64)
        if not self._weight:
            return scores
        self._assignments.sync()
        fits, downgraded, _, _ = self._feasible(task, nodes.rows)
        idle = nodes.idle[names.NPU_CORES]
        ordered = [position for position in np.argsort(idle, kind="stable").tolist() if fits[position]]
        if not downgraded[ordered].any():
            scores[ordered[:1]] = FIRST_SCORE
            return self._weight * scores
        for position in ordered:
            if not downgraded[position]:
                scores[position] = 2 * FIRST_SCORE
                break
            scores[position] = FIRST_SCORE
        return self._weight * scores

    def _annotations(self, task: TaskView, node: int, assigned: AssignedCards) -> dict[str, str]:
        (cards,), (cpus,) = assigned.choice.cards, assigned.choice.memory
        chips = ",".join(self._table.ids[card] for card in cards.tolist())
        template = next(
            template
            for template, each in self._options(task, node)
            if each.requests[0] is not None and each.requests[0].memory == cpus[0]
        )
        return {
            names.NPU_PREDICATE_TIME: str(int(self.cluster.now.timestamp() * 1000) * 1_000_000),
            names.NPU_CORES: f"{chips}-{template}" if template else chips,
        }

    # What a pod may get on a node

    def _template(self, task: TaskView) -> str:
        return chip_templates.template_of(
            chip_templates.requested_cores(task.representative.pod), task.representative.pod.metadata.labels
        )

    def _options(self, task: TaskView, node: int) -> Sequence[Option]:
        """The templates that the task may get on a node, the best first; empty if it can get nothing there."""
        cores, per_chip, template = (
            chip_templates.requested_cores(task.representative.pod),
            self._per_chip[node],
            self._template(task),
        )
        key = (template, cores, per_chip)
        if key not in self._known:
            self._known[key] = [
                (each, criteria(each, cores, per_chip, self._allowed(each), self._least_free))
                for each in self._templates(template, cores, per_chip)
            ]
        return self._known[key]

    @staticmethod
    def _templates(template: str, cores: int, per_chip: int) -> list[str]:
        if per_chip and cores % per_chip == 0:
            return [WHOLE]
        if not per_chip or not template:
            return []
        return [template, WITH_LESS_CPU[template]] if template in WITH_LESS_CPU else [template]

    def _feasible(self, task: TaskView, rows: Rows) -> tuple[Mask, Mask, Mask, Mask]:
        """(M,) each: where it fits, where with fewer AI cpus, where another template is in flight, where it can never fit."""
        fits, downgraded, in_flight = (np.zeros(len(rows), dtype=np.bool_) for _ in range(3))
        impossible = np.ones(len(rows), dtype=np.bool_)
        per_chip = np.array([self._per_chip[row] for row in rows.tolist()], dtype=np.int64)
        for each in np.unique(per_chip).tolist():
            own = np.flatnonzero(per_chip == each)
            open_ = np.ones(len(own), dtype=np.bool_)
            for number, (template, offer) in enumerate(self._options(task, int(rows[own[0]]))):
                enough = open_ & self._cards.fits(rows[own], offer, pipelined=False)
                open_ &= ~enough
                blocked = enough & self._cards.others_in_flight(rows[own], template)
                in_flight[own] |= blocked
                fits[own] |= enough & ~blocked
                downgraded[own] |= enough & (number > 0)
                alone = replace(offer, allowed=self._table.healthy)
                impossible[own] &= ~self._cards.fits_empty_nodes(rows[own], alone)
        return fits, downgraded, in_flight, impossible & ~fits

    def _least_free(self, cards: Rows, memory: Ints, cores: int, idle: Ints) -> Floats:
        """Return the suitability of free chips: those with the fewest free AI cores, then AI cpus, first."""
        used = self._cards.usage(cards)
        suitability: Floats = (used[CORES] * (CPUS + 1.0)) + used[MEMORY]
        return suitability

    def _allowed(self, template: str) -> Mask:
        """(C,): the healthy chips; for a part, those that the device plugin is not dividing, with a group left for its size."""
        if template == WHOLE:
            return self._table.healthy
        unstable, groups = self._divided
        cores = TEMPLATES[template].cores
        full = ((groups == 3) & (cores >= 4)) | ((groups == 4) & (cores >= 2))
        allowed: Mask = self._table.healthy & ~unstable & ~full
        return allowed

    # Chips of nodes

    @cached_property
    def _per_chip(self) -> list[int]:
        """Per node: the AI cores of each chip, 0 without chips."""
        traits = self.cluster.traits
        return cached(traits, "chips", "cores", lambda: [*map(chip_templates.cores_per_chip, traits.objects)])

    def _offered(self) -> Sequence[Sequence[Card]]:
        snapshot = self.cluster.snapshot
        cores = snapshot.nodes.allocatable[names.NPU_CORES] if names.NPU_CORES in snapshot.axis.index else None
        amounts = [0] * len(snapshot.nodes) if cores is None else cores.tolist()
        return tuple(map(chip_templates.chips_of, snapshot.nodes.traits.objects, amounts))

    @cached_property
    def _divided(self) -> tuple[Mask, Ints]:
        """(C,) each: whether a pod's part has not been made yet, and the number of groups into which the chip is divided."""
        unstable = np.zeros(len(self._table), dtype=np.bool_)
        groups: dict[int, set[str]] = {}
        for node, pods in enumerate(self.cluster.snapshot.nodes.assigned_pods):
            for pod in pods or ():
                real = pod.notes.get(REAL, "")
                for share in self._shares(pod)[0]:
                    card = self._table.index.get((node, share.id))
                    if card is not None:
                        unstable[card] |= not real
                        groups.setdefault(card, set()).update([real.rpartition("_")[2]] if "_" in real else [])
        numbers = np.zeros(len(self._table), dtype=np.int64)
        for card, known in groups.items():
            numbers[card] = len(known)
        return unstable, numbers

    @cached_property
    def _cards(self) -> ChipCards:
        def alternatives(row: int, node: int) -> list[CardCriteria]:
            return [each for _, each in self._options(self.cluster.task(row), node)]

        return ChipCards(self.cluster, self._table, self._usage, alternatives)

    def _waiting(self) -> Rows:
        rows = super()._waiting().tolist()
        return np.array([row for row in rows if self.requested(self.cluster.task(row))], dtype=np.intp)

    def _shares(self, pod: AssignedPod) -> Shares:
        annotation = pod.notes.get(names.NPU_CORES, "")
        node = int(self.cluster.snapshot.tasks.node[pod.row])
        shares = chip_templates.shares_in(annotation, self._per_chip[node])
        template = chip_templates.template_in(annotation)
        return shares, counted(template, in_flight=not pod.notes.get(REAL)) if shares else ()
