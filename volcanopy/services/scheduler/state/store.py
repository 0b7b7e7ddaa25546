"""The cluster state as the scheduler sees it: observed by watches, with decided changes already applied.

Changes come in batches from reflectors and go into one :class:`~volcanopy.scheduler.cache.cluster_cache.State`. Decided
changes are *expected*: they are part of every snapshot from :meth:`Store.assume` until the server shows them or a writer
takes them back, so the next cycle may start while the last plan is still being applied.

All methods run on the event loop without waiting.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from volcanopy.api import core, names, topology_read
from volcanopy.api.bindings import VOLCANOPY, Binding
from volcanopy.api.builtin import storage
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS, QUEUES, SUPPLIES, followed, slimming
from volcanopy.kube.cache.name_conflicts import NameConflicts
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.read_your_writes import WriteTracker, version
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.cache.totals import count_due
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.plan import Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.services.scheduler.state import statuses
from volcanopy.services.scheduler.state.notifications import ChangeSignal, ChangeWaiters
from volcanopy.services.scheduler.state.quarantine import Quarantine

S = TypeVar("S", core.Pod, core.PodGroup, core.Queue)


_PLURALS = {core.Pod: PODS.plural, core.PodGroup: POD_GROUPS.plural, core.Queue: QUEUES.plural}


class _Expected(NamedTuple):
    """The status of an object once the decided change is written; valid for this uid only."""

    uid: str
    status: Any


class Store:
    """The cluster state for the scheduler. ``changed`` is set when a cycle may have something to do."""

    def __init__(
        self,
        *,
        scheduler_names: Iterable[str] = (names.SCHEDULER,),
        default_queue: str = names.DEFAULT_QUEUE,
        bindings: Sequence[Binding] = (VOLCANOPY,),
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        """``bindings``: the APIs whose objects are followed."""
        self.bindings = tuple(bindings)
        self.conflicts = NameConflicts()
        self.state = State(scheduler_names, default_queue)
        self.quarantine = Quarantine(self.state)
        self.changed = ChangeSignal(clock)
        self.reflectors: tuple[Reflector[Any] | OptionalReflector[Any], ...] = ()
        self.waiters = ChangeWaiters()
        """Events for changes of pods and claims, by kind and key."""
        self._pods: dict[str, core.Pod] = {}
        self._groups: dict[str, core.PodGroup] = {}
        self._queues: dict[str, core.Queue] = {}
        self._expected_groups: dict[str, _Expected] = {}
        self._expected_queues: dict[str, _Expected] = {}
        self._nominations: dict[str, _Expected] = {}
        self._writes = WriteTracker(clock)
        self._following = asyncio.Event()

    # Observed objects

    @property
    def pods(self) -> Mapping[str, core.Pod]:
        """The observed pods that are relevant to scheduling, by key."""
        return self._pods

    @property
    def groups(self) -> Mapping[str, core.PodGroup]:
        """The observed pod groups by key."""
        return self._groups

    @property
    def queues(self) -> Mapping[str, core.Queue]:
        """The observed queues by name."""
        return self._queues

    def expected_group(self, key: str) -> core.PodGroupStatus | None:
        """Return the expected status of a pod group, None if the observed status is up to date."""
        status: core.PodGroupStatus | None = _expectation(self._expected_groups, self._groups, key)
        return status

    def expected_queue(self, name: str) -> core.QueueStatus | None:
        """Return the expected status of a queue, None if the observed status is up to date."""
        status: core.QueueStatus | None = _expectation(self._expected_queues, self._queues, name)
        return status

    def phase_of(self, key: str) -> str:
        """Return the expected or observed phase of a pod group, empty if there is no such group."""
        group = self._group_in_state(key)
        return "" if group is None else group.status.phase or "Pending"

    def waits(self, key: str) -> bool:
        """Whether a pod exists that has no node and is not being bound."""
        pod = self._pods.get(key)
        return (
            pod is not None
            and not pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
            and not pod_fields.is_over(pod)
            and key not in self.state.writes.binds
        )

    def kind_of(self, shape: type[Any]) -> Kind[Any]:
        """Return the kind of volume or device object with this type, in the served version."""
        known = next((reflector.kind for reflector in self.reflectors if reflector.kind.type is shape), None)
        return known or next(kind for kind in SUPPLIES if kind.type is shape)

    # Following the server

    async def follow(self, client: Client) -> None:
        """Keep the state up to date until cancelled; called again, continue from what is known."""
        if not self.reflectors:
            required, optional = followed(self.bindings)
            self.reflectors = (
                *(Reflector(client, kind, transform=self._slimming(kind), unreadable=True) for kind in required[:-1]),
                *(
                    OptionalReflector(client, kind, transform=self._slimming(kind), unreadable=True)
                    for kind in optional
                ),
                Reflector(client, PODS, transform=self._slimming(PODS), unreadable=True),
            )
        self._following.set()
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run(self.take), name=f"follow {reflector.kind.plural}")

    def _slimming(self, kind: Kind[Any]) -> Callable[[Any], Any]:
        return slimming(kind, self.bindings)

    async def synced(self) -> None:
        """Wait for the first list of every kind."""
        await self._following.wait()
        for reflector in self.reflectors:
            await reflector.synced.wait()

    def lists(self) -> Iterable[tuple[str, asyncio.Event]]:
        """Return the plurals of the kinds that are listed at the start, each with the event of its first list."""
        lists = [(reflector.kind.plural, reflector.synced) for reflector in self.reflectors]
        return [("everything", self._following), *lists]

    def take(self, changes: Iterable[Change[Any]]) -> None:
        """Take changes from a watch."""
        if len(self.bindings) > 1:
            changes = self.conflicts.resolve(changes)
        new: dict[str, core.Pod] = {}
        for change in changes:
            item, key = change.object, change.object.metadata.key
            if change.type is ChangeType.ADDED and key not in new and self._is_new(item, key):
                new[key] = item
                continue
            self._add_new(new)
            self._notify(item)
            if change.type is ChangeType.UNREADABLE:
                self.quarantine.exclude_unreadable(item, change.error)
                matters = True
            elif change.type is ChangeType.DELETED:
                matters = self._remove(item)
            elif (identity := _identity(item)) in self._writes and not self._writes.event(identity, version(item)):
                continue
            else:
                confirmed = self._is_assumed(item)
                matters = self._keep(item)
                if confirmed:
                    self.changed.set(minor=True)
                    continue
            if matters:
                self.changed.set()
        self._add_new(new)

    def _is_new(self, item: Object, key: str) -> bool:
        """Whether this is a pod that was neither observed nor expected before."""
        if not isinstance(item, core.Pod) or self.quarantine.excludes(core.Pod, key):
            return False
        written = (core.Pod, key, item.metadata.uid) in self._writes
        return not written and key not in self._pods and key not in self._nominations

    def _add_new(self, pods: dict[str, core.Pod]) -> None:
        """Add the collected new pods, all of a first list at once, and empty the collection."""
        if not pods:
            return
        self.quarantine.load(pods)
        kept = {key: pod for key, pod in pods.items() if key in self.state.tasks.rows}
        self._pods |= kept
        for key in pods:
            self.waiters.notify(("Pod", key))
        if kept:
            self.changed.set(minor=all(map(self._lacks_members, set(map(pod_fields.job_key, kept.values())))))
        pods.clear()

    def _lacks_members(self, key: str) -> bool:
        """Whether a pod group lacks pods or is not created yet: the controller creates it after the pods of a small job."""
        return (bool(key) and key not in self._groups) or self.is_incomplete(key)

    def is_incomplete(self, key: str, least: int = 0) -> bool:
        """Whether fewer pods of a pod group exist than must start together, or than ``least``."""
        count_due(self.state)
        jobs = self.state.jobs
        row = jobs.rows.get(key)
        return row is not None and bool(jobs.plain["tasks"][row] < max(jobs.plain["min_available"][row], least))

    def awaits_admission(self, key: str) -> bool:
        """Whether a controller may wait for the admission of a pod group to create its pods."""
        group = self._groups.get(key)
        # At the first admission the watch of pods may be behind; at a later one the pods were lost.
        annotations = group.metadata.annotations if group is not None and group.status.admitted_at is None else {}
        return annotations.get(names.PODS_CREATED) != "true" and self.is_incomplete(key, 1)

    def _is_assumed(self, item: Any) -> bool:
        """Whether this is a pod on the node where the state has it already, and nothing else of it has changed."""
        if not isinstance(item, core.Pod) or not item.spec.node_name:
            return False
        key, node = item.metadata.key, item.spec.node_name
        known = self._pods.get(key)
        if known is None or self.state.writes.binds.get(key, ())[:2] != (item.metadata.uid, node):
            return False
        return pod_fields.same_pod(replace(known, spec=replace(known.spec, node_name=node)), item)

    def _notify(self, item: Any) -> None:
        """Notify waiters of this object; those of a claim also of its volume."""
        self.waiters.notify((type(item).__name__, item.metadata.key))
        if isinstance(item, storage.PersistentVolume) and item.spec.claim_ref is not None:
            reference = item.spec.claim_ref
            self.waiters.notify(("PersistentVolumeClaim", f"{reference.namespace}/{reference.name}"))

    def apply_response(self, item: core.Pod | core.PodGroup | core.Queue) -> None:
        """Take the object in a response to a write, if the watch has not shown a later version."""
        known = _known(self._objects(item), item)
        if known is None:
            return
        resource = _PLURALS[type(item)]
        if self._writes.response(resource, _identity(item), version(item), version(known)) and self._keep(item):
            self.changed.set()

    def _objects(self, item: Any) -> dict[str, Any]:
        match item:
            case core.Pod():
                return self._pods
            case core.PodGroup():
                return self._groups
            case core.Queue():
                return self._queues
        return {}

    def _keep(self, item: Object) -> bool:
        """Take an object; whether that may change a decision."""
        match item:
            case core.Pod():
                return self._keep_pod(item)
            case core.PodGroup():
                return self._keep_group(item)
            case core.Queue():
                return self._keep_queue(item)
            case core.Node():
                row = self.state.nodes.rows.get(item.metadata.name)
                old = None if row is None else self.state.nodes.plain["objects"][row]
                self.quarantine.upsert(item)
                return old is None or not pod_fields.same_node(old, item)
            case core.Namespace():
                before = self.state.namespaces.get(item.metadata.name)
                self.quarantine.upsert(item)
                return before is None or before.metadata.labels != item.metadata.labels
            case topology_read.HyperNode():
                declared = self.state.hypernodes.get(item.metadata.name)
                if declared is not None and declared.spec == item.spec:
                    return False  # only its status has changed, for example
        self.quarantine.upsert(item)
        return True

    def _keep_pod(self, pod: core.Pod) -> bool:
        key = pod.metadata.key
        old = self._pods.pop(key, None)
        nomination = self._nominations.get(key)
        if nomination is not None and (
            nomination.uid != pod.metadata.uid
            or pod.spec.node_name
            or pod.status.nominated_node_name == nomination.status
        ):
            del self._nominations[key]
            nomination = None
        returned = self.quarantine.upsert(pod if nomination is None else _nominate(pod, nomination.status))
        if key not in self.state.tasks.rows:
            return old is not None
        self._pods[key] = pod
        return returned or old is None or not pod_fields.same_pod(old, pod)

    def _keep_group(self, group: core.PodGroup) -> bool:
        key = group.metadata.key
        self._groups[key] = group
        expected = self._expected_groups.get(key)
        if expected is not None and expected.uid != group.metadata.uid:
            del self._expected_groups[key]
            expected = None
        before = self._group_in_state(key)
        now = group if expected is None else replace(group, status=expected.status)
        if before != now:
            self.quarantine.upsert(now)
        return (
            before is None
            or before.spec != now.spec
            or before.status.phase != now.status.phase
            or not pod_fields.same_metadata(before.metadata, now.metadata)
        )

    def _group_in_state(self, key: str) -> core.PodGroup | None:
        row = self.state.jobs.rows.get(key)
        group = None if row is None else self.state.jobs.plain["groups"][row]
        return group if isinstance(group, core.PodGroup) else None

    def _keep_queue(self, queue: core.Queue) -> bool:
        name = queue.metadata.name
        self._queues[name] = queue
        expected = self._expected_queues.get(name)
        if expected is not None and expected.uid != queue.metadata.uid:
            del self._expected_queues[name]
            expected = None
        before = self.state.queues.get(name)
        now = queue
        if expected is not None:
            now = replace(queue, status=statuses.with_scheduler_fields(queue.status, expected.status))
        self.quarantine.upsert(now)
        return (
            before is None
            or before.spec != now.spec
            or (before.status.state or "Open") != (now.status.state or "Open")
            or not pod_fields.same_metadata(before.metadata, now.metadata)
        )

    def _remove(self, item: Object) -> bool:
        key = item.metadata.key
        matters = True
        match item:
            case core.Pod():
                matters = self._pods.pop(key, None) is not None
                self._nominations.pop(key, None)
            case core.PodGroup():
                self._groups.pop(key, None)
                self._expected_groups.pop(key, None)
            case core.Queue():
                self._queues.pop(key, None)
                self._expected_queues.pop(key, None)
        self._writes.forget(_identity(item))
        return self.quarantine.delete(item) or matters

    # Decided changes

    def snapshot(self, now: datetime, session: str = "") -> Snapshot:
        """Return a snapshot with the decided changes applied. It does not clear ``changed``."""
        return self.state.snapshot(now, session)

    def assume(self, plan: Plan, now: datetime) -> None:
        """Expect the effects of a plan, until the server shows them or they are taken back."""
        for effect in plan.effects:
            match effect:
                case SetPodGroup():
                    group = self._groups.get(effect.pod_group)
                    if group is not None:
                        base = self.expected_group(effect.pod_group) or group.status
                        status = statuses.group_status(base, effect, plan.session, now)
                        self._expected_groups[effect.pod_group] = _Expected(group.metadata.uid, status)
                        self._keep_group(group)
                        if status.phase == "Pending" and base.phase not in {"", "Pending"}:
                            self.changed.set(minor=True)  # the next cycle may admit it again
                case SetQueue():
                    queue = self._queues.get(effect.queue)
                    if queue is not None:
                        base_queue = self.expected_queue(effect.queue) or queue.status
                        after = statuses.queue_status(base_queue, effect)
                        self._expected_queues[effect.queue] = _Expected(queue.metadata.uid, after)
                        self._keep_queue(queue)
                case Nominate():
                    pod = self._pods.get(effect.pod)
                    if pod is not None and not pod.spec.node_name:
                        self._nominations[effect.pod] = _Expected(pod.metadata.uid, effect.node)
                        self._keep_pod(pod)
        self.state.assume(plan)

    def forget(self, pod: str, uid: str, *, backs_off: bool = False) -> None:
        """Take back the bind or eviction of a pod, which failed: the next cycle decides again, unless the pod backs off."""
        if self.state.writes.concern(pod, uid):
            self.state.forget(pod, backs_off=backs_off)
            self.changed.set()

    def forget_nomination(self, pod: str, uid: str) -> None:
        """Take back the expected nomination of a pod, which could not be written."""
        nomination = self._nominations.get(pod)
        if nomination is not None and nomination.uid == uid:
            del self._nominations[pod]
            known = self._pods.get(pod)
            if known is not None:
                self._keep_pod(known)

    def settle_group(self, key: str, status: core.PodGroupStatus) -> None:
        """End the expectation of this status, which was written or never will be, unless another one is expected now.

        It does not set ``changed``: a failed write is retried with the next cycle.
        """
        if _settled(self._expected_groups, key, status) and (group := self._groups.get(key)) is not None:
            self._keep_group(group)

    def settle_queue(self, name: str, status: core.QueueStatus) -> None:
        """The same for a queue."""
        if _settled(self._expected_queues, name, status) and (queue := self._queues.get(name)) is not None:
            self._keep_queue(queue)


def _identity(item: Any) -> tuple[type[Any], str, str]:
    return type(item), item.metadata.key, item.metadata.uid


def _expectation(expected: Mapping[str, _Expected], objects: Mapping[str, Any], key: str) -> Any:
    entry, known = expected.get(key), objects.get(key)
    return entry.status if entry is not None and known is not None and known.metadata.uid == entry.uid else None


def _settled(expected: dict[str, _Expected], key: str, status: Any) -> bool:
    """End the expectation of this very status; whether there was one."""
    entry = expected.get(key)
    if entry is None or entry.status is not status:
        return False
    del expected[key]
    return True


def _known(objects: Mapping[str, S], item: Any) -> S | None:
    """Return the known object of the same name and uid."""
    known = objects.get(item.metadata.key)
    return known if known is not None and known.metadata.uid == item.metadata.uid else None


def _nominate(pod: core.Pod, node: str) -> core.Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))
