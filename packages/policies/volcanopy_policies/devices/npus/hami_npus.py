"""NPUs of one kind that HAMi shares: which nodes have enough of them, and the cards of each pod."""

import json
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from volcanopy.api import core, names
from volcanopy.api.builtin import gpu_annotations
from volcanopy.api.builtin.gpu_annotations import ALL_CORES, Card, limit
from volcanopy.scheduler.ledger.cluster import Cluster, NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import AssignedPod
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.nodes.traits.trait_cache import cached_by_shapes
from volcanopy.scheduler.policy.plugin import NodeRejection
from volcanopy_policies.devices.cards.card_selection import CardChoice, CardCriteria, CardRequest
from volcanopy_policies.devices.cards.card_usage import AssignedCards
from volcanopy_policies.devices.cards.device_kind import UNREADABLE, DeviceKind, Shares
from volcanopy_policies.devices.npus.npu_kinds import NpuKind

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


NO_NPUS = "node(s) didn't have NPUs of the requested kind"
BY_TEMPLATE = "node(s) didn't have NPUs that are divided by software"
PARTS_OF_SEVERAL = "node(s) offer several NPUs per container only as whole cards"

BY_SOFTWARE = "hami-core"
WITH_NETWORKS = "Ascend910"
"""The beginning of the names of kinds whose cards are in networks."""
NETWORK_SCORE = 10
"""The score of a node where all cards of the pod are in one network."""


class HamiNpus(DeviceKind):
    """The NPUs of one kind in a session."""

    lock = names.NPU_LOCK
    unfit = "node(s) didn't have enough NPUs of the requested size"
    busy = "node(s) didn't have enough free capacity on single NPUs"

    def __init__(self, cluster: Cluster, kind: NpuKind, by_software: bool, policy: str, weight: int) -> None:
        """``by_software``: whether nodes without an annotation divide cards by software."""
        super().__init__(cluster, f"NPUs {kind}", policy, weight)
        self._kind, self._default_mode = kind, by_software
        self.shapes: dict[int, tuple[CardRequest, ...]] = cached_by_shapes(
            cluster.traits,
            f"NPUs requested: {kind}",
            cluster.snapshot.shapes,
            lambda: self._read_requests(by_software=False),
        )
        self._known_criteria: dict[tuple[int, bool], CardCriteria] = {}

    def cache_key(self, task: TaskView) -> Hashable:
        """Return what the answers for a task depend on besides its shape."""
        return self._by_software(task)

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Return the nodes without enough cards for the task."""
        if requests_parts_of_several(self._requests_of(task), self._kind):
            return [NodeRejection(PARTS_OF_SEVERAL, np.ones(len(nodes.rows), dtype=np.bool_), final=True)]
        return super().reject(task, nodes)

    def _reasons(self, task: TaskView, rows: Rows, possible: Mask) -> Iterable[tuple[str, Mask]]:
        unreadable = np.array([not self._registers[row].readable for row in rows.tolist()], dtype=np.bool_)
        yield UNREADABLE.format(self._kind.registered), unreadable
        yield NO_NPUS, self._table.start[rows + 1] == self._table.start[rows]
        yield BY_TEMPLATE, ~self._in_mode(task)[rows]

    def _annotations(self, task: TaskView, node: int, assigned: AssignedCards) -> dict[str, str]:
        containers = [
            [
                AssignedNpu(self._table.ids[card], units, request.cores)
                for card, units in zip(cards.tolist(), memory.tolist(), strict=True)
            ]
            for request, cards, memory in zip(
                self._requests_of(task), assigned.choice.cards, assigned.choice.memory, strict=True
            )
        ]
        text = format_npus(containers, self._kind.word)
        seconds = str(int(self.cluster.now.timestamp()))
        return {
            self._kind.to_allocate: text,
            self._kind.allocated: text,
            self._kind.for_runtime: format_for_runtime(containers, self._kind, self._by_software(task)),
            names.NPU_PREDICATE_TIME: seconds,
            names.HAMI_NODE: self.cluster.snapshot.nodes.names[node],
            names.HAMI_TIME: seconds,
            names.HAMI_BIND_PHASE: "allocating",
            names.HAMI_BIND_TIME: seconds,
        }

    # Requests of pods

    def _read_requests(self, by_software: bool) -> dict[int, tuple[CardRequest, ...]]:
        return {
            number: requests
            for number, spec in enumerate(self.cluster.snapshot.shapes.specs)
            if (requests := npu_requests(spec, self._kind, by_software))
        }

    @cached_property
    def _requested_by_software(self) -> dict[int, tuple[CardRequest, ...]]:
        return self._read_requests(by_software=True)

    def _by_software(self, task: TaskView) -> bool:
        return task.representative.pod.metadata.annotations.get(names.NPU_MODE) == BY_SOFTWARE

    def _requests_of(self, task: TaskView) -> tuple[CardRequest, ...]:
        return (self._requested_by_software if self._by_software(task) else self.shapes)[task.shape]

    def _criteria(self, task: TaskView) -> CardCriteria:
        key = (task.shape, self._by_software(task))
        criteria = self._known_criteria.get(key)
        if criteria is None:
            criteria = self._known_criteria[key] = CardCriteria(
                self._requests_of(task),
                self._table.healthy & self._in_mode(task)[self._table.node],
                np.empty(0, dtype=np.intp),
                self._prefer_network if (self._networks != NO_NETWORK).any() else None,
                distinct=True,
            )
        return criteria

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
        for node, register in enumerate(self._of_nodes):
            if register.networks and NO_NETWORK not in register.networks:
                start = int(self._table.start[node])
                for position, network in enumerate(register.networks):
                    networks[start + position] = numbers.setdefault((node, network), len(numbers))
        return networks

    def _prefer_network(self, cards: Rows, memory: Ints, cores: int, idle: Ints) -> Floats:
        """Return the suitability of free cards: those of the network with most of them first, one network after the other."""
        networks = self._networks[cards]
        known = networks != NO_NETWORK
        counts = np.bincount(networks[known], minlength=len(self._table) + 1)
        result: Floats = np.where(known, counts[networks] * (len(self._table) + 1.0) - networks, 0.0)
        return result

    def _mean_score(self, choice: CardChoice, criteria: CardCriteria) -> Floats:
        """The mean of the policy, and for cards with networks the share that is in one network."""
        scores = super()._mean_score(choice, criteria)
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
            parse_register(node.metadata.annotations.get(self._kind.registered, ""))
            for node in self.cluster.snapshot.nodes.traits.objects
        )

    @cached_property
    def _of_nodes(self) -> tuple[NpuRegister, ...]:
        """Per node: what it registers, if its kubelet reports any."""
        nodes, name = self.cluster.snapshot.nodes, self._kind.resource
        if name not in self.cluster.snapshot.axis.index:
            return (NpuRegister(),) * len(self._registers)
        return tuple(
            register if allocatable > 0 else NpuRegister(readable=register.readable)
            for register, allocatable in zip(self._registers, nodes.allocatable[name].tolist(), strict=True)
        )

    @cached_property
    def _divided_by_software(self) -> Mask:
        """(N,): the nodes that can divide cards by software."""
        default = "true" if self._default_mode else "false"
        objects = self.cluster.snapshot.nodes.traits.objects
        return np.array(
            [node.metadata.annotations.get(names.NPU_CORE_MODE, default) == "true" for node in objects], dtype=np.bool_
        )

    def _offered(self) -> Sequence[Sequence[Card]]:
        return tuple(register.cards for register in self._of_nodes)

    def _shares(self, pod: AssignedPod) -> Shares:
        return gpu_annotations.vgpu_shares(pod.notes.get(self._kind.allocated, "")), ()
