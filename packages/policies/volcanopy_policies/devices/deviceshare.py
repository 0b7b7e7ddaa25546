"""deviceshare: share GPUs and NPUs between pods, and select the cards of each pod."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.gpu_cards import GpuCards
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.resources import Floats
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import CardSharing, Nodes
from volcanopy_policies.devices.cards.device_kind import DeviceKind
from volcanopy_policies.devices.gpus.device_names import DeviceNames
from volcanopy_policies.devices.gpus.mig_geometries import KNOWN, MigGeometries
from volcanopy_policies.devices.gpus.shared_gpus import SharedGpus
from volcanopy_policies.devices.npus import npu_kinds
from volcanopy_policies.devices.npus.hami_npus import HamiNpus
from volcanopy_policies.devices.npus.mind_cluster_npus import MindClusterNpus
from volcanopy_policies.devices.npus.npu_kinds import NpuKinds


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
        """Find the kinds of devices, and the shapes of tasks that request them."""
        args, cluster = self.args, self.cluster
        self._gpus = [
            SharedGpus(
                cluster, mode, args.names, args.rules, args.geometries, args.memory_factor, args.policy, args.weight
            )
            for mode, is_on in (("memory", args.sharing), ("number", args.number), ("vgpu", args.vgpu))
            if is_on
        ]
        self._kinds: list[DeviceKind] = [*self._gpus]
        if args.hami_npu:
            kinds = args.npu_kinds
            self._kinds += [
                HamiNpus(cluster, kind, kinds.by_software, args.policy, args.weight) for kind in kinds.kinds
            ]
        if args.mind_cluster:
            self._kinds.append(MindClusterNpus(cluster, args.weight))
        if args.vgpu or args.rules or len(self._kinds) > len(self._gpus):  # else the shape decides
            self.task_value(self._cache_key)

    def _kinds_of(self, task: TaskView) -> list[DeviceKind]:
        """The kinds of devices that the pod requests."""
        return [kind for kind in self._kinds if kind.requested(task)]

    def _cache_key(self, task: TaskView) -> Hashable:
        return tuple([kind.cache_key(task) for kind in self._kinds_of(task)])

    def couples_nodes(self, task: TaskView) -> bool:
        """Whether a score compares the devices of nodes."""
        return bool(self.args.weight) and any(kind.compares_nodes for kind in self._kinds_of(task))

    def node_state(self, task: TaskView) -> Callable[[int], Hashable] | None:
        """The free cards of the node, if the pod requests cards of one kind."""
        states = [kind.node_state(task) for kind in self._kinds_of(task)]
        return states[0] if len(states) == 1 else None

    def reject(self, task: TaskView, nodes: NodesView) -> list[NodeRejection]:
        """Nodes without enough cards for the pod, container by container."""
        with self.cluster.by_state(nodes, self.node_state(task)):
            return [rejection for kind in self._kinds_of(task) for rejection in kind.reject(task, nodes)]

    def score(self, tasks: TasksView, nodes: NodesView) -> Floats:
        """The mean over the cards that the pod would get: how full they will be (binpack), or whether they are empty (spread)."""
        if not self.args.weight:
            return np.zeros((len(tasks), 1))

        def score(task: TaskView) -> Floats:
            with self.cluster.by_state(nodes, self.node_state(task)):
                return sum((kind.score(task, nodes) for kind in self._kinds_of(task)), np.zeros(len(nodes)))

        return tasks.each(score)

    def annotate(self, task: TaskView, node: int) -> dict[str, str]:
        """The cards, in the form that the node's device plugin reads."""
        texts: dict[str, str] = {}
        for kind in self._kinds:
            if kind.requested(task):
                texts |= kind.annotate(task, node)
        return texts

    def bind_locks(self, task: TaskView) -> tuple[str, ...]:
        """The annotations that device plugins remove when they have given the pod its cards; none for whole cards."""
        locks = {kind.lock for kind in self._kinds_of(task) if kind.lock} if self.args.node_lock else ()
        return tuple(sorted(locks))

    def gpu_cards(self) -> GpuCards | None:
        """The cards of this session, if a pod requests cards or a node has any."""
        return self._gpu_cards

    @cached_property
    def _gpu_cards(self) -> GpuCards | None:
        return next((gpus for gpus in self._gpus if len(gpus)), None)
