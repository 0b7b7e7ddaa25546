"""predicates: filters nodes as kube-scheduler does.

Resource requests and the number of pods are not checked here but by the session. A node counts for the first filter
that rejects it, so that the numbers in a message add up. Filters with final rejections (which evictions cannot resolve)
come first, so that such a node is not a candidate for preemption.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
from pydantic import Field

from volcanopy.api import core
from volcanopy.scheduler.ledger.cluster import NodesView
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Claims
from volcanopy.scheduler.model.resources import Floats, Index, Mask, Rows
from volcanopy.scheduler.nodes.claims import ClaimFilter
from volcanopy.scheduler.nodes.pods import pod_conflicts
from volcanopy.scheduler.nodes.pods.interpod_affinity import InterPodAffinity
from volcanopy.scheduler.nodes.pods.pod_counts import PodCounts
from volcanopy.scheduler.nodes.pods.topology_spread import PodTopologySpread
from volcanopy.scheduler.nodes.traits import node_affinity as labels
from volcanopy.scheduler.nodes.traits import taints
from volcanopy.scheduler.nodes.traits.trait_cache import cached, cached_of_shape
from volcanopy.scheduler.nodes.volumes.volume_binding import VolumeChecks
from volcanopy.scheduler.policy.plugin import Arguments, NodeRejection, Plugin
from volcanopy.scheduler.policy.roles import ClaimAssignment, Nodes

_Rejected = Callable[[Rows], Mask]  # Which of M nodes a filter rejects.
_ENCODE = msgspec.msgpack.Encoder(order="deterministic").encode

UNSCHEDULABLE = "node(s) were unschedulable"
SELECTOR = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
NEAR = "node(s) didn't match pod affinity rules"
AWAY = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = "node(s) didn't match pod topology spread constraints (missing required label)"


def tainted(taint: core.Taint) -> str:
    """The reason for a taint."""
    return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"


class PredicatesArguments(Arguments):
    """Which filters run. Those of volumes and device claims act where such objects are known."""

    node_affinity: bool = Field(default=True, alias="predicate.NodeAffinityEnable")
    """Node selectors and required node affinity."""
    node_ports: bool = Field(default=True, alias="predicate.NodePortsEnable")
    """Host ports."""
    taint_toleration: bool = Field(default=True, alias="predicate.TaintTolerationEnable")
    """Taints."""
    pod_affinity: bool = Field(default=True, alias="predicate.PodAffinityEnable")
    """Required affinity and anti-affinity of pods."""
    node_volume_limits: bool = Field(default=True, alias="predicate.NodeVolumeLimitsEnable")
    """The maximum number of attached volumes of a driver per node."""
    volume_zone: bool = Field(default=True, alias="predicate.VolumeZoneEnable")
    """Zones of volumes."""
    pod_topology_spread: bool = Field(default=True, alias="predicate.PodTopologySpreadEnable")
    """Topology spread constraints with DoNotSchedule."""
    volume_binding: bool = Field(default=True, alias="predicate.VolumeBindingEnable")
    """Unbound volume claims with volume binding mode WaitForFirstConsumer."""
    dynamic_resources: bool = Field(default=True, alias="predicate.DynamicResourceAllocationEnable")
    """Claims on devices."""
    volume_binding_timeout: int = Field(default=600, ge=0, alias="volumebinding.bindTimeoutSeconds")
    """The maximum seconds to wait until volumes are bound."""


@dataclass(frozen=True, eq=False)
class _TraitRejections:
    """The rejections by node traits: for each node the index of its reason, 0 for none."""

    causes: Index | None
    reasons: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class _Filter:
    """A filter that depends on the pods of the nodes."""

    reason: str
    rejected: _Rejected
    final: bool = False


@dataclass(frozen=True)
class _ShapeFilters:
    """All filters of one shape."""

    traits: _TraitRejections
    pods: tuple[_Filter, ...]
    couples_nodes: bool


class Predicates(Nodes, Plugin[PredicatesArguments], ClaimAssignment):
    """Filters nodes as kube-scheduler does."""

    name: ClassVar[str] = "predicates"
    arguments: ClassVar[type[Arguments]] = PredicatesArguments

    def open(self) -> None:
        """Prepare the filters, which are computed when a shape needs them."""
        self._filters: dict[int, _ShapeFilters] = {}
        args = self.args
        checks = VolumeChecks(args.volume_binding, args.volume_zone, args.node_volume_limits)
        self._claims = ClaimFilter(self.cluster, checks, args.dynamic_resources, args.volume_binding_timeout)
        if self._claims.differ_within_shape():
            self.task_value(self._claims.cache_key)
        self._pod_counts = PodCounts(self.cluster)
        self._interpod = InterPodAffinity(self.cluster, self._pod_counts)
        self._spreading = PodTopologySpread(self.cluster, self._pod_counts)

    def couples_nodes(self, task: TaskView) -> bool:
        """Whether a filter of the task's shape or claims counts what is on other nodes."""
        of_claims = task.shape in self._claims.shapes and self._claims.couples_nodes(task)
        return of_claims or self._of(task).couples_nodes

    def node_state(self, task: TaskView) -> Callable[[int], Hashable] | None:
        """The reason by which the node is rejected, if nothing else may reject it."""
        filters, causes = self._of(task), self._of(task).traits.causes
        return None if causes is None or filters.pods or task.shape in self._claims.shapes else causes.item

    def bind_claims(self, task: TaskView) -> Claims | None:
        """Return the volumes and devices for the task's claims on its node."""
        return self._claims.choices(task)

    def claim_preferences(self, task: TaskView, rows: Rows) -> Floats | None:
        """Return how preferred the devices are that the task gets on each node."""
        return self._claims.preferences(task, rows)

    def reject(self, task: TaskView, nodes: NodesView) -> Sequence[NodeRejection]:
        """Return the rejections of the filters, each node in the first one only."""
        filters = self._of(task)
        causes = filters.traits.causes
        has_claims = task.shape in self._claims.shapes
        if causes is None and not filters.pods and not has_claims:
            return ()
        if filters.pods or has_claims:
            rows = nodes.rows
        else:
            with self.cluster.by_state(nodes, causes):
                rows = nodes.rows
        of_claims = self._claims.rejections(task, rows) if has_claims else []
        result: list[NodeRejection] = []
        rejected = np.zeros(len(rows), dtype=np.bool_)
        if causes is not None:
            own = causes[rows]
            rejected = own != 0
            numbers = np.flatnonzero(np.bincount(own)).tolist()
            reasons = filters.traits.reasons
            result += [NodeRejection(reasons[number], own == number, final=True) for number in numbers if number]
        of_pods = [NodeRejection(each.reason, each.rejected(rows), each.final) for each in filters.pods]
        of_claims.sort(key=lambda claim: (not claim.final, claim.temporary))
        final = sum([claim.final for claim in of_claims])
        for rejection in (*of_claims[:final], *of_pods, *of_claims[final:]):
            mask = rejection.nodes & ~rejected
            if np.logical_or.reduce(mask):
                rejected = rejected | mask
                result.append(NodeRejection(rejection.reason, mask, rejection.final, rejection.temporary))
        return result

    def _of(self, task: TaskView) -> _ShapeFilters:
        shape = task.shape
        known = self._filters.get(shape)
        if known is None:
            shapes, traits = self.cluster.snapshot.shapes, self.cluster.traits
            known = cached_of_shape(traits, "filters of shapes", shapes, self.args, shape, lambda: self._read(task))
            self._filters[shape] = known
        return known

    def _read(self, task: TaskView) -> tuple[_ShapeFilters, bool]:
        """Return the filters of a shape, and whether none of them depends on pods."""
        args, counts = self.args, self._pod_counts
        shapes, traits = self.cluster.snapshot.shapes, self.cluster.traits
        filters: tuple[tuple[bool, str, Callable[[TaskView], _Rejected | None], bool], ...] = (
            (args.pod_topology_spread, UNLABELLED, self._spreading.missing_label_filter, True),
            (args.pod_affinity, NEAR, self._interpod.affinity_filter, True),
            (args.node_ports, PORTS, lambda _: pod_conflicts.ports_in_use(task.shape, shapes, traits, counts), False),
            (args.pod_affinity, AWAY, self._interpod.anti_affinity_filter, False),
            (args.pod_affinity, KEPT_AWAY, self._interpod.existing_anti_affinity_filter, False),
            (args.pod_topology_spread, SKEWED, self._spreading.skew_filter, False),
        )
        enabled = [(reason, read(task), final) for is_enabled, reason, read, final in filters if is_enabled]
        of_pods = tuple(_Filter(reason, rejected, final) for reason, rejected, final in enabled if rejected is not None)
        couples_nodes = any(each.reason != PORTS for each in of_pods)
        return _ShapeFilters(self._trait_rejections(task.spec), of_pods, couples_nodes), not of_pods

    def _trait_rejections(self, spec: core.PodSpec) -> _TraitRejections:
        selects = self.args.node_affinity and labels.required_labels(spec)
        key = _ENCODE((selects, spec.tolerations, self.args.taint_toleration))
        return cached(self.cluster.traits, "predicates", key, lambda: self._compute_trait_rejections(spec))

    def _compute_trait_rejections(self, spec: core.PodSpec) -> _TraitRejections:
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
            for taint, mask in taints.untolerated_taints(spec.tolerations, traits):
                reject(tainted(taint), mask)
        if len(reasons) == 1:
            return _TraitRejections(None)
        causes.setflags(write=False)
        return _TraitRejections(causes, tuple(reasons))
