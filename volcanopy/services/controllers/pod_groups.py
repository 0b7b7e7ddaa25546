"""The controller of PodGroups for pods that belong to no job.

The pods of one owner are reconciled together: one PodGroup is created, then its name is written to the pods concurrently.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from volcanopy.api import names
from volcanopy.api.core import OwnerReference, PodGroup
from volcanopy.jobcontroller.jobset_podgroups import is_job_set
from volcanopy.jobcontroller.workload_podgroups import (
    GroupObserved,
    Owner,
    WorkloadPod,
    changes_group,
    group_name,
    is_ours,
    owner_of,
    reconcile_group,
    slim,
)
from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.kube.writes.round_robin import namespace_of
from volcanopy.services.controllers import workload_owners
from volcanopy.services.controllers.gangs import GangController
from volcanopy.services.controllers.group_worker import SETTLE, WORKLOAD_PODS, GroupWorker
from volcanopy.services.controllers.worker import Followed


class GroupController(GroupWorker):
    """Creates PodGroups for pods without one. ``now`` is injected by tests; ``at_once`` limits the requests in flight."""

    noun = "PodGroup"

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        scheduler_name: str = names.SCHEDULER,
        now: Callable[[], datetime] = machine.utc_now,
        at_once: int = 48,
        queue_labels: Sequence[str] = (),
        gangs: GangController | None = None,
    ) -> None:
        """``client``: the view of the API of the PodGroups; ``queue_labels``: labels of workloads that name the queue.

        ``gangs`` has the pods that name a PodGroup of another gang API.
        """
        super().__init__(client, recorder, now, at_once)
        self._gangs = gangs
        self._owners = workload_owners.WorkloadOwners(client, self._owner_changed, queue_labels)
        ours = f"spec.schedulerName={scheduler_name}"
        self._watches: tuple[tuple[Reflector[Any], Callable[[Any], None]], ...] = (
            (
                Reflector(
                    client, WORKLOAD_PODS, transform=slim, label_selector=f"!{names.JOB_NAME}", field_selector=ours
                ),
                self.pod_changes,
            ),
            (Reflector(client, workload_owners.REPLICA_SETS, transform=self._owners.slim), self._owners.changes),
            (Reflector(client, workload_owners.STATEFUL_SETS, transform=self._owners.slim), self._owners.changes),
        )

    def followed(self) -> Sequence[Followed]:
        """Return the watches of pods and workloads. PodGroups come through :meth:`group_changes`."""
        return [Followed(f"{watch.kind.plural} without a job", watch, take) for watch, take in self._watches]

    # Changes

    def pod_changes(self, changes: Sequence[Change[WorkloadPod]]) -> None:
        """Take changes of pods that belong to no job."""
        for change in changes:
            pod = change.object
            key, name = _key(pod), pod.metadata.name
            known = self._pods[key].get(name) if key in self._pods else None
            of_gang = self._gangs is not None and self._gangs.take_pod(change)
            if change.type is ChangeType.DELETED or of_gang or not is_ours(pod):
                self._lose(key, pod)
            elif known is None or known.metadata.uid != pod.metadata.uid:
                self._pods[key][name] = pod
                # A pod without owner that has a group needs nothing, and there may be very many.
                if not pod.group or key not in self._groups or pod.metadata.controller is not None:
                    self.queue.add(key, SETTLE)
            elif int(pod.metadata.resource_version) > int(known.metadata.resource_version):
                self._pods[key][name] = pod
                if (pod.lives and not pod.group) or changes_group(known, pod):
                    self.queue.add(key, SETTLE)

    def _lose(self, key: str, pod: WorkloadPod) -> None:
        pods = self._pods.get(key, {})
        known = pods.get(pod.metadata.name)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            del pods[pod.metadata.name]
        if not pods and self._pods.pop(key, None) is not None and pod.metadata.controller is not None:
            self.queue.add(key, SETTLE)

    def group_changes(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take changes of PodGroups, including those of jobs."""
        for change in changes:
            group, key = change.object, change.object.metadata.key
            owner = group.metadata.controller
            if owner is None or group.metadata.name != group_name(owner.uid):
                continue
            if self._gangs is not None and self._gangs.take_group(change):
                continue
            if change.type is not ChangeType.DELETED:
                self._group_seen(group)
            elif (known := self._groups.get(key)) is not None and known.metadata.uid == group.metadata.uid:
                del self._groups[key]
                for affected in (key, *self._jobs_in(group)):
                    self.queue.add(affected)

    def _jobs_in(self, group: PodGroup) -> list[str]:
        """Return the keys of the Jobs whose pods are in the PodGroup of a JobSet."""
        owner, name = group.metadata.controller, group.metadata.name
        if owner is None or not is_job_set(owner):
            return []
        return [key for key, pods in self._pods.items() if any(pod.group == name for pod in pods.values())]

    def _group_seen(self, group: PodGroup) -> None:
        key = group.metadata.key
        known = self._groups.get(key)
        if known is None or int(known.metadata.resource_version) < int(group.metadata.resource_version):
            self._groups[key] = group
        if known is None and key not in self._pods:
            # Its pods may have been deleted while no controller was running.
            self.queue.add(key, SETTLE)

    def _owner_changed(self, namespace: str, uid: str) -> None:
        key = f"{namespace}/{group_name(uid)}"
        if key in self._pods or key in self._groups:
            self.queue.add(key, SETTLE)

    # Reconciles

    async def reconcile(self, key: str) -> datetime | None:
        """Reconcile the pods of one owner."""
        pods, group = tuple(self._pods.get(key, {}).values()), self._groups.get(key)
        owner, again = await self._owner(key, pods, group)
        of_gang = f"{key.partition('/')[0]}/{owner.group}" if owner is not None and owner.group else key
        seen = GroupObserved(tuple(self._pods.get(key, {}).values()), owner, self._groups.get(of_gang))
        await self._carry_out(key, reconcile_group(seen))
        return self.now() + timedelta(seconds=again) if again else None

    async def _owner(self, key: str, pods: Sequence[WorkloadPod], group: PodGroup | None) -> tuple[Owner | None, float]:
        """Return the owner, and the seconds after which to read it again (0: it is watched)."""
        of_group = None if group is None else group.metadata.controller
        reference: OwnerReference | None = owner_of(pods[0]) if pods else of_group
        if reference is None:
            return None, 0.0
        if (reference.api_version, reference.kind) == ("v1", "Pod"):
            return Owner() if pods else None, 0.0
        return await self._owners.of(reference, namespace_of(key))


def _key(pod: WorkloadPod) -> str:
    return f"{pod.metadata.namespace}/{group_name(owner_of(pod).uid)}"
