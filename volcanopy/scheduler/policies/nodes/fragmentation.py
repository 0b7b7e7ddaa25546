"""fragmentation: place pods so that the GPUs that stay free are usable by the pods that usually come.

The measure is that of fragmentation gradient descent (Weng et al., "Beware of Fragmentation", USENIX ATC 2023): the GPUs
of a node that a pod drawn from the recent mix could use, in expectation. A node is the better the less of it is lost by
the task. Added is a look beyond the next pod: GPUs are stranded if the cpu or memory of the node end before them.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar

import numpy as np
from pydantic import Field

from volcanopy.scheduler.engine import defaults
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.gpu_cards import ALL_CORES, Candidates, GpuCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.cached_property import cached_property
from volcanopy.scheduler.model.resources import Floats, Ints, Mask, Rows
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.nodes.devices.gpu_devices import CLASSES, GpuDevices
from volcanopy.scheduler.nodes.devices.pod_mix import GPUS, CardKind, Mix, PodClass, free_part, gpu_resources
from volcanopy.scheduler.nodes.traits import node_affinity, taints
from volcanopy.scheduler.policy.plugin import Arguments, Plugin
from volcanopy.scheduler.policy.roles import CardRanking, Nodes

_LARGEST = 700.0
"""The largest loss whose exponential is a finite number: the score of larger losses is as good as 0."""
_NO_CARDS: Rows = np.empty(0, dtype=np.intp)
_DIGITS = 9
"""Differences below this decimal place of a GPU are rounding, not preferences."""


class FragmentationArguments(Arguments):
    """Weights, and what counts as a GPU."""

    weight: int = Field(1, ge=0, alias="fragmentation.weight")
    """The weight of the plugin's score."""
    exclusive: bool = Field(True, alias="fragmentation.exclusive")
    """Where nodes have GPUs, binpack and the scores by amounts of nodeorder do not count."""
    gpus: tuple[str, ...] = Field(GPUS, alias="fragmentation.gpus")
    """The extended resources whose unit is a GPU."""
    device_classes: tuple[str, ...] = Field(CLASSES, alias="fragmentation.deviceClasses")
    """The device classes whose devices are GPUs or, by their attribute `profile`, MIG devices."""


class _Cards:
    """What the free cards of each node are worth to each kind of the mix, kept current with the session."""

    def __init__(self, cards: GpuCards, mix: Mix) -> None:
        self._cards, self._mix, self._synced = cards, mix, len(cards.changed())
        nodes = len(cards.start) - 1
        self.units: Ints = np.zeros((len(mix.card_memory), nodes), dtype=np.int64)
        """(P, N): the cards that each kind can use."""
        self.gpus: Floats = np.zeros((len(mix.card_memory), nodes))
        """(P, N): their free parts in sum."""
        self.free: Floats = np.zeros(nodes)
        """(N,): the free parts of all cards in sum."""
        self._update(np.arange(nodes))

    def sync(self) -> None:
        """Follow the assignments of cards."""
        changed = self._cards.changed()
        if len(changed) > self._synced:
            rows = np.unique(np.array(changed[self._synced :], dtype=np.intp))
            self._synced = len(changed)
            self._update(rows)

    def worth(self, cards: Rows, memory: Ints, cores: Ints) -> tuple[Mask, Floats]:
        """(P, K) which kinds can use each of these cards with so much free, and (K,) the free parts."""
        return self._mix.fits(cards, memory, cores), free_part(memory, cores, self._cards.memory[cards])

    def changes(self, task: TaskView, rows: Rows) -> tuple[Ints, Floats, Floats] | None:
        """(P, K), (P, K) and (K,): by how much a task changes units, gpus and free on K nodes; None if it requests no cards."""
        taken = self._cards.taken(task, rows)
        if taken is None:
            return None
        memory, cores = self._cards.free(taken.cards)
        fits, parts = self.worth(taken.cards, memory, cores)
        fits_after, parts_after = self.worth(taken.cards, memory - taken.memory, cores - taken.cores)
        return (
            summed(fits_after.astype(np.int64) - fits, taken.position, len(rows)).astype(np.int64),
            summed(fits_after * parts_after - fits * parts, taken.position, len(rows)),
            np.bincount(taken.position, parts_after - parts, minlength=len(rows)).astype(np.float64),
        )

    def _update(self, rows: Rows) -> None:
        start = self._cards.start
        cards = np.concatenate([_NO_CARDS, *map(np.arange, start[rows], start[rows + 1])])
        owner = np.searchsorted(rows, self._cards.node[cards])
        fits, parts = self.worth(cards, *self._cards.free(cards))
        self.units[:, rows] = summed(fits, owner, len(rows)).astype(np.int64)
        self.gpus[:, rows] = summed(fits * parts, owner, len(rows))
        self.free[rows] = np.bincount(owner, parts, minlength=len(rows))


def summed(values: Floats | Ints | Mask, owner: Rows, size: int) -> Floats:
    """(P, size): the sums of (P, K) values by the owner of each of the K."""
    kinds = len(values)
    flat = (np.arange(kinds)[:, None] * size + owner).ravel()
    sums: Floats = np.bincount(flat, values.ravel(), minlength=kinds * size).astype(np.float64)
    return sums.reshape(kinds, size)


class Fragmentation(Nodes, Plugin[FragmentationArguments], CardRanking):
    """Keep free GPUs usable."""

    name: ClassVar[str] = "fragmentation"
    arguments: ClassVar[type[Arguments]] = FragmentationArguments

    def open(self) -> None:
        """Find the resources that are GPUs."""
        self._parts: Mapping[int, float] = {
            position: part
            for position, part in gpu_resources(self.cluster.axis, self.args.gpus).items()
            if self.cluster.snapshot.nodes.allocatable.values[position].any()
        }
        self._kinds: dict[tuple[bytes, int], CardKind] = {}

    def packs_resources(self) -> bool:
        """Whether nodes have GPUs and pods request them."""
        return self.args.exclusive and self._mix is not None

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """0 to 100, falling with the usable GPUs that the task costs the node; 50 if none, 27 for one, 73 if one is gained."""
        mix, cards = self._mix, self._cards
        if mix is None:
            return np.zeros((len(tasks), 1))
        if cards is None:
            return self._score(self._loss(mix, tasks, nodes))
        sharing = [(number, task) for number, task in enumerate(tasks) if task.shape in self._sharing]
        if len(sharing) == len(tasks):
            losses = np.empty((len(tasks), len(nodes)))
        else:
            with self.cluster.reads.unaffected():  # other tasks take no cards
                cards.sync()
            losses = self._loss(mix, tasks, nodes)
        for number, task in sharing:
            with self.cluster.by_state(nodes, self.node_state(task)):
                losses[number] = self._loss_with_cards(mix, cards, task, nodes)
        return self._score(losses)

    def node_state(self, task: TaskView) -> Callable[[int], Hashable] | None:
        """The state of the mix, if the task requests cards, whose state the policy that shares them returns."""
        shares = self._cards is not None and task.shape in self._sharing
        return self.ranking_state if shares and self.cluster.queries.gpu_cards() else None

    def card_order(self, task: TaskView, candidates: Candidates) -> Floats:
        """The usable GPUs that are left on the node of each card, with the task on it."""
        mix, state = self._mix, self._cards
        if mix is None or state is None or self._provider is None or not len(candidates):
            return np.zeros(len(candidates))
        state.sync()
        cards = candidates.cards
        rows = self._provider.node[cards]
        memory, cores = self._provider.free(cards)
        fits, parts = state.worth(cards, memory, cores)
        fits_after, parts_after = state.worth(cards, memory - candidates.memory, cores - candidates.cores)
        units = state.units[:, rows] - fits + fits_after
        gpus = state.gpus[:, rows] - fits * parts + fits_after * parts_after
        free = state.free[rows] - parts + parts_after
        left = candidates.idle - task.request.values[:, None]
        own, unit_parts = left[mix.resources], self._unit_parts
        units, gpus = np.concatenate((units, own)), np.concatenate((gpus, own * unit_parts))
        return self._worth(mix, units[:, None], gpus[:, None], free[None], (left[0][None], left[1][None]), rows)[0]

    def ranking_state(self, node: int) -> Hashable:
        """What never changes of a node: the classes of the mix that it permits, and what they take of its cards."""
        if self._mix is None or self._provider is None:
            return None
        own = slice(int(self._provider.start[node]), int(self._provider.start[node + 1]))
        return self._mix.nodes[:, node].tobytes(), self._mix.card_memory[:, own].tobytes()

    def _score(self, losses: Floats) -> Floats:
        return self.args.weight * 100.0 / (1.0 + np.exp(np.minimum(np.round(losses, _DIGITS), _LARGEST)))

    # The measure

    def _worth(
        self, mix: Mix, units: Ints, gpus: Floats, free: Floats, amounts: tuple[Ints, Ints], rows: Rows
    ) -> Floats:
        """(S, N): the GPUs that pods of the mix can use, less those that are stranded."""
        return mix.usable(units, gpus, *amounts, rows) - mix.stranded(free, amounts)

    def _loss(self, mix: Mix, tasks: TasksView, nodes: NodesView) -> Floats:
        """(S, N): the usable GPUs that the tasks cost the nodes by their resources, without cards."""
        rows = nodes.rows
        units, gpus, free = self._resources(mix, nodes)
        amounts = nodes.idle.values[0][None], nodes.idle.values[1][None]
        before = self._worth(mix, units, gpus, free, amounts, rows)
        request = tasks.request.values
        left = amounts[0] - request[0], amounts[1] - request[1]
        extended = [position for position in self._parts if request[position].any()]
        if extended:
            taken = np.zeros((len(units), len(tasks), 1), dtype=np.int64)
            parts = np.zeros((len(units), 1, 1))
            first = len(mix.card_memory)
            taken[first:], parts[first:, 0] = request[mix.resources], self._unit_parts
            units, gpus = units - taken, gpus - taken * parts
            free = free - sum(request[position] * self._parts[position] for position in extended)
        return before - self._worth(mix, units, gpus, free, left, rows)

    def _resources(self, mix: Mix, nodes: NodesView) -> tuple[Ints, Floats, Floats]:
        """(P, 1, N) free units and what they are in GPUs, and (1, N) all free GPUs."""
        idle, rows = nodes.idle.values, nodes.rows
        own, parts = idle[mix.resources], self._unit_parts
        free = sum((idle[position] * part for position, part in self._parts.items()), start=np.zeros(len(nodes)))
        if self._cards is None:
            return own[:, None], (own * parts)[:, None], free[None]
        units = np.concatenate((self._cards.units[:, rows], own))
        gpus = np.concatenate((self._cards.gpus[:, rows], own * parts))
        return units[:, None], gpus[:, None], (free + self._cards.free[rows])[None]

    def _loss_with_cards(self, mix: Mix, state: _Cards, task: TaskView, nodes: NodesView) -> Floats:
        """(N,): the usable GPUs that a task costs the nodes on the cards that it would get there."""
        rows = nodes.rows
        state.sync()
        changes = state.changes(task, rows)
        if changes is None:
            return np.zeros(len(nodes))
        more_units, more_gpus, more_free = changes
        first, size = len(mix.card_memory), len(nodes)
        idle = nodes.idle.values
        # The node without the task, and with it: for few nodes one call costs hardly more than for half of them.
        amounts = np.stack((idle, idle - task.request.values[:, None]), axis=1)
        own = amounts[mix.resources]
        units: Ints = np.empty((first + len(own), 2, size), dtype=np.int64)
        gpus: Floats = np.empty(units.shape)
        units[first:], gpus[first:] = own, own * self._unit_parts[:, None]
        units[:first], gpus[:first] = state.units[:, None, rows], state.gpus[:, None, rows]
        units[:first, 1] += more_units
        gpus[:first, 1] += more_gpus
        free = np.empty((2, size))
        free[:] = sum((idle[position] * part for position, part in self._parts.items()), start=state.free[rows])
        free[1] += more_free
        before, after = self._worth(mix, units, gpus, free, (amounts[0], amounts[1]), rows)
        return before - after

    @cached_property
    def _unit_parts(self) -> Floats:
        """(P of extended resources, 1): the part of a GPU that a unit is."""
        resources = [] if self._mix is None else self._mix.resources.tolist()
        return np.array([self._parts[position] for position in resources]).reshape(-1, 1)

    # The mix

    @cached_property
    def _provider(self) -> GpuCards | None:
        provider: GpuCards | None = self.cluster.queries.gpu_cards()
        return provider or GpuDevices.of(self.cluster, self.args.device_classes)

    @cached_property
    def _cards(self) -> _Cards | None:
        mix, provider = self._mix, self._provider
        return None if mix is None or provider is None or not len(mix.card_memory) else _Cards(provider, mix)

    @cached_property
    def _sharing(self) -> frozenset[int]:
        """The shapes whose tasks request cards."""
        return frozenset() if self._provider is None else self._provider.shapes

    @cached_property
    def _mix(self) -> Mix | None:
        """The mix of the pods that were created last."""
        provider, nodes = self._provider, len(self.cluster.snapshot.nodes)
        if not self._parts and provider is None:
            return None
        counts = self._counts()
        classes = [self._pod_class(row, count) for row, count in counts.values()]
        return Mix.of(
            (each for each in classes if each is not None), nodes, 0 if provider is None else len(provider.node)
        )

    def _counts(self) -> dict[tuple[int, Hashable], tuple[int, int]]:
        """A task of each class of recent tasks with GPUs, and how many there are."""
        snapshot, sharing = self.cluster.snapshot, self._sharing
        table, request = snapshot.tasks, snapshot.shapes.request.values
        with_gpus = np.zeros(request.shape[1], dtype=np.bool_)
        for position in self._parts:
            with_gpus |= request[position] > 0
        with_gpus[list(sharing)] = True
        rows = np.flatnonzero((table.status != Status.ABSENT) & with_gpus[table.shape])
        before = len(rows) - defaults.MIXED_PODS
        if before > 0:
            created = table.created[rows]
            rows = rows[created >= np.partition(created, before)[before]]
        counts: dict[tuple[int, Hashable], tuple[int, int]] = {}
        for row, shape in zip(rows.tolist(), table.shape[rows].tolist(), strict=True):
            key = shape, self._provider.kind(self.cluster.task(row)) if self._provider and shape in sharing else None
            known = counts.get(key)
            counts[key] = (row, 1) if known is None else (known[0], known[1] + 1)
        return counts

    def _pod_class(self, row: int, count: int) -> PodClass | None:
        """The class of a task; None if it requests no GPUs."""
        task, traits = self.cluster.task(row), self.cluster.traits
        permitted = taints.tolerated_nodes(task.spec.tolerations, traits)
        labelled = node_affinity.eligible(task.spec, traits)
        nodes = permitted if labelled is None else permitted & labelled
        cpu, memory = task.request.values[:2].tolist()
        need = self._provider.need(task) if self._provider is not None and task.shape in self._sharing else None
        if need is not None and self._provider is not None:
            kind = CardKind(need.memory, need.cores)
            kind = self._kinds.setdefault((need.memory.tobytes(), need.cores), kind)  # one object for equal requests
            usable = need.memory <= self._provider.memory
            parts = need.memory[usable] / np.maximum(self._provider.memory[usable], 1)
            part = max(float(parts.mean()) if usable.any() else 0.0, need.cores / ALL_CORES)
            return PodClass(count, cpu, memory, need.number, kind, need.number * part, nodes)
        requested = [position for position in self._parts if task.request.values[position]]
        if not requested:
            return None
        position = max(requested, key=lambda each: task.request.values[each] * self._parts[each])
        number = int(task.request.values[position])
        return PodClass(count, cpu, memory, number, position, number * self._parts[position], nodes)
