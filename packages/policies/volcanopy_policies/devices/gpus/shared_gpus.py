"""GPUs that pods share by memory, by number or as vGPUs: the cards of nodes, what pods request of them, and who has which."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from volcanopy.api import core
from volcanopy.api.builtin import gpu_annotations
from volcanopy.api.builtin.gpu_annotations import ALL_CORES, Card
from volcanopy.api.names import GPU_INDEX, GPU_LOCK, VGPU_IDS, VGPU_LOCK
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.gpu_cards import Candidates, CardNeed, TakenCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import AssignedPod
from volcanopy.scheduler.model.resources import UNLIMITED, Ints, Mask, Rows
from volcanopy.scheduler.nodes.traits.trait_cache import cached, cached_by_shapes, outlasting
from volcanopy_policies.devices.cards.card_selection import (
    CORES,
    FIRST_RULE,
    MEMORY,
    PODS,
    CardCriteria,
    CardOrder,
    CardRequest,
    CardTable,
    card_table,
)
from volcanopy_policies.devices.cards.card_usage import AssignedCards, matching_rules
from volcanopy_policies.devices.cards.device_kind import UNREADABLE, DeviceKind, Shares
from volcanopy_policies.devices.cards.instances import InstanceTable
from volcanopy_policies.devices.gpus import gpu_requests
from volcanopy_policies.devices.gpus.device_names import DeviceNames
from volcanopy_policies.devices.gpus.mig_geometries import MigGeometries, mig_instances

NO_CARDS = "node(s) didn't have GPUs to share"
OTHER_MODE = "node(s) didn't have GPUs in the requested mode"
UNDIVIDED = "node(s) had GPUs in MIG mode of a model without an entry in deviceshare.knownMigGeometries"

_MODES = (gpu_annotations.HAMI_CORE, gpu_annotations.MIG)
"""The modes of cards of which pods can get vGPUs."""
_LOCKS = {"memory": GPU_LOCK, "number": "", "vgpu": VGPU_LOCK}
_ALONE = "spread"


class SharedGpus(DeviceKind):
    """The GPUs of a session, also as :class:`~volcanopy.scheduler.ledger.gpu_cards.GpuCards`."""

    unfit = "node(s) didn't have enough GPUs of the requested kind and size"
    busy = "node(s) didn't have enough free capacity on single GPUs"
    shapes: frozenset[int]

    def __init__(
        self,
        cluster: Cluster,
        mode: str,
        named: DeviceNames,
        rules: tuple[dict[str, str], ...],
        geometries: tuple[MigGeometries, ...],
        memory_factor: int,
        policy: str,
        weight: int,
    ) -> None:
        """``mode`` is `memory`, `number` or `vgpu`; the others are the arguments of the policy."""
        super().__init__(cluster, f"{mode} {named}", policy, weight if policy else 0)
        if mode == "vgpu" and not policy:
            self._order = CardOrder.LAST
        self._mode, self._named, self._vgpu, self.lock = mode, named, mode == "vgpu", _LOCKS[mode]
        self._exclusive, self.rules = rules, tuple(tuple(sorted(rule.items())) for rule in rules)
        self._geometries, self._memory_factor = geometries, memory_factor
        self._requested: Mapping[int, tuple[CardRequest | None, ...]] = cached_by_shapes(
            cluster.traits, f"cards requested: {self._key}", cluster.snapshot.shapes, self._read_requests
        )
        self.shapes = frozenset(self._requested)
        self._known_criteria: dict[Hashable, CardCriteria] = {}
        self._moment = cluster.now.timestamp()

    def cache_key(self, task: TaskView) -> Hashable:
        """The pod's annotations and labels about cards; its job too, if its pods avoid each other."""
        if not self._vgpu and not self.rules:
            return None
        return (
            self._card_annotations(task),
            matching_rules(self._exclusive, task.representative.pod.metadata.labels),
            self._job_to_avoid(task),
        )

    def _reasons(self, task: TaskView, rows: Rows, possible: Mask) -> Iterable[tuple[str, Mask]]:
        yield UNREADABLE.format(self._named.registered), ~self._readable[rows]
        yield NO_CARDS, self._table.start[rows + 1] == self._table.start[rows]
        yield OTHER_MODE, ~self._in_mode(task)[rows]
        yield UNDIVIDED, self._undivided[rows] & ~possible

    # The cards, for policies that rank them

    def __len__(self) -> int:
        return len(self._table)

    @property
    def node(self) -> Rows:
        """(C,): the row of each card's node."""
        return self._table.node

    @property
    def start(self) -> Rows:
        """(N + 1,): the number of the first card of each node."""
        return self._table.start

    @property
    def memory(self) -> Ints:
        """(C,): the memory of each card."""
        return self._table.memory

    def kind(self, task: TaskView) -> Hashable:
        """Return the types of cards that the task accepts."""
        return self._card_annotations(task)[3:]

    def free(self, cards: Rows) -> tuple[Ints, Ints]:
        """Memory and percent of the cores that are free on each of these cards; less than nothing where no pod can run."""
        table, used = self._table, self._cards.usage(cards)
        usable = table.healthy[cards] & (used[PODS] < table.slots[cards]) & (used[CORES] < ALL_CORES)
        memory = np.where(usable, table.memory[cards] - used[MEMORY], -1)
        return memory, np.where(usable, ALL_CORES - used[CORES], -1)

    def changed(self) -> Sequence[int]:
        """The rows of the nodes whose cards were assigned or became free during the session, in order."""
        self._assignments.sync()
        return self._cards.changed

    def node_state(self, task: TaskView) -> Callable[[int], Hashable]:
        """Return what :meth:`taken` and :meth:`free` depend on for the task on a node besides its columns."""
        fixed = None if self._vgpu and self._job_to_avoid(task) is not None else self._criteria(task)

        def state(node: int) -> Hashable:
            self._assignments.sync()
            return self._cards.state(node, fixed or self._criteria(task))

        return state

    def need(self, task: TaskView) -> CardNeed | None:
        """What the task requests of cards, in sum of its containers: as many cards, each as the largest request."""
        if not self.requested(task):
            return None
        criteria = self._criteria(task)
        requests: list[CardRequest] = [request for request in criteria.requests if request is not None]
        memory = np.maximum.reduce([request.memory_of(self.memory) for request in requests])
        return CardNeed(
            sum(request.number for request in requests),
            np.where(criteria.allowed, memory, UNLIMITED),
            max(request.cores for request in requests),
        )

    def taken(self, task: TaskView, rows: Rows) -> TakenCards | None:
        """The cards that the task would get on each node: of those free now, else of those free later; None without a request."""
        if not self.requested(task):
            return None
        criteria = self._criteria(task)
        self._assignments.sync()
        now = self._cards.evaluate(rows, criteria, pipelined=False)
        cards, memory, cores, positions = (
            [*now.cards],
            [*now.memory],
            [0 if request is None else request.cores for request in criteria.requests],
            [*now.positions],
        )
        if self._cards.has_terminating and not now.fits.all():
            rest = np.flatnonzero(~now.fits)
            later = self._cards.evaluate(rows[rest], criteria, pipelined=True)
            cards, memory, cores = [*cards, *later.cards], [*memory, *later.memory], cores * 2
            positions += [rest[each] for each in later.positions]
        numbers = np.repeat(np.array(cores, dtype=np.int64), [len(each) for each in cards])
        return TakenCards(np.concatenate(positions), np.concatenate(cards), np.concatenate(memory), numbers)

    # Requests of pods

    def _read_requests(self) -> dict[int, tuple[CardRequest | None, ...]]:
        read: Callable[[core.PodSpec, DeviceNames], tuple[CardRequest | None, ...]] = {
            "memory": gpu_requests.shared_memory_requests,
            "number": gpu_requests.whole_card_requests,
            "vgpu": gpu_requests.vgpu_requests,
        }[self._mode]
        return {
            number: requests
            for number, spec in enumerate(self.cluster.snapshot.shapes.specs)
            if (requests := read(spec, self._named))
        }

    def _card_annotations(self, task: TaskView) -> tuple[str, ...]:
        """The pod's annotations about cards."""
        if not self._vgpu:
            return ("",) * 5
        value, named = task.representative.pod.metadata.annotations, self._named
        keys = (named.mode, named.use, named.avoid, named.type_use, named.type_avoid)
        return tuple([value.get(key, "") for key in keys])

    def _job_to_avoid(self, task: TaskView) -> int | None:
        """The row of the job whose other pods' cards the task avoids, if it does."""
        if task.representative.pod.metadata.annotations.get(self._named.group_policy) != _ALONE:
            return None
        job = task.representative.job
        return None if job is None else job.row

    def _criteria(self, task: TaskView) -> CardCriteria:
        key = (task.shape, self.cache_key(task))
        criteria = self._known_criteria.get(key)
        if criteria is None:
            rules = matching_rules(self._exclusive, task.representative.pod.metadata.labels)
            rows = np.array([FIRST_RULE + rule for rule in rules], dtype=np.intp)
            ranking, kind = self.cluster.queries.card_ranking, task.representative
            criteria = self._known_criteria[key] = CardCriteria(
                self._requested[task.shape],
                self._allowed(task),
                rows,
                None if ranking is None else lambda *of: ranking.card_order(kind, Candidates(*of)),
                kind=key,
                preference_state=None if ranking is None else ranking.ranking_state,
            )
        job = self._job_to_avoid(task) if self._vgpu else None
        if job is None:
            return criteria
        allowed = criteria.allowed.copy()
        # The task itself as well: where it has cards already, it stands for another of equal shape.
        for row in self.cluster.job(job).tasks().tolist():
            allowed[self._cards_of(row)] = False
        return replace(criteria, allowed=allowed)

    def _cards_of(self, row: int) -> Rows:
        assigned = self._assignments.get(row)
        return self._cards.running(row) if assigned is None else assigned.pod_usage.cards

    def _allowed(self, task: TaskView) -> Mask:
        """(C,): healthy cards of nodes in the right mode, of the ids and types that the pod accepts."""
        cards = self._table
        _, use, avoid, types, no_types = self._card_annotations(task)

        def by_name() -> Mask:
            mask = np.ones(len(cards), dtype=np.bool_)
            for number, (uuid, kind) in enumerate(zip(cards.ids, cards.types, strict=True)):
                mask[number] = (
                    (not use or uuid in _split(use))
                    and uuid not in _split(avoid)
                    and (not types or any(name.lower() in kind.lower() for name in _split(types)))
                    and not any(name.lower() in kind.lower() for name in _split(no_types))
                )
            return mask

        allowed = cards.healthy & self._in_mode(task)[cards.node]
        if use or avoid or types or no_types:
            allowed &= cached(self.cluster.traits, "cards by name", (use, avoid, types, no_types), by_name)
        return allowed

    def _in_mode(self, task: TaskView) -> Mask:
        """(N,): the nodes whose cards are in the requested mode, or in any known one without a request."""
        requested = self._card_annotations(task)[0]
        modes = _MODES if not requested else (requested,) if requested in _MODES else ()
        return np.isin(self._modes, modes)

    @cached_property
    def _modes(self) -> NDArray[np.str_]:
        """(N,): the mode of the cards of each node."""
        return np.array([node.mode for node in self._registers])

    # Cards of nodes

    @cached_property
    def _readable(self) -> Mask:
        """(N,): the nodes whose cards can be read."""
        return np.array([node.readable for node in self._registers], dtype=np.bool_)

    @cached_property
    def _undivided(self) -> Mask:
        """(N,): the nodes with a card in MIG mode whose geometries are not known."""
        unknown = self._table.instances.model == len(self._geometries) + 1
        mask: Mask = np.isin(np.arange(len(self._registers)), self._table.node[unknown])
        return mask

    @cached_property
    def _table(self) -> CardTable:
        """The cards of all nodes, in one table until they change."""
        offered = tuple(node.cards for node in self._registers)
        in_mig_mode = tuple(node.mode == gpu_annotations.MIG for node in self._registers)
        key = (offered, in_mig_mode, self._geometries, self._memory_factor)

        def instances(types: Sequence[str], nodes: Rows) -> InstanceTable:
            return mig_instances(
                self._geometries, types, [in_mig_mode[row] for row in nodes.tolist()], self._memory_factor
            )

        return outlasting(self.cluster.traits, f"cards: {self._key}", key, lambda: card_table(offered, instances))

    @cached_property
    def _registers(self) -> tuple[gpu_annotations.VgpuRegister, ...]:
        snapshot, named = self.cluster.snapshot, self._named
        notes = [node.metadata.annotations for node in snapshot.nodes.traits.objects]
        if self._mode == "vgpu":
            return tuple(
                gpu_annotations.parse_register(
                    annotations.get(named.registered, ""), annotations.get(named.handshake, "")
                )
                for annotations in notes
            )
        offers = [
            snapshot.nodes.allocatable[name].tolist() if name in snapshot.axis.index else [0] * len(notes)
            for name in (named.gpu_memory, named.gpu_number)
        ]
        return tuple(
            gpu_annotations.VgpuRegister(
                gpu_annotations.shared_cards(memory, number, annotations.get(named.unhealthy, ""))
            )
            for annotations, memory, number in zip(notes, *offers, strict=True)
        )

    def _offered(self) -> Sequence[Sequence[Card]]:
        return tuple(node.cards for node in self._registers)

    def _shares(self, pod: AssignedPod) -> Shares:
        """The shares of cards allocated to a pod on a node."""
        notes = pod.notes
        if self._vgpu:
            shares = gpu_annotations.vgpu_shares(notes.get(VGPU_IDS, ""))
        else:
            request = self._requested.get(int(self.cluster.snapshot.tasks.shape[pod.row]), (None,))[0]
            shares = gpu_annotations.shared_gpu_shares(notes.get(GPU_INDEX, ""), request.memory if request else 0)
        return shares, matching_rules(self._exclusive, pod.pod.metadata.labels)

    # Annotations of bound pods

    def _annotations(self, task: TaskView, node: int, assigned: AssignedCards) -> dict[str, str]:
        """The default name of the cards is always among them: by it they are known in later cycles, whatever the names are."""
        moment, named = self._moment, self._named
        if not self._vgpu:
            ids = ",".join([self._table.ids[card] for card in assigned.pod_usage.cards.tolist()])
            return {GPU_INDEX: ids, named.gpu_index: ids, named.predicate_time: str(int(moment * 1000) * 1_000_000)}
        cards = self._vgpu_text(self._requested[task.shape], assigned)
        seconds = str(int(moment))
        return {
            named.vgpu_node: self.cluster.snapshot.nodes.names[node],
            named.vgpu_time: seconds,
            VGPU_IDS: cards,
            named.vgpu_ids: cards,
            named.to_allocate: cards,
            named.bind_phase: "allocating",
            named.bind_time: seconds,
        }

    def _vgpu_text(self, requests: Sequence[CardRequest | None], assigned: AssignedCards) -> str:
        """The cards or instances of each container, with what it requests of them."""
        cards, choice = self._table, assigned.choice
        return gpu_annotations.format_vgpus(
            [
                (self._vgpu_id(card, column), cards.types[card], units, request.cores)
                for card, column, units in zip(
                    own.tolist(), columns.tolist(), request.memory_of(cards.memory[own]).tolist(), strict=True
                )
            ]
            if request
            else []
            for request, own, columns in zip(requests, choice.cards, choice.instances, strict=True)
        )

    def _vgpu_id(self, card: int, column: int) -> str:
        uuid, instances = self._table.ids[card], self._table.instances
        names = instances.names[int(instances.model[card])]
        return gpu_annotations.instance_id(uuid, names[column]) if names else uuid


def _split(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]
