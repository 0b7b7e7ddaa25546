"""Filter of nodes by the claims of pods, on volumes and on devices."""

from collections.abc import Hashable
from functools import cached_property

from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.views import TaskView
from volcanopy.scheduler.model.plan import Claims
from volcanopy.scheduler.model.resources import Floats, Rows
from volcanopy.scheduler.nodes.assignments import pending_tasks
from volcanopy.scheduler.nodes.assumed_claims import AssumedClaims, AssumedPod
from volcanopy.scheduler.nodes.devices.device_claims import DynamicResources
from volcanopy.scheduler.nodes.volumes.volume_binding import VolumeBinding, VolumeChecks
from volcanopy.scheduler.policy.plugin import NodeRejection


class ClaimFilter:
    """The filter by claims of one session."""

    def __init__(self, cluster: Cluster, checks: VolumeChecks, devices: bool, timeout: int) -> None:
        """``devices``: whether claims on devices are checked; ``timeout``: seconds to wait until volumes are bound."""
        self._cluster, self._checks = cluster, checks
        self._with_devices, self._timeout = devices, timeout
        self.shapes = cluster.snapshot.shapes.claiming
        """The shapes of tasks with claims."""

    @cached_property
    def _assumed(self) -> AssumedClaims:
        return AssumedClaims(self._cluster, self._decide)

    @cached_property
    def _volumes(self) -> VolumeBinding:
        return VolumeBinding(self._cluster, self._assumed, self._checks)

    @cached_property
    def _devices(self) -> DynamicResources | None:
        return DynamicResources(self._cluster, self._assumed) if self._with_devices else None

    def differ_within_shape(self) -> bool:
        """Return whether pending tasks of one shape may differ in their claims, since claims are created for each pod."""
        specs = self._cluster.snapshot.shapes.specs
        own = [
            number
            for number in self.shapes
            if any(volume.ephemeral is not None for volume in specs[number].volumes)
            or any(claim.resource_claim_template_name for claim in specs[number].resource_claims)
        ]
        return bool(own) and len(pending_tasks(self._cluster.snapshot, own)) > 0

    def cache_key(self, task: TaskView) -> Hashable:
        """Return what distinguishes a task's claims from those of other tasks of its shape."""
        if task.shape not in self.shapes:
            return None
        volumes = self._volumes.cache_key(task)
        devices = self._devices.cache_key(task) if self._devices is not None else None
        return None if volumes is None and devices is None else (volumes, devices)

    def couples_nodes(self, task: TaskView) -> bool:
        """Return whether the claims of such a task make the answers for a node depend on others."""
        of_devices = self._devices is not None and self._devices.couples_nodes(task)
        return of_devices or self._volumes.couples_nodes(task)

    def rejections(self, task: TaskView, rows: Rows) -> list[NodeRejection]:
        """Return the rejections of these nodes for the task."""
        result = list(self._volumes.rejections(task, rows))
        if self._devices is not None:
            result += self._devices.rejections(task, rows)
        return result

    def preferences(self, task: TaskView, rows: Rows) -> Floats | None:
        """Return how preferred the devices are that the task gets on each node, 0 to 100; None without alternatives."""
        return None if self._devices is None else self._devices.preferences(task, rows)

    def choices(self, task: TaskView) -> Claims | None:
        """Return what must be written to claims before the task is bound to its node."""
        self._assumed.sync()
        assumed = self._assumed.get(task.row)
        if assumed is None or not (assumed.volumes or assumed.devices):
            return None
        return Claims(assumed.volumes, tuple(choice for choice, _, _ in assumed.devices), self._timeout)

    def _decide(self, row: int, node: int) -> AssumedPod:
        task = self._cluster.task(row)
        devices = self._devices.choose(task, node) if self._devices is not None else ()
        return AssumedPod(node, self._volumes.choose(task, node), devices)
