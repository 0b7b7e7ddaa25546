"""The slice that we read of what Kubernetes itself enforces: quotas of namespaces, and disruption budgets."""

from typing import Any

from msgspec import field

from volcanopy.api.core import LabelSelector, Meta, Quantities, ReadModel


class ResourceQuotaSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a quota is about, beside its limits: all pods of the namespace, or those of some scopes."""

    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class ResourceQuotaStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """The limits in force, and what counts against them."""

    hard: Quantities = field(default_factory=dict)
    used: Quantities = field(default_factory=dict)


class ResourceQuota(ReadModel, frozen=True, kw_only=True, gc=False):
    """What a namespace may use in all."""

    metadata: Meta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class PodDisruptionBudgetSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Which pods a budget protects."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """How many of them may be disrupted now, and which already count as such."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = field(default_factory=dict)


class PodDisruptionBudget(ReadModel, frozen=True, kw_only=True, gc=False):
    """How many pods of a kind may be taken away at once."""

    metadata: Meta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
