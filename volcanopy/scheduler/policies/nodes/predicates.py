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
from volcanopy.scheduler.ledger.domain_limits import DomainLimit, limited
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.once import once_by
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
class _ShapeFilters:
    """All filters of one shape."""

    traits: _TraitRejections
    affinity: Callable[[Rows], Mask] | None  # The filter by required affinity to pods.
    limits: tuple[tuple[str, list[DomainLimit]], ...]  # The filters that are limits on pods, by reason.


class Predicates(Nodes, Plugin[PredicatesArguments], ClaimAssignment):
    """Filters nodes as kube-scheduler does."""

    name: ClassVar[str] = "predicates"
    arguments: ClassVar[type[Arguments]] = PredicatesArguments

    def open(self) -> None:
        """Prepare the filters, which are computed when a shape needs them."""
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
        limits = self._of(task).limits
        return self.domain_limits(task) is None or any(reason != PORTS for reason, _ in limits)

    def domain_limits(self, task: TaskView) -> Sequence[DomainLimit] | None:
        """The limits on pods, if nothing else counts what is on other nodes."""
        filters = self._of(task)
        if filters.affinity or (task.shape in self._claims.shapes and self._claims.couples_nodes(task)):
            return None
        return [limit for _, limits in filters.limits for limit in limits]

    def node_state(self, task: TaskView) -> Callable[[int], Hashable] | None:
        """The reason by which the node is rejected, if nothing else but limits may reject it."""
        filters, causes = self._of(task), self._of(task).traits.causes
        is_alone = filters.affinity is None and task.shape not in self._claims.shapes
        return causes.item if causes is not None and is_alone else None

    def bind_claims(self, task: TaskView) -> Claims | None:
        """Return the volumes and devices for the task's claims on its node."""
        return self._claims.choices(task)

    def claim_preferences(self, task: TaskView, rows: Rows) -> Floats | None:
        """Return how preferred the devices are that the task gets on each node."""
        return self._claims.preferences(task, rows)

    def reject(self, task: TaskView, nodes: NodesView) -> Sequence[NodeRejection]:
        """Return the rejections of the filters, each node in the first one only."""
        filters = self._of(task)
        causes, affinity = filters.traits.causes, filters.affinity
        has_claims = task.shape in self._claims.shapes
        limits = () if nodes.without_limits else filters.limits
        reads_rows = bool(limits) or has_claims or affinity is not None
        if causes is None and not reads_rows:
            return ()
        if reads_rows:
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
        of_pods = [] if affinity is None else [NodeRejection(NEAR, affinity(rows), final=True)]
        of_pods += [NodeRejection(reason, limited(of_reason, rows)) for reason, of_reason in limits]
        of_claims.sort(key=lambda claim: (not claim.final, claim.temporary))
        final = sum([claim.final for claim in of_claims])
        for rejection in (*of_claims[:final], *of_pods, *of_claims[final:]):
            mask = rejection.nodes & ~rejected
            if np.logical_or.reduce(mask):
                rejected = rejected | mask
                result.append(NodeRejection(rejection.reason, mask, rejection.final, rejection.temporary))
        return result

    @once_by("shape")
    def _of(self, task: TaskView) -> _ShapeFilters:
        shapes, traits = self.cluster.snapshot.shapes, self.cluster.traits
        return cached_of_shape(traits, "filters of shapes", shapes, self.args, task.shape, lambda: self._read(task))

    def _read(self, task: TaskView) -> tuple[_ShapeFilters, bool]:
        """Return the filters of a shape, and whether none of them depends on pods."""
        args, counts = self.args, self._pod_counts
        shapes, traits = self.cluster.snapshot.shapes, self.cluster.traits
        limits: tuple[tuple[bool, str, Callable[[TaskView], list[DomainLimit]]], ...] = (
            (args.node_ports, PORTS, lambda _: pod_conflicts.ports_in_use(task.shape, shapes, traits, counts)),
            (args.pod_affinity, AWAY, self._interpod.anti_affinity_limits),
            (args.pod_affinity, KEPT_AWAY, self._interpod.existing_anti_affinity_limits),
            (args.pod_topology_spread, SKEWED, self._spreading.skew_limits),
        )
        by_reason = [(reason, read(task)) for is_enabled, reason, read in limits if is_enabled]
        filters = _ShapeFilters(
            self._trait_rejections(task.spec),
            self._interpod.affinity_filter(task) if args.pod_affinity else None,
            tuple((reason, of_reason) for reason, of_reason in by_reason if of_reason),
        )
        return filters, filters.affinity is None and not filters.limits

    def _trait_rejections(self, spec: core.PodSpec) -> _TraitRejections:
        selects = self.args.node_affinity and labels.required_labels(spec)
        spreads = self.args.pod_topology_spread and spec.topology_spread_constraints
        key = _ENCODE((selects, spec.tolerations, self.args.taint_toleration, spreads))
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
        for constraint in spec.topology_spread_constraints if self.args.pod_topology_spread else ():
            if constraint.when_unsatisfiable == "DoNotSchedule":
                reject(UNLABELLED, labels.domains(constraint.topology_key, traits).numbers == 0)
        if len(reasons) == 1:
            return _TraitRejections(None)
        causes.setflags(write=False)
        return _TraitRejections(causes, tuple(reasons))
