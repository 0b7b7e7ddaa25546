"""Read models of ResourceQuota and PodDisruptionBudget."""

from typing import Any

from msgspec import field

from volcanopy.api.core import LabelSelector, Meta, Quantities, ReadModel


class ResourceQuotaSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Limits of a quota and the pods that they are for. The limits in force are those of the status."""

    hard: Quantities = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class ResourceQuotaStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Limits of a quota and their current usage."""

    hard: Quantities = field(default_factory=dict)
    used: Quantities = field(default_factory=dict)


class ResourceQuota(ReadModel, frozen=True, kw_only=True, gc=False):
    """Limits of the total resources of a namespace."""

    metadata: Meta
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class PodDisruptionBudgetSpec(ReadModel, frozen=True, kw_only=True, gc=False):
    """Specification of a disruption budget."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ReadModel, frozen=True, kw_only=True, gc=False):
    """Number of allowed disruptions, and the pods that are being disrupted."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = field(default_factory=dict)


class PodDisruptionBudget(ReadModel, frozen=True, kw_only=True, gc=False):
    """Limit of the number of pods that may be disrupted at the same time."""

    metadata: Meta
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
