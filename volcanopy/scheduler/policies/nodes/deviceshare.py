"""deviceshare: share GPUs and NPUs between pods, and select the cards of each pod."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from volcanopy.api import core
from volcanopy.api.names import GPU_INDEX, GPU_LOCK, VGPU_IDS, VGPU_LOCK
from volcanopy.scheduler.engine.node_devices import CardSharing
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.gpu_cards import Candidates
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.claim_tables import AssignedPod
from volcanopy.scheduler.model.resources import Floats, Mask, Rows
from volcanopy.scheduler.nodes.assignments import NodeAssignments, pending_tasks
from volcanopy.scheduler.nodes.gpus import gpu_annotations
from volcanopy.scheduler.nodes.gpus.card_selection import FIRST_RULE, CardCriteria, CardOrder, CardRequest, CardTable
from volcanopy.scheduler.nodes.gpus.card_usage import AssignedCards, CardUsage, SessionCards, matching_rules
from volcanopy.scheduler.nodes.gpus.device_names import DeviceNames
from volcanopy.scheduler.nodes.gpus.mig_geometries import KNOWN, MigGeometries
from volcanopy.scheduler.nodes.gpus.node_cards import NodeCards
from volcanopy.scheduler.nodes.gpus.shared_cards import SharedCards
from volcanopy.scheduler.nodes.npus import npu_kinds
from volcanopy.scheduler.nodes.npus.hami_npus import HamiNpus
from volcanopy.scheduler.nodes.npus.mind_cluster_npus import MindClusterNpus
from volcanopy.scheduler.nodes.npus.npu_kinds import NpuKinds
from volcanopy.scheduler.nodes.npus.session_npus import SessionNpus
from volcanopy.scheduler.nodes.traits.trait_cache import cached, cached_by_shapes, outlasting
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import Nodes

NO_CARDS = "node(s) didn't have GPUs to share"
UNREADABLE = "node(s) had an annotation {} that cannot be read"
OTHER_MODE = "node(s) didn't have GPUs in the requested mode"
UNDIVIDED = "node(s) had GPUs in MIG mode of a model without an entry in deviceshare.knownMigGeometries"
UNFIT = "node(s) didn't have enough GPUs of the requested kind and size"
BUSY = "node(s) didn't have enough free capacity on single GPUs"

_ALONE = "spread"


class DeviceShareArguments(Arguments):
    """Which way GPUs are shared, and which card is preferred."""

    sharing: bool = Field(False, alias="deviceshare.GPUSharingEnable")
    """By memory: pods request memory of one card."""
    number: bool = Field(False, alias="deviceshare.GPUNumberEnable")
    """By number: pods request whole cards."""
    vgpu: bool = Field(False, alias="deviceshare.VGPUEnable")
    """As vGPUs: containers request memory and cores of one or several cards."""
    mind_cluster: bool = Field(False, alias="deviceshare.AscendMindClusterVNPUEnable")
    """NPUs that MindCluster divides: pods request AI cores, and get whole chips or a part by a template."""
    hami_npu: bool = Field(False, alias="deviceshare.AscendHAMiVNPUEnable")
    """NPUs that HAMi's device plugin registers: containers request cards, or memory and cores of them."""
    node_lock: bool = Field(False, alias="deviceshare.NodeLockEnable")
    """Bind one pod with parts of GPUs or NPUs at a time to a node, the next when the device plugin has removed the lock."""
    policy: Literal["", "binpack", "spread"] = Field("", alias="deviceshare.SchedulePolicy")
    """Which card is preferred: the fullest (`binpack`) or the emptiest (`spread`)."""
    weight: int = Field(0, ge=0, alias="deviceshare.ScheduleWeight")
    """How much that preference counts among nodes."""
    geometries: tuple[MigGeometries, ...] = Field(KNOWN, alias="deviceshare.knownMigGeometries")
    """Into which instances cards in MIG mode can be divided, by model. The default is that of Volcano's device plugin."""
    memory_factor: int = Field(1, ge=1, alias="deviceshare.gpuMemoryFactor")
    """The number of MB in one unit of `volcano.sh/vgpu-memory`; it matters for cards in MIG mode."""
    rules: tuple[dict[str, str], ...] = Field((), alias="deviceshare.GPUExclusiveRules")
    """Pods that have all labels of one of these do not share a card with each other."""
    names: DeviceNames = Field(default_factory=DeviceNames, alias="deviceshare.names")
    """Other names of resources and annotations, by the default ones; the next table has them all."""
    npu_kinds: NpuKinds = Field(npu_kinds.DEFAULT, alias="deviceshare.vnpus")
    """The kinds of these NPUs, as in `vnpus` of the ConfigMap of HAMi's device plugin; by default Ascend310P."""

    @field_validator("rules")
    @classmethod
    def _has_labels(cls, value: tuple[dict[str, str], ...]) -> tuple[dict[str, str], ...]:
        if not all(value):
            raise ValueError("a rule without labels would hold for every pod: name at least one label")
        return value

    @model_validator(mode="after")
    def _has_single_mode(self) -> "DeviceShareArguments":
        if sum([self.sharing, self.number, self.vgpu]) > 1:
            raise ValueError(
                "GPUs are shared by memory, by number or as vGPUs: switch on only one of "
                "deviceshare.GPUSharingEnable, deviceshare.GPUNumberEnable and deviceshare.VGPUEnable"
            )
        return self


class DeviceShare(Nodes, Plugin[DeviceShareArguments], CardSharing):
    """Assign cards of one node to pods that request parts of GPUs or whole ones, and write the cards to the pod."""

    name: ClassVar[str] = "deviceshare"
    arguments: ClassVar[type[Arguments]] = DeviceShareArguments

    def open(self) -> None:
        """Find the shapes of tasks that request cards."""
        args, shapes = self.args, self.cluster.snapshot.shapes
        self._requested: Mapping[int, tuple[CardRequest | None, ...]] = {}
        self._requests: dict[Hashable, CardCriteria] = {}
        if args.sharing or args.number or args.vgpu:
            self._requested = cached_by_shapes(
                self.cluster.traits, f"cards requested: {self._mode} {self.args.names}", shapes, self._read_requests
            )
        self._value = self.task_value(self._value_of)
        kinds = args.npu_kinds
        self._npus: list[SessionNpus] = [
            HamiNpus(self.cluster, kind, kinds.by_software, args.policy, args.weight)
            for kind in kinds.kinds
            if args.hami_npu
        ]
        if args.mind_cluster:
            self._npus.append(MindClusterNpus(self.cluster, args.weight))

    def couples_nodes(self, task: TaskView) -> bool:
        """Whether a score compares the NPUs of nodes."""
        return bool(self.args.weight) and any(npus.compares_nodes for npus in self._npus_of(task))

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Nodes without enough cards for the pod, container by container."""
        rejections = self._gpu_rejections(task, nodes)
        for npus in self._npus_of(task):
            rejections += npus.reject(task, nodes)
        return rejections

    def _npus_of(self, task: TaskView) -> list[SessionNpus]:
        """The kinds of NPUs that the pod requests."""
        return [npus for npus in self._npus if npus.requested(task)]

    def _gpu_rejections(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        if task.shape not in self._requested:
            return []
        self._assignments.sync()
        rows, request = nodes.rows, self._request_of(task)
        rejected = ~self._session_cards.fits(rows, request, pipelined=False)
        if not rejected.any():
            return []
        bad = rows[rejected]
        later = self._session_cards.fits(bad, request, pipelined=True)
        possible = self._session_cards.fits_empty_nodes(bad, request)
        none = self._cards.start[bad + 1] == self._cards.start[bad]
        unreadable = ~self._nodes.readable[bad]
        unwilling = ~none & ~self._in_mode(task)[bad]
        undivided = ~none & ~unwilling & ~possible & self._nodes.undivided[bad]
        rejections = [
            NodeRejection(UNREADABLE.format(self.args.names.registered), _spread(rejected, unreadable), final=True),
            NodeRejection(NO_CARDS, _spread(rejected, none & ~unreadable), final=True),
            NodeRejection(OTHER_MODE, _spread(rejected, unwilling), final=True),
            NodeRejection(UNDIVIDED, _spread(rejected, undivided), final=True),
            NodeRejection(UNFIT, _spread(rejected, ~none & ~unwilling & ~undivided & ~possible), final=True),
            NodeRejection(BUSY, _spread(rejected, possible & ~later)),
            NodeRejection(BUSY, _spread(rejected, possible & later), temporary=True),
        ]
        return [rejection for rejection in rejections if rejection.nodes.any()]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The mean over the cards that the pod would get: how full they will be (binpack), or whether they are empty (spread)."""
        return tasks.each(
            lambda task: sum((npus.score(task, nodes) for npus in self._npus_of(task)), self._score(task, nodes))
        )

    def _score(self, task: TaskView, nodes: NodesView) -> Floats:
        if task.shape not in self._requested or not self.args.weight or not self.args.policy:
            return np.zeros(len(nodes), dtype=np.float64)
        self._assignments.sync()
        request = self._request_of(task)
        now = self._session_cards.evaluate(nodes.rows, request, pipelined=False)
        scores = now.score.copy()
        if not now.fits.all():
            scores[~now.fits] = self._session_cards.evaluate(nodes.rows[~now.fits], request, pipelined=True).score
        number = sum(each.number for each in request.requests if each is not None)
        scores[:] = self.args.weight * np.rint(scores) / number
        return scores

    def gpu_cards(self) -> SharedCards | None:
        """The cards of this session, if a pod requests cards or a node has any."""
        return self._shared_cards

    @cached_property
    def _shared_cards(self) -> SharedCards | None:
        sharing = self.args.sharing or self.args.number or self.args.vgpu
        if not sharing or not len(self._cards):
            return None

        def criteria(task: TaskView) -> CardCriteria | None:
            return self._request_of(task) if task.shape in self._requested else None

        def types(task: TaskView) -> tuple[str, ...]:
            return self._card_annotations(task)[3:]

        return SharedCards(self._session_cards, self._requested, criteria, types, self._assignments.sync)

    def annotate(self, task: TaskView, node: int) -> dict[str, str]:
        """The cards, in the form that the node's device plugin reads.

        The default name of the cards is always among them: by it they are known in later cycles, whatever the names are then.
        """
        annotations = self._gpu_annotations(task, node)
        for npus in self._npus_of(task):
            annotations |= npus.annotate(task, node)
        return annotations

    def _gpu_annotations(self, task: TaskView, node: int) -> dict[str, str]:
        if task.shape not in self._requested:
            return {}
        self._assignments.sync()
        assigned = self._assignments.get(task.row)
        if assigned is None:
            return {}
        moment, named = self.cluster.now.timestamp(), self.args.names
        if not self.args.vgpu:
            ids = ",".join(self._cards.ids[card] for card in assigned.pod_usage.cards.tolist())
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

    def bind_locks(self, task: TaskView) -> tuple[str, ...]:
        """The annotations that device plugins remove when they have given the pod its cards; none for whole cards."""
        if not self.args.node_lock:
            return ()
        locks = {npus.lock for npus in self._npus_of(task) if npus.lock}
        if task.shape in self._requested and not self.args.number:
            locks.add(VGPU_LOCK if self.args.vgpu else GPU_LOCK)
        return tuple(sorted(locks))

    def _vgpu_text(self, requests: Sequence[CardRequest | None], assigned: AssignedCards) -> str:
        """The cards or instances of each container, with what it requests of them."""
        cards, choice = self._cards, assigned.choice
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
        uuid, instances = self._cards.ids[card], self._cards.instances
        names = instances.names[int(instances.model[card])]
        return gpu_annotations.instance_id(uuid, names[column]) if names else uuid

    # Requests of pods

    @property
    def _mode(self) -> str:
        return "memory" if self.args.sharing else "number" if self.args.number else "vgpu"

    def _read_requests(self) -> dict[int, tuple[CardRequest | None, ...]]:
        read: Callable[[core.PodSpec, DeviceNames], tuple[CardRequest | None, ...]] = {
            "memory": gpu_annotations.shared_memory_requests,
            "number": gpu_annotations.whole_card_requests,
            "vgpu": gpu_annotations.vgpu_requests,
        }[self._mode]
        return {
            number: requests
            for number, spec in enumerate(self.cluster.snapshot.shapes.specs)
            if (requests := read(spec, self.args.names))
        }

    def _value_of(self, task: TaskView) -> Hashable:
        """The pod's annotations and labels about cards; its job too, if its pods avoid each other."""
        of_npus = tuple(npus.cache_key(task) for npus in self._npus_of(task))
        if task.shape not in self._requested or not (self.args.vgpu or self.args.rules):
            return of_npus or None
        return (
            of_npus,
            self._card_annotations(task),
            matching_rules(self.args.rules, task.representative.pod.metadata.labels),
            self._job_to_avoid(task),
        )

    def _card_annotations(self, task: TaskView) -> tuple[str, ...]:
        """The pod's annotations about cards."""
        value = task.representative.pod.metadata.annotations
        named = self.args.names
        keys = (named.mode, named.use, named.avoid, named.type_use, named.type_avoid)
        return tuple(value.get(key, "") for key in keys) if self.args.vgpu else ("",) * len(keys)

    def _job_to_avoid(self, task: TaskView) -> int | None:
        """The row of the job whose other pods' cards the task avoids, if it does."""
        spread = (
            self.args.vgpu and task.representative.pod.metadata.annotations.get(self.args.names.group_policy) == _ALONE
        )
        job = task.representative.job
        return job.row if spread and job is not None else None

    def _request_of(self, task: TaskView) -> CardCriteria:
        key = (task.shape, self._value(task))
        known = self._requests.get(key)
        if known is None:
            rules = matching_rules(self.args.rules, task.representative.pod.metadata.labels)
            rows = np.array([FIRST_RULE + rule for rule in rules], dtype=np.intp)
            ranking, kind = self.cluster.queries.card_ranking, task.representative
            known = self._requests[key] = CardCriteria(
                self._requested[task.shape],
                self._allowed(task),
                rows,
                None if ranking is None else lambda *of: ranking.card_order(kind, Candidates(*of)),
                kind=key,
                preference_state=None if ranking is None else ranking.node_state,
            )
        job = self._job_to_avoid(task)
        if job is None:
            return known
        allowed = known.allowed.copy()
        # The task itself as well: where it has cards already, it stands for another of equal shape.
        for row in self.cluster.job(job).tasks().tolist():
            allowed[self._cards_of(row)] = False
        return replace(known, allowed=allowed)

    def _cards_of(self, row: int) -> Rows:
        assigned = self._assignments.get(row)
        return self._session_cards.running(row) if assigned is None else assigned.pod_usage.cards

    def _allowed(self, task: TaskView) -> Mask:
        """(C,): healthy cards of nodes in the right mode, of the ids and types that the pod accepts."""
        cards = self._cards
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
        return self._nodes.in_mode(self._card_annotations(task)[0])

    # Cards of nodes

    @cached_property
    def _nodes(self) -> NodeCards:
        args = self.args
        return NodeCards(self.cluster.snapshot, args.names, self._mode, args.geometries, args.memory_factor)

    @property
    def _cards(self) -> CardTable:
        return self._nodes.table

    @cached_property
    def _session_cards(self) -> SessionCards:
        orders = {"binpack": CardOrder.FULLEST, "spread": CardOrder.EMPTIEST}
        order = orders.get(self.args.policy, CardOrder.LAST if self.args.vgpu else CardOrder.FIRST)
        cards, kind = self._cards, f"cards taken: {self._mode} {self.args.names}"
        rules = tuple(tuple(sorted(rule.items())) for rule in self.args.rules)
        usage = outlasting(self.cluster.traits, kind, (cards, rules), lambda: CardUsage(cards, len(rules)))
        usage.sync(self.cluster, self._shares)
        return SessionCards(self.cluster, cards, usage, order, lambda row: self._request_of(self.cluster.task(row)))

    @cached_property
    def _assignments(self) -> NodeAssignments[AssignedCards]:
        waiting = pending_tasks(self.cluster.snapshot, self._requested)
        return NodeAssignments(self.cluster, waiting, self._session_cards)

    def _shares(self, pod: AssignedPod) -> tuple[tuple[gpu_annotations.CardShare, ...], tuple[int, ...]]:
        """The shares of cards allocated to a pod on a node."""
        notes = pod.notes
        if self.args.vgpu:
            shares = gpu_annotations.vgpu_shares(notes.get(VGPU_IDS, ""))
        else:
            requests = self._requested.get(int(self.cluster.snapshot.tasks.shape[pod.row]), (None,))
            shares = gpu_annotations.shared_gpu_shares(notes.get(GPU_INDEX, ""), requests[0])
        return shares, matching_rules(self.args.rules, pod.pod.metadata.labels)


def _split(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _spread(mask: Mask, within: Mask) -> Mask:
    """``within``, given for the entries of the mask that hold, over all of them."""
    whole = np.zeros(len(mask), dtype=np.bool_)
    whole[mask] = within
    return whole
