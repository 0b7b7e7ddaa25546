"""NPUs of one kind that HAMi shares: which nodes have enough of them, and the cards of each pod."""

from collections.abc import Hashable
from functools import cached_property

import numpy as np

from volcanopy.api import names
from volcanopy.scheduler.ledger.cluster import Cluster, NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import AssignedPod
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.nodes.assignments import NodeAssignments, pending_tasks
from volcanopy.scheduler.nodes.gpus import gpu_annotations
from volcanopy.scheduler.nodes.gpus.card_selection import (
    CardChoice,
    CardCriteria,
    CardOrder,
    CardRequest,
    CardTable,
    card_table,
)
from volcanopy.scheduler.nodes.gpus.card_usage import AssignedCards, CardUsage, SessionCards
from volcanopy.scheduler.nodes.npus import hami_annotations
from volcanopy.scheduler.nodes.npus.hami_annotations import NO_NETWORK, AssignedNpu, NpuRegister
from volcanopy.scheduler.nodes.npus.npu_kinds import NpuKind
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes, outlasting
from volcanopy.scheduler.policy.plugin import NodeRejection

NO_NPUS = "node(s) didn't have NPUs of the requested kind"
UNREADABLE = "node(s) had an annotation {} that cannot be read"
BY_TEMPLATE = "node(s) didn't have NPUs that are divided by software"
PARTS_OF_SEVERAL = "node(s) offer several NPUs per container only as whole cards"
UNFIT = "node(s) didn't have enough NPUs of the requested size"
BUSY = "node(s) didn't have enough free capacity on single NPUs"

BY_SOFTWARE = "hami-core"
WITH_NETWORKS = "Ascend910"
"""The beginning of the names of kinds whose cards are in networks."""
NETWORK_SCORE = 10
"""The score of a node where all cards of the pod are in one network."""

_ORDERS = {"binpack": CardOrder.FULLEST, "spread": CardOrder.EMPTIEST}


class HamiNpus:
    """The NPUs of one kind in a session."""

    compares_nodes = False
    lock = names.NPU_LOCK

    def __init__(self, cluster: Cluster, kind: NpuKind, by_software: bool, policy: str, weight: int) -> None:
        """``by_software``: whether nodes without an annotation divide cards by software."""
        self._cluster, self._kind, self._default_mode = cluster, kind, by_software
        self._policy, self._weight = policy, weight
        shapes = cluster.snapshot.shapes
        self._requested: dict[int, tuple[CardRequest, ...]] = cached_by_shapes(
            cluster.traits, f"NPUs requested: {kind}", shapes, lambda: self._read_requests(by_software=False)
        )
        self._criteria: dict[tuple[int, bool], CardCriteria] = {}

    def requested(self, task: TaskView) -> bool:
        """Return whether the task requests NPUs of the kind."""
        return task.shape in self._requested

    def cache_key(self, task: TaskView) -> Hashable:
        """Return what the answers for a task depend on besides its shape."""
        return self._by_software(task)

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Return the nodes without enough cards for the task."""
        self._assignments.sync()
        rows, criteria = nodes.rows, self._criteria_of(task)
        if hami_annotations.requests_parts_of_several(self._requests_of(task), self._kind):
            return [NodeRejection(PARTS_OF_SEVERAL, np.ones(len(rows), dtype=np.bool_), final=True)]
        fits = self._cards.fits(rows, criteria, pipelined=False)
        if fits.all():
            return []
        later = self._cards.fits(rows, criteria, pipelined=True)
        possible = self._cards.fits_empty_nodes(rows, criteria)
        unreadable = np.array([not self._registers[row].readable for row in rows.tolist()], dtype=np.bool_)
        none = (self._table.start[rows + 1] == self._table.start[rows]) & ~unreadable
        in_mode = self._in_mode(task)[rows]
        offered = ~none & ~unreadable & in_mode
        rejections = [
            NodeRejection(UNREADABLE.format(self._kind.registered), unreadable, final=True),
            NodeRejection(NO_NPUS, none, final=True),
            NodeRejection(BY_TEMPLATE, ~none & ~unreadable & ~in_mode, final=True),
            NodeRejection(UNFIT, offered & ~possible, final=True),
            NodeRejection(BUSY, possible & ~fits & ~later),
            NodeRejection(BUSY, possible & ~fits & later, temporary=True),
        ]
        return [rejection for rejection in rejections if rejection.nodes.any()]

    def score(self, task: TaskView, nodes: NodesView) -> Floats:
        """Return the mean of the policy over the pod's cards, and for cards with networks the share that is in one network."""
        if not self._weight:
            return np.zeros(len(nodes), dtype=np.float64)
        self._assignments.sync()
        criteria = self._criteria_of(task)
        now = self._cards.evaluate(nodes.rows, criteria, pipelined=False)
        scores = self._mean_score(now, criteria)
        if not now.fits.all():
            later = self._cards.evaluate(nodes.rows[~now.fits], criteria, pipelined=True)
            scores[~now.fits] = self._mean_score(later, criteria)
        return self._weight * scores

    def annotate(self, task: TaskView, node: int) -> dict[str, str]:
        """Return the cards, in the forms that the device plugin and the container runtime read."""
        self._assignments.sync()
        assigned = self._assignments.get(task.representative.row)
        if assigned is None:
            return {}
        by_software = self._by_software(task)
        containers = [
            [
                AssignedNpu(self._table.ids[card], units, request.cores)
                for card, units in zip(cards.tolist(), memory.tolist(), strict=True)
            ]
            for request, cards, memory in zip(
                self._requests_of(task), assigned.choice.cards, assigned.choice.memory, strict=True
            )
        ]
        text = hami_annotations.format_npus(containers, self._kind.word)
        seconds = str(int(self._cluster.now.timestamp()))
        return {
            self._kind.to_allocate: text,
            self._kind.allocated: text,
            self._kind.for_runtime: hami_annotations.format_for_runtime(containers, self._kind, by_software),
            names.NPU_PREDICATE_TIME: seconds,
            names.HAMI_NODE: self._cluster.snapshot.nodes.names[node],
            names.HAMI_TIME: seconds,
            names.HAMI_BIND_PHASE: "allocating",
            names.HAMI_BIND_TIME: seconds,
        }

    # Requests of pods

    def _read_requests(self, by_software: bool) -> dict[int, tuple[CardRequest, ...]]:
        return {
            number: requests
            for number, spec in enumerate(self._cluster.snapshot.shapes.specs)
            if (requests := hami_annotations.npu_requests(spec, self._kind, by_software))
        }

    @cached_property
    def _requested_by_software(self) -> dict[int, tuple[CardRequest, ...]]:
        return self._read_requests(by_software=True)

    def _by_software(self, task: TaskView) -> bool:
        return task.representative.pod.metadata.annotations.get(names.NPU_MODE) == BY_SOFTWARE

    def _requests_of(self, task: TaskView) -> tuple[CardRequest, ...]:
        return (self._requested_by_software if self._by_software(task) else self._requested)[task.shape]

    def _criteria_of(self, task: TaskView) -> CardCriteria:
        key = (task.shape, self._by_software(task))
        known = self._criteria.get(key)
        if known is None:
            known = self._criteria[key] = CardCriteria(
                self._requests_of(task),
                self._table.healthy & self._in_mode(task)[self._table.node],
                np.empty(0, dtype=np.intp),
                self._prefer_network if (self._networks != NO_NETWORK).any() else None,
                distinct=True,
            )
        return known

    def _in_mode(self, task: TaskView) -> Mask:
        """(N,): the nodes that divide cards as the task requests; by templates all do."""
        return self._divided_by_software if self._by_software(task) else np.ones_like(self._divided_by_software)

    # Networks

    @cached_property
    def _networks(self) -> Rows:
        """(C,): the network of each card, numbered apart on each node; NO_NETWORK where not all cards of the node have one."""
        numbers: dict[tuple[int, int], int] = {}
        networks = np.full(len(self._table), NO_NETWORK, dtype=np.intp)
        if not self._kind.word.startswith(WITH_NETWORKS):
            return networks
        for node, register in enumerate(self._offered):
            if register.networks and NO_NETWORK not in register.networks:
                start = int(self._table.start[node])
                for position, network in enumerate(register.networks):
                    networks[start + position] = numbers.setdefault((node, network), len(numbers))
        return networks

    def _prefer_network(self, cards: Rows, memory: Ints, cores: int, placed: bool) -> Floats:
        """Return the suitability of free cards: those of the network with most of them first, one network after the other."""
        networks = self._networks[cards]
        known = networks != NO_NETWORK
        counts = np.bincount(networks[known], minlength=len(self._table) + 1)
        result: Floats = np.where(known, counts[networks] * (len(self._table) + 1.0) - networks, 0.0)
        return result

    def _mean_score(self, choice: CardChoice, criteria: CardCriteria) -> Floats:
        number = sum(request.number for request in criteria.requests if request is not None)
        scores: Floats = np.rint(choice.score) / number
        cards, positions = np.concatenate(choice.cards), np.concatenate(choice.positions)
        networks = self._networks[cards]
        for position in np.unique(positions[networks != NO_NETWORK]).tolist():
            own = networks[positions == position]
            if choice.fits[position]:
                scores[position] += NETWORK_SCORE * np.bincount(own).max() / len(own)
        return scores

    # Cards of nodes

    @cached_property
    def _registers(self) -> tuple[NpuRegister, ...]:
        return tuple(
            hami_annotations.parse_register(node.metadata.annotations.get(self._kind.registered, ""))
            for node in self._cluster.snapshot.nodes.traits.objects
        )

    @cached_property
    def _offered(self) -> tuple[NpuRegister, ...]:
        """Per node: what it registers, if its kubelet reports any."""
        nodes, name = self._cluster.snapshot.nodes, self._kind.resource
        if name not in self._cluster.snapshot.axis.index:
            return (NpuRegister(),) * len(self._registers)
        return tuple(
            register if allocatable > 0 else NpuRegister(readable=register.readable)
            for register, allocatable in zip(self._registers, nodes.allocatable[name].tolist(), strict=True)
        )

    @cached_property
    def _divided_by_software(self) -> Mask:
        """(N,): the nodes that can divide cards by software."""
        default = "true" if self._default_mode else "false"
        objects = self._cluster.snapshot.nodes.traits.objects
        return np.array(
            [node.metadata.annotations.get(names.NPU_CORE_MODE, default) == "true" for node in objects], dtype=np.bool_
        )

    @cached_property
    def _table(self) -> CardTable:
        """The cards of all nodes, in one table until they change."""
        offered = tuple(register.cards for register in self._offered)
        return outlasting(self._cluster.traits, f"NPUs: {self._kind}", offered, lambda: card_table(offered))

    @cached_property
    def _cards(self) -> SessionCards:
        table, kind = self._table, f"NPUs taken: {self._kind}"
        usage = outlasting(self._cluster.traits, kind, table, lambda: CardUsage(table, rules=0))
        usage.sync(self._cluster, self._shares)
        order = _ORDERS.get(self._policy, CardOrder.FIRST)
        return SessionCards(self._cluster, table, usage, order, lambda row: self._criteria_of(self._cluster.task(row)))

    @cached_property
    def _assignments(self) -> NodeAssignments[AssignedCards]:
        return NodeAssignments(self._cluster, pending_tasks(self._cluster.snapshot, self._requested), self._cards)

    def _shares(self, pod: AssignedPod) -> tuple[tuple[gpu_annotations.CardShare, ...], tuple[int, ...]]:
        return gpu_annotations.vgpu_shares(pod.notes.get(self._kind.allocated, "")), ()
