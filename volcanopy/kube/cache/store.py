"""What we last saw of the cluster, and what we expect of it: the scheduler's state, kept current by watches.

Changes come in batches from reflectors and go into one :class:`~volcanopy.scheduler.cache.cluster_cache.State`. What a plan
decided is *expected*: it is in every snapshot from the moment of :meth:`Store.assume` on, until the server shows it or the
applier takes it back. So the next cycle may start while the last one's plan is still on its way.

Everything here happens on the event loop, between two awaits; nothing waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from volcanopy.api import core, names, storage, topology_read
from volcanopy.kube.cache import statuses
from volcanopy.kube.cache.followed_kinds import (
    DISRUPTION_BUDGETS,
    HYPER_NODES,
    NAMESPACES,
    NODES,
    NUMA_TOPOLOGIES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
    SUPPLIES,
)
from volcanopy.kube.cache.notifications import ChangeSignal, ChangeWaiters
from volcanopy.kube.cache.optional_kinds import OptionalReflector
from volcanopy.kube.cache.read_your_writes import WriteTracker, version
from volcanopy.kube.cache.trimmed_objects import slim, slim_node, slim_pod
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.cache.cluster_cache import Object, State
from volcanopy.scheduler.model import pod_fields
from volcanopy.scheduler.model.plan import Nominate, Plan, SetPodGroup, SetQueue
from volcanopy.scheduler.model.snapshot import Snapshot

S = TypeVar("S", core.Pod, core.PodGroup, core.Queue)


_PLURALS = {core.Pod: PODS.plural, core.PodGroup: POD_GROUPS.plural, core.Queue: QUEUES.plural}


class _Expected(NamedTuple):
    """What will be in an object's status once what was decided is written: for the object of this uid only."""

    uid: str
    status: Any


class Store:
    """The cluster as the scheduler should see it now. ``changed`` rings when a cycle may find something to do."""

    def __init__(
        self,
        *,
        scheduler_names: Iterable[str] = (names.SCHEDULER,),
        default_queue: str = names.DEFAULT_QUEUE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = State(scheduler_names, default_queue)
        self.changed = ChangeSignal(clock)
        self.reflectors: tuple[Reflector[Any] | OptionalReflector[Any], ...] = ()
        self.notices = ChangeWaiters()
        """Wakes those that wait for a pod or a claim, by its kind and key."""
        self._pods: dict[str, core.Pod] = {}
        self._groups: dict[str, core.PodGroup] = {}
        self._queues: dict[str, core.Queue] = {}
        self._expected_groups: dict[str, _Expected] = {}
        self._expected_queues: dict[str, _Expected] = {}
        self._nominations: dict[str, _Expected] = {}
        self._writes = WriteTracker(clock)
        self._following = asyncio.Event()

    # What the server has, as far as we know

    @property
    def pods(self) -> Mapping[str, core.Pod]:
        """The pods that matter to scheduling, by key, as the server has them."""
        return self._pods

    @property
    def groups(self) -> Mapping[str, core.PodGroup]:
        """The pod groups by key, as the server has them."""
        return self._groups

    @property
    def queues(self) -> Mapping[str, core.Queue]:
        """The queues by name, as the server has them."""
        return self._queues

    def expected_group(self, key: str) -> core.PodGroupStatus | None:
        """The status that a pod group is to get, None if the one it has will do."""
        status: core.PodGroupStatus | None = _expectation(self._expected_groups, self._groups, key)
        return status

    def expected_queue(self, name: str) -> core.QueueStatus | None:
        """The status that a queue is to get, None if the one it has will do."""
        status: core.QueueStatus | None = _expectation(self._expected_queues, self._queues, name)
        return status

    def phase_of(self, key: str) -> str:
        """The phase that a pod group has or is to get, empty if there is no such group."""
        group = self._group_in_state(key)
        return "" if group is None else group.status.phase or "Pending"

    def waits(self, key: str) -> bool:
        """Whether a pod is there and has no node, nor is about to get one."""
        pod = self._pods.get(key)
        return (
            pod is not None
            and not pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
            and not pod_fields.is_over(pod)
            and key not in self.state.assumed
        )

    def kind_of(self, shape: type[Any]) -> Kind[Any]:
        """The kind of supply that is read as this type, in the version that the server has."""
        known = next((one.kind for one in self.reflectors if one.kind.type is shape), None)
        return known or next(kind for kind in SUPPLIES if kind.type is shape)

    # Following the server

    async def follow(self, client: Client) -> None:
        """Keep the state current until cancelled."""
        self.reflectors = (
            Reflector(client, NAMESPACES, transform=slim),
            Reflector(client, PRIORITY_CLASSES, transform=slim),
            Reflector(client, RESOURCE_QUOTAS),
            Reflector(client, DISRUPTION_BUDGETS),
            OptionalReflector(client, HYPER_NODES),
            OptionalReflector(client, NUMA_TOPOLOGIES, transform=slim),
            Reflector(client, QUEUES),
            Reflector(client, POD_GROUPS),
            Reflector(client, NODES, transform=slim_node),
            *(OptionalReflector(client, kind, transform=slim) for kind in SUPPLIES),
            Reflector(client, PODS, transform=slim_pod),
        )
        self._following.set()
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run(self.take), name=f"follow {reflector.kind.plural}")

    async def synced(self) -> None:
        """Until the first list of every kind has been taken in."""
        await self._following.wait()
        for reflector in self.reflectors:
            await reflector.synced.wait()

    def lists(self) -> Iterable[tuple[str, asyncio.Event]]:
        """What is listed at the start, by plural, and the event that tells when it has been."""
        return [("everything", self._following)] + [(one.kind.plural, one.synced) for one in self.reflectors]

    def take(self, changes: Iterable[Change[Any]]) -> None:
        """Take in what a watch tells."""
        new: dict[str, core.Pod] = {}
        for change in changes:
            thing = change.object
            if change.type is ChangeType.ADDED and self._is_new(thing) and thing.metadata.key not in new:
                new[thing.metadata.key] = thing
                continue
            self._keep_new(new)
            self._tell_of(thing)
            if change.type is ChangeType.DELETED:
                matters = self._lose(thing)
            elif _identity(thing) in self._writes and not self._writes.event(_identity(thing), version(thing)):
                continue
            else:
                matters = self._keep(thing)
            if matters:
                self.changed.ring()
        self._keep_new(new)

    def _is_new(self, thing: Object) -> bool:
        """Whether this is a pod of which nothing was known or expected so far."""
        if not isinstance(thing, core.Pod):
            return False
        key = thing.metadata.key
        return key not in self._pods and key not in self._nominations and _identity(thing) not in self._writes

    def _keep_new(self, pods: dict[str, core.Pod]) -> None:
        """Take in new pods, all of a first list at once, and let the list begin anew."""
        if not pods:
            return
        self.state.load(pods.values())
        kept = {key: pod for key, pod in pods.items() if key in self.state.tasks.rows}
        self._pods |= kept
        for key in pods:
            self.notices.tell(("Pod", key))
        if kept:
            self.changed.ring()
        pods.clear()

    def _tell_of(self, thing: Any) -> None:
        """Wake those that wait for this; whoever waits for a claim waits for its volume too."""
        self.notices.tell((type(thing).__name__, thing.metadata.key))
        if isinstance(thing, storage.PersistentVolume) and thing.spec.claim_ref is not None:
            reference = thing.spec.claim_ref
            self.notices.tell(("PersistentVolumeClaim", f"{reference.namespace}/{reference.name}"))

    def apply_response(self, thing: core.Pod | core.PodGroup | core.Queue) -> None:
        """Take in what an answer to a request of ours showed, if it is newer than what the watch has told so far."""
        known = _known(self._objects(thing), thing)
        if known is None:
            return
        resource = _PLURALS[type(thing)]
        if self._writes.response(resource, _identity(thing), version(thing), version(known)) and self._keep(thing):
            self.changed.ring()

    def _objects(self, thing: Any) -> dict[str, Any]:
        match thing:
            case core.Pod():
                return self._pods
            case core.PodGroup():
                return self._groups
            case core.Queue():
                return self._queues
        return {}

    def _keep(self, thing: Object) -> bool:
        """Take in an object; whether that may change a decision."""
        match thing:
            case core.Pod():
                return self._keep_pod(thing)
            case core.PodGroup():
                return self._keep_group(thing)
            case core.Queue():
                return self._keep_queue(thing)
            case core.Node():
                row = self.state.nodes.rows.get(thing.metadata.name)
                old = None if row is None else self.state.nodes.plain["objects"][row]
                self.state.upsert(thing)
                return old is None or not pod_fields.same_node(old, thing)
            case core.Namespace():
                before = self.state.namespaces.get(thing.metadata.name)
                self.state.upsert(thing)
                return before is None or before.metadata.labels != thing.metadata.labels
            case topology_read.HyperNode():
                declared = self.state.hypernodes.get(thing.metadata.name)
                if declared is not None and declared.spec == thing.spec:
                    return False  # its status, say: the network is as it was
        self.state.upsert(thing)
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
        self.state.upsert(pod if nomination is None else _nominate(pod, nomination.status))
        if key not in self.state.tasks.rows:
            return old is not None
        self._pods[key] = pod
        return old is None or _pod_matters(old, pod)

    def _keep_group(self, group: core.PodGroup) -> bool:
        key = group.metadata.key
        self._groups[key] = group
        expected = self._expected_groups.get(key)
        if expected is not None and expected.uid != group.metadata.uid:
            del self._expected_groups[key]
            expected = None
        before = self._group_in_state(key)
        now = group if expected is None else replace(group, status=expected.status)
        self.state.upsert(now)
        return (
            before is None
            or before.spec != now.spec
            or before.status.phase != now.status.phase
            or not _same_words(before.metadata, now.metadata)
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
        # The state of a queue is not ours alone to set: only what the scheduler says of it is expected.
        now = queue if expected is None else replace(queue, status=replace(expected.status, state=queue.status.state))
        self.state.upsert(now)
        return (
            before is None
            or before.spec != now.spec
            or (before.status.state or "Open") != (now.status.state or "Open")
            or not _same_words(before.metadata, now.metadata)
        )

    def _lose(self, thing: Object) -> bool:
        key = thing.metadata.key
        matters = True
        match thing:
            case core.Pod():
                matters = self._pods.pop(key, None) is not None
                self._nominations.pop(key, None)
            case core.PodGroup():
                self._groups.pop(key, None)
                self._expected_groups.pop(key, None)
            case core.Queue():
                self._queues.pop(key, None)
                self._expected_queues.pop(key, None)
        self._writes.forget(_identity(thing))
        self.state.delete(thing)
        return matters

    # What was decided

    def snapshot(self, now: datetime, session: str = "") -> Snapshot:
        """The world as it stands, with what was decided taken as done. The bell is not answered by it."""
        return self.state.snapshot(now, session)

    def assume(self, plan: Plan, now: datetime) -> None:
        """Expect what the plan decided, from now until the server shows it or it is taken back."""
        for effect in plan.effects:
            match effect:
                case SetPodGroup():
                    group = self._groups.get(effect.pod_group)
                    if group is not None:
                        base = self.expected_group(effect.pod_group) or group.status
                        status = statuses.group_status(base, effect, plan.session, now)
                        self._expected_groups[effect.pod_group] = _Expected(group.metadata.uid, status)
                        self._keep_group(group)
                case SetQueue():
                    queue = self._queues.get(effect.queue)
                    if queue is not None:
                        base_queue = self.expected_queue(effect.queue) or queue.status
                        held = statuses.queue_status(base_queue, effect)
                        self._expected_queues[effect.queue] = _Expected(queue.metadata.uid, held)
                        self._keep_queue(queue)
                case Nominate():
                    pod = self._pods.get(effect.pod)
                    if pod is not None and not pod.spec.node_name:
                        self._nominations[effect.pod] = _Expected(pod.metadata.uid, effect.node)
                        self._keep_pod(pod)
        self.state.assume(plan)

    def forget(self, pod: str, uid: str) -> None:
        """Take back what was assumed of a pod: its bind or its eviction failed, and the next cycle must see that."""
        assumed = self.state.assumed.get(pod)
        if (assumed is not None and assumed[0] == uid) or self.state.evicted.get(pod) == uid:
            self.state.forget(pod)
            self.changed.ring()

    def forget_nomination(self, pod: str, uid: str) -> None:
        """Take back the room that was to be kept for a pod: it could not be written."""
        nomination = self._nominations.get(pod)
        if nomination is not None and nomination.uid == uid:
            del self._nominations[pod]
            known = self._pods.get(pod)
            if known is not None:
                self._keep_pod(known)

    def settle_group(self, key: str, status: core.PodGroupStatus) -> None:
        """This expected status was written, or never will be: if nothing else is expected by now, the server's holds.

        It does not ring: what could not be written is tried again with the next cycle, not because of the failure.
        """
        expected = self._expected_groups.get(key)
        if expected is not None and expected.status is status:
            del self._expected_groups[key]
            group = self._groups.get(key)
            if group is not None:
                self._keep_group(group)

    def settle_queue(self, name: str, status: core.QueueStatus) -> None:
        """The same for a queue."""
        expected = self._expected_queues.get(name)
        if expected is not None and expected.status is status:
            del self._expected_queues[name]
            queue = self._queues.get(name)
            if queue is not None:
                self._keep_queue(queue)


def _identity(item: Any) -> tuple[type[Any], str, str]:
    return type(item), item.metadata.key, item.metadata.uid


def _expectation(expected: Mapping[str, _Expected], objects: Mapping[str, Any], key: str) -> Any:
    found, known = expected.get(key), objects.get(key)
    return found.status if found is not None and known is not None and known.metadata.uid == found.uid else None


def _known(objects: Mapping[str, S], thing: Any) -> S | None:
    """The object of the same name, if it is the same object."""
    known = objects.get(thing.metadata.key)
    return known if known is not None and known.metadata.uid == thing.metadata.uid else None


def _nominate(pod: core.Pod, node: str) -> core.Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def _same_words(old: core.Meta, new: core.Meta) -> bool:
    return old.labels == new.labels and old.annotations == new.annotations


def _pod_matters(old: core.Pod, new: core.Pod) -> bool:
    """Whether something changed that scheduling looks at: conditions and containers' states are none of it."""
    return (
        old.metadata.uid != new.metadata.uid
        or old.status.phase != new.status.phase
        or old.status.nominated_node_name != new.status.nominated_node_name
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or not _same_words(old.metadata, new.metadata)
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.spec != new.spec
    )
