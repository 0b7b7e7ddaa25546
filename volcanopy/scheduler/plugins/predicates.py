"""predicates: a task runs only where Kubernetes would let it run.

These are kube-scheduler's filters, but for the amounts of resources and the number of pods, which the session compares
itself. A node is rejected by the first filter that it fails, so that the counts of a message add up; filters whose no is
final (evicting pods would not help) come first, since a node that nothing helps shall not pass for one that an eviction
could free.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import msgspec
import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from volcanopy.api import core
from volcanopy.scheduler.filters.claims import ClaimFilter
from volcanopy.scheduler.filters.pods import host_ports
from volcanopy.scheduler.filters.pods.interpod_affinity import InterPod
from volcanopy.scheduler.filters.pods.pod_counts import PodCounts
from volcanopy.scheduler.filters.pods.topology_spread import Spreading
from volcanopy.scheduler.filters.traits import node_affinity as labels
from volcanopy.scheduler.filters.traits import taints
from volcanopy.scheduler.filters.traits.trait_cache import kept
from volcanopy.scheduler.filters.volumes import exclusive_disks
from volcanopy.scheduler.filters.volumes.volume_binding import VolumeChecks
from volcanopy.scheduler.framework.plugin import Arguments, NodeRejection, Plugin, Scope, per_shape
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Claims
from volcanopy.scheduler.model.resources import Mask, Rows, frozen
from volcanopy.scheduler.model.snapshot import Index

_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode

UNSCHEDULABLE = "node(s) were unschedulable"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"
DISKS = "node(s) had no available disk"
PORTS = "node(s) didn't have free ports for the requested pod ports"
NEAR = "node(s) didn't match pod affinity rules"
AWAY = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = "node(s) didn't match pod topology spread constraints (missing required label)"


def tainted(taint: core.Taint) -> str:
    """The reason for a taint."""
    return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"


class ShapePoint(BaseModel):
    """A point of the score over the utilisation of storage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    utilization: int = Field(ge=0, le=100)
    score: int = Field(ge=0, le=10)


class PredicatesArguments(Arguments):
    """Which filters run. Those of volumes and device claims act where such objects are known.

    ``predicate.CacheEnable`` changes nothing: what follows from nodes' labels and taints is always kept per shape.
    """

    node_affinity: bool = Field(default=True, alias="predicate.NodeAffinityEnable")
    """Node selectors and required node affinity."""
    node_ports: bool = Field(default=True, alias="predicate.NodePortsEnable")
    """Host ports."""
    taint_toleration: bool = Field(default=True, alias="predicate.TaintTolerationEnable")
    """Taints."""
    pod_affinity: bool = Field(default=True, alias="predicate.PodAffinityEnable")
    """Required affinity and anti-affinity of pods."""
    node_volume_limits: bool = Field(default=True, alias="predicate.NodeVolumeLimitsEnable")
    """How many volumes of a driver a node takes."""
    volume_zone: bool = Field(default=True, alias="predicate.VolumeZoneEnable")
    """Zones of volumes."""
    pod_topology_spread: bool = Field(default=True, alias="predicate.PodTopologySpreadEnable")
    """Spread constraints that must hold."""
    volume_binding: bool = Field(default=True, alias="predicate.VolumeBindingEnable")
    """Claims that are bound once the pod has a node."""
    dynamic_resources: bool = Field(default=True, alias="predicate.DynamicResourceAllocationEnable")
    """Claims on devices."""
    cache: bool = Field(default=False, alias="predicate.CacheEnable")
    """Without effect: answers are always kept per shape."""
    volume_binding_weight: int = Field(default=1, alias="volumebinding.weight")
    """How much it counts that a claim finds a fitting volume."""
    volume_binding_timeout: int = Field(default=600, ge=0, alias="volumebinding.bindTimeoutSeconds")
    """Seconds that a volume is waited for."""
    volume_binding_shape: tuple[ShapePoint, ...] = Field(default=(), alias="volumebinding.shape")
    """How much a volume scores by the percentage of it that would be used."""
    dynamic_resources_timeout: int = Field(default=10, ge=0, alias="dynamicresources.filterTimeoutSeconds")
    """Without effect: no filter takes that long."""


@dataclass(frozen=True, eq=False)
class _Fixed:
    """The filters by traits of nodes for a task: for each node the number of the reason that rejects it, 0 for none."""

    causes: Index | None
    reasons: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class _Filter:
    """A filter that looks at the pods that are there."""

    reason: str
    rejected: Callable[[Rows], Mask]
    final: bool = False


@dataclass(frozen=True)
class _Asked:
    """All filters of one shape."""

    fixed: _Fixed
    filters: tuple[_Filter, ...]
    scope: Scope


class Predicates(Plugin[PredicatesArguments]):
    """Only nodes that Kubernetes' own rules allow."""

    name: ClassVar[str] = "predicates"
    arguments: ClassVar[type[Arguments]] = PredicatesArguments

    def open(self) -> None:
        """Prepare the counts of pods, which are made when a shape needs them."""
        pod_counts = PodCounts(self.cluster)
        self._counts = pod_counts
        self._interpod = InterPod(self.cluster, pod_counts)
        self._spreading = Spreading(self.cluster, pod_counts)
        self._asked: dict[int, _Asked] = {}
        args = self.args
        checks = VolumeChecks(args.volume_binding, args.volume_zone, args.node_volume_limits)
        self._claims = ClaimFilter(self.cluster, checks, args.dynamic_resources, args.volume_binding_timeout)
        if not self._claims.differ_within_shape():
            self.cache_key = per_shape  # type: ignore[method-assign]  # no claims of single pods

    def cache_key(self, task: TaskView) -> Hashable:
        """The task's own claims."""
        return self._claims.cache_key(task)

    def scope(self, task: TaskView) -> Scope:
        """How far the filters of the task's shape reach."""
        scope = self._of(task).scope
        return max(scope, self._claims.scope(task)) if task.shape in self._claims.shapes else scope

    def bind_claims(self, task: TaskView, node: int) -> Claims | None:
        """The volumes and devices that the task's claims get with its node."""
        return self._claims.choices(task)

    def predicate(self, task: TaskView, nodes: NodesView) -> Sequence[NodeRejection]:
        """The filters' rejections, each node in the first one only."""
        asked = self._of(task)
        causes = asked.fixed.causes
        rows = nodes.rows
        of_claims = self._claims.rejections(task, rows) if task.shape in self._claims.shapes else []
        if causes is None and not asked.filters and not of_claims:
            return ()
        answer: list[NodeRejection] = []
        rejected = np.zeros(len(rows), dtype=np.bool_)
        if causes is not None:
            cause = causes[rows]
            rejected = cause != 0
            numbers = np.flatnonzero(np.bincount(cause)).tolist()
            answer += [NodeRejection(asked.fixed.reasons[each], cause == each, final=True) for each in numbers if each]
        filters = ((each.reason, each.rejected(rows), each.final, False) for each in asked.filters)
        parts = (
            ((each.reason, each.nodes, True, False) for each in of_claims if each.final),
            filters,
            ((each.reason, each.nodes, False, False) for each in of_claims if not each.final and not each.temporary),
            ((each.reason, each.nodes, False, True) for each in of_claims if each.temporary),
        )
        for reason, filtered, final, temporary in chain.from_iterable(parts):
            mask = filtered & ~rejected
            if mask.any():
                rejected = rejected | mask
                answer.append(NodeRejection(reason, mask, final, temporary))
        return answer

    def _of(self, task: TaskView) -> _Asked:
        shape = task.shape
        known = self._asked.get(shape)
        if known is None:
            known = self._asked[shape] = self._ask(task)
        return known

    def _ask(self, task: TaskView) -> _Asked:
        args = self.args
        about_pods: list[_Filter] = []
        about_node: list[_Filter] = []

        def add(
            filters: list[_Filter], reason: str, rejected: Callable[[Rows], Mask] | None, final: bool = False
        ) -> None:
            if rejected is not None:
                filters.append(_Filter(reason, rejected, final))

        if args.pod_topology_spread:
            add(about_pods, UNLABELLED, self._spreading.unlabelled(task), final=True)
        if args.pod_affinity:
            add(about_pods, NEAR, self._interpod.near(task), final=True)
        if args.node_ports:
            shapes = self.cluster.snapshot.shapes
            add(about_node, PORTS, host_ports.taken(task.shape, shapes, self.cluster.traits, self._counts))
        if args.volume_binding:
            shapes = self.cluster.snapshot.shapes
            add(about_node, DISKS, exclusive_disks.taken(task.shape, shapes, self.cluster.traits, self._counts))
        coupling: list[_Filter] = []
        if args.pod_affinity:
            add(coupling, AWAY, self._interpod.away(task))
            add(coupling, KEPT_AWAY, self._interpod.kept_away(task))
        if args.pod_topology_spread:
            add(coupling, SKEWED, self._spreading.skewed(task))
        scope = Scope.CLUSTER if about_pods or coupling else Scope.NODE if about_node else Scope.STATIC
        return _Asked(self._fixed(task.spec), (*about_pods, *about_node, *coupling), scope)

    def _fixed(self, spec: core.PodSpec) -> _Fixed:
        selects = self.args.node_affinity and labels.needed(spec)
        key = _ENCODE((selects, spec.tolerations, self.args.taint_toleration))
        return kept(self.cluster.traits, "predicates", key, lambda: self._rejected_by_traits(spec))

    def _rejected_by_traits(self, spec: core.PodSpec) -> _Fixed:
        traits = self.cluster.traits
        reasons = [""]
        causes = np.zeros(len(traits.objects), dtype=np.int32)

        def reject(reason: str, mask: Mask) -> None:
            mask = mask & (causes == 0)
            if mask.any():
                causes[mask] = len(reasons)
                reasons.append(reason)

        cordoned = taints.cordoned(spec.tolerations, traits)
        if cordoned is not None:
            reject(UNSCHEDULABLE, cordoned)
        eligible = labels.eligible(spec, traits) if self.args.node_affinity else None
        if eligible is not None:
            reject(SELECTOR, ~eligible)
        if self.args.taint_toleration:
            for taint, mask in taints.kept_off(spec.tolerations, traits):
                reject(tainted(taint), mask)
        if len(reasons) == 1:
            return _Fixed(None)
        frozen(causes)
        return _Fixed(causes, tuple(reasons))
