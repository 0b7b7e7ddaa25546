"""Requests and limits of a whole pod, as kube-scheduler and ResourceQuota count them.

Rules (Kubernetes 1.34):

1. A container that limits a resource without requesting it requests its limit (defaulting by the API server).
2. A pod uses the larger of the sum of its containers and sidecars, and the peak of its init containers, each beside the
   sidecars that start before it.
3. Pod-level values replace that sum for cpu, memory and huge pages. A pod-level limit without a pod-level request is the
   request where no container requests the resource, and for huge pages (defaulting by the API server).
4. Overhead is added: to requests always, to limits where there is one.

Amounts are base units by resource (:mod:`volcanopy.api.quantity`); those of a pod are never greater than
:data:`volcanopy.api.quantity.LIMIT`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from volcanopy.api import core, quantity

Amounts = dict[str, int]
_NONE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """Requests and limits of one container; ``sidecar``: an init container that keeps running."""

    requests: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class PodResources:
    """All resources that a pod specifies; ``requests`` and ``limits`` are those at pod level."""

    containers: Sequence[ContainerResources] = ()
    init_containers: Sequence[ContainerResources] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    overhead: Mapping[str, int] = field(default_factory=dict)


def pod_requests(pod: PodResources, defaults: Mapping[str, int] = _NONE) -> Amounts:
    """Return the requests of a pod. ``defaults`` are the requests of a container that has none for the resource."""
    total = _aggregate(pod, lambda container: {**defaults, **container.limits, **container.requests})
    total |= _pod_level_requests(pod)
    _add(total, pod.overhead)
    return quantity.bounded(total)


def _pod_level_requests(pod: PodResources) -> Amounts:
    """The requests at pod level, with those that the API server adds where there are limits at pod level."""
    requests = {name: units for name, units in pod.requests.items() if _at_pod_level(name)}
    if pod.limits:
        requested = _aggregate(pod, lambda container: {**container.limits, **container.requests})
        requests = {name: units for name, units in requested.items() if name in {"cpu", "memory"}} | requests
        requests = {name: units for name, units in pod.limits.items() if _at_pod_level(name)} | requests
    return requests


def pod_limits(pod: PodResources) -> Amounts:
    """Return the limits of a pod."""
    total = _aggregate(pod, lambda container: container.limits)
    total |= {name: units for name, units in pod.limits.items() if _at_pod_level(name)}
    _add(total, {name: units for name, units in pod.overhead.items() if name in total})
    return quantity.bounded(total)


def resources_of(spec: core.PodSpec) -> PodResources:
    """Return the resources of a typed pod."""
    amounts = quantity.amounts
    whole = spec.resources or core.ResourceRequirements()

    def of(container: core.Container) -> ContainerResources:
        resources = container.resources
        sidecar = container.restart_policy == "Always"
        return ContainerResources(amounts(resources.requests), amounts(resources.limits), sidecar)

    return PodResources(
        [of(container) for container in spec.containers],
        [of(container) for container in spec.init_containers],
        amounts(whole.requests),
        amounts(whole.limits),
        amounts(spec.overhead),
    )


def resources_of_json(
    spec: Any, amounts: Callable[[Mapping[str, Any]], Mapping[str, int]] = quantity.amounts, most: int | None = None
) -> PodResources:
    """Return the resources of a pod spec as JSON; a part of another type counts as absent.

    ``amounts`` reads a resource list. No more than ``most`` containers of a kind are read.
    """

    def listed(parent: Any, *path: str) -> Mapping[str, int]:
        for key in path:
            parent = parent.get(key) if isinstance(parent, dict) else None
        return amounts(parent) if isinstance(parent, dict) else {}

    def of(container: Any) -> ContainerResources:
        sidecar = isinstance(container, dict) and container.get("restartPolicy") == "Always"
        requests, limits = (listed(container, "resources", kind) for kind in ("requests", "limits"))
        return ContainerResources(requests, limits, sidecar)

    def containers(kind: str) -> list[ContainerResources]:
        values = spec.get(kind) if isinstance(spec, dict) else None
        return [of(container) for container in values[:most]] if isinstance(values, list | tuple) else []

    return PodResources(
        containers("containers"),
        containers("initContainers"),
        listed(spec, "resources", "requests"),
        listed(spec, "resources", "limits"),
        listed(spec, "overhead"),
    )


def _aggregate(pod: PodResources, amounts_of: Callable[[ContainerResources], Mapping[str, int]]) -> Amounts:
    """The larger of the running sum and the peak of init containers."""
    running: Amounts = {}
    for container in pod.containers:
        _add(running, amounts_of(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.init_containers:
        requests = amounts_of(container)
        if container.sidecar:
            _add(running, requests)
            _add(sidecars, requests)
            together = sidecars
        else:
            together = dict(requests)
            _add(together, sidecars)
        for name, units in together.items():
            peak[name] = max(peak.get(name, 0), units)
    for name, units in peak.items():
        running[name] = max(running.get(name, 0), units)
    return running


def _at_pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, units in more.items():
        total[name] = total.get(name, 0) + units
