"""Cluster state of the scheduler: updated by watch events, copied into snapshots.

The state is updated one object at a time, in any order, at a cost that does not depend on the size of the cluster. A
snapshot is a copy of arrays. A new state built from the same objects gives an equal snapshot.

Until the API server confirms a plan, the state *assumes* it: a pod that is being bound is counted on its node, a pod
that is being evicted counts as releasing. A pod whose bind or eviction the server has rejected *backs off*: until its next
attempt it counts as gated, so nothing is reserved for it, and as not preemptable.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any

from volcanopy.api import core, names, quantity, topology_read
from volcanopy.api.builtin import policy
from volcanopy.api.builtin.resize import with_resized_requests
from volcanopy.scheduler.cache import compaction, freeze
from volcanopy.scheduler.cache.bulk_load import load
from volcanopy.scheduler.cache.claim_cache import CLAIM_KINDS, ClaimObject
from volcanopy.scheduler.cache.state_tables import GROUP_COLUMNS, StateTables
from volcanopy.scheduler.cache.task_places import is_task, set_place, set_places_on, set_task
from volcanopy.scheduler.cache.totals import count, count_due
from volcanopy.scheduler.model import pod_fields, run_times
from volcanopy.scheduler.model.measures import Measured
from volcanopy.scheduler.model.plan import Bind, Evict, Plan
from volcanopy.scheduler.model.resources import Axis
from volcanopy.scheduler.model.snapshot import NONE, Snapshot

Policy = policy.ResourceQuota | policy.PodDisruptionBudget | topology_read.NumaTopology | topology_read.HyperNode
Object = core.Pod | core.Node | core.PodGroup | core.Queue | core.PriorityClass | core.Namespace | Policy | ClaimObject


class State(StateTables):
    """The scheduler's cluster state, kept current one change at a time."""

    def __init__(self, scheduler_names: Iterable[str] = ("volcanopy", ""), default_queue: str = "default") -> None:
        """Scheduled are pods with one of ``scheduler_names``; groups without a queue are in ``default_queue``."""
        super().__init__(scheduler_names, default_queue)
        self.layout = freeze.Layout()
        self._rematch_from = sys.maxsize
        """The number of the first selector with which all pods are compared before the next snapshot."""
        self._last_session: tuple[str, datetime] | None = None
        self._numbers_needed = 0
        """The numbers of shapes and others that were left by the last compaction."""

    def upsert(self, obj: Object) -> None:
        """Insert or update an object."""
        self.version += 1
        match obj:
            case core.Pod():
                self._upsert_pod(obj)
            case core.Node():
                self._upsert_node(obj)
            case core.PodGroup():
                self._upsert_group(obj)
            case core.Queue():
                self.queues[obj.metadata.name] = obj
                self._queue_row(obj.metadata.name)
                self._widen(pod_fields.queue_resources(obj))
            case _ if isinstance(obj, CLAIM_KINDS):
                self.claims.upsert(obj)
            case _:
                store, changed = _STORES[type(obj)]
                getattr(self, store)[obj.metadata.key] = obj
                changed(self)

    def load(self, pods: Collection[core.Pod]) -> None:
        """Insert or update many pods: as :meth:`upsert` of each, several times faster if most are new."""
        load(self, pods, self.upsert, self.shape_of)

    def insert_copies(self, pods: Sequence[core.Pod]) -> None:
        """Insert new pods of a job, equal but for names and task numbers: as :meth:`upsert` of each, most columns at once."""
        first, tasks = pods[0], self.tasks
        self.upsert(first)
        row = tasks.rows[first.metadata.key]
        shared = all(pod.spec is first.spec and pod.metadata.annotations is first.metadata.annotations for pod in pods)
        if not shared or self.shapes.selectors or self.jobs.plain["structured"][tasks.plain["job"][row]]:
            for pod in pods[1:]:
                self.upsert(pod)
            return
        rows = [tasks.row(pod.metadata.key) for pod in pods[1:]]
        for column in tasks.plain.values():
            column[rows] = column[row]
        for copy, pod in zip(rows, pods[1:], strict=True):
            tasks.plain["pods"][copy], tasks.plain["ordinal"][copy] = pod, pod_fields.ordinal(pod.metadata.name)
        count(self, row, len(rows))

    def delete(self, obj: Object) -> None:
        """Remove an object."""
        self.version += 1
        name, key = obj.metadata.name, obj.metadata.key
        match obj:
            case core.Pod():
                self._drop_pod(key)
                self.writes.drop(key)
            case core.Node():
                self._drop_node(name)
            case core.PodGroup():
                self._drop_group(key)
            case core.Queue():
                self.queues.pop(name, None)
            case _ if isinstance(obj, CLAIM_KINDS):
                self.claims.delete(obj)
            case _:
                store, changed = _STORES[type(obj)]
                getattr(self, store).pop(key, None)
                changed(self)

    def assume(self, plan: Plan) -> None:
        """Assume the binds and evictions of a plan until the API server confirms them, or :meth:`forget` is called."""
        for effect in plan.of(Bind, Evict):
            pod = self._pod(effect.pod)
            if pod is not None:
                self.writes.assume(effect, pod.metadata.uid)
                if isinstance(effect, Bind):
                    self.claims.assume(effect, pod.metadata.uid)
                self._set_task(effect.pod, pod)
        self.version += 1

    def forget(self, pod_key: str, *, backs_off: bool = False) -> None:
        """Drop the assumed bind or eviction of a pod, since it failed; ``backs_off`` until the next call."""
        self.writes.drop(pod_key)
        pod = self._pod(pod_key)
        if pod is not None and backs_off:
            self.writes.backoffs[pod_key] = pod.metadata.uid
        if pod is not None:
            self._set_task(pod_key, pod)
        self.version += 1

    def set_measures(self, measured: Measured | None) -> None:
        """Set what sources measured of nodes; what they measured before is dropped."""
        self.measured = measured
        self.version += 1

    def snapshot(self, now: datetime, session: str = "") -> Snapshot:
        """Return a snapshot; one with the session of the last snapshot belongs to the same cycle."""
        if self._last_session is None or not session or session != self._last_session[0]:
            self.previous = None if self._last_session is None else self._last_session[1]
            self._last_session = (session, now)
        count_due(self)
        self.compact_if_due()
        self._rematch()
        return freeze.snapshot(self, self.layout, now, session or f"cycle-{self.version}")

    def compact_if_due(self) -> None:
        """Build the state again if much of what it has numbered no longer exists."""
        given, nodes = compaction.numbers(self), len(self.layout.nodes(self)[0])
        if compaction.is_due(self, nodes, given, self._numbers_needed):
            self._numbers_needed = given  # not at once again, should it fail
            self.compact()
            self._numbers_needed = compaction.numbers(self)

    def compact(self) -> None:
        """Build the state again from its objects, with what it has assumed. Snapshots taken before stay valid."""
        fresh = type(self)(self.scheduler_names, self.default_queue)
        fresh.claims = self.claims.without_uses()
        fresh.writes = self.writes
        for item in compaction.objects(self):
            fresh.upsert(item)
        fresh.load(compaction.pods(self))
        for name in ("measured", "previous", "version", "_last_session"):
            setattr(fresh, name, getattr(self, name))
        vars(self).update(vars(fresh))

    def forget_cycles(self) -> None:
        """Let the next snapshot be that of a first cycle."""
        self.previous, self._last_session = None, None

    # Pods

    def _pod(self, key: str) -> core.Pod | None:
        row = self.tasks.rows.get(key)
        pod = None if row is None else self.tasks.plain["pods"][row]
        return pod if isinstance(pod, core.Pod) else None

    def _upsert_pod(self, pod: core.Pod) -> None:
        key, pod = pod.metadata.key, with_resized_requests(pod)
        self.writes.confirm(key, pod)
        if is_task(self, pod):
            self._set_task(key, pod)
        else:
            self._drop_pod(key)

    def _set_task(self, key: str, pod: core.Pod) -> None:
        columns, known = self.tasks.plain, self.tasks.rows.get(key)
        previous = None if known is None else columns["pods"][known]
        if known is not None and previous is not None and pod_fields.differs_in_place_only(previous, pod):
            count(self, known, -1)
            set_place(self, known, key, pod)
            count(self, known, +1)
            return
        same = previous is not None and pod_fields.same_shape(previous, pod)
        # First what may fail because of the pod's content: then nothing has changed.
        shape = int(columns["shape"][known]) if same else self.shape_of(pod)
        row = self.tasks.row(key)
        job_before = int(columns["job"][row])
        if previous is not None:
            count(self, row, -1)
        job = pod_fields.task_job(pod) if pod.spec.scheduler_name in self.scheduler_names else ""
        job_row = self.jobs.row(job) if job else NONE
        set_task(self, row, key, pod, job_row, shape)
        count(self, row, +1)
        if job_before not in {NONE, job_row}:
            self._drop_job_if_empty(job_before)

    def shape_of(self, pod: core.Pod) -> int:
        """Return the number of a pod's shape; new shapes, selectors and resources are added."""
        known, shapes = len(self.shapes.selectors), len(self.shapes.all)
        if (number := self.shapes.number(pod, self.namespaces)) >= shapes:
            self._widen(self.shapes.all[number].request)
        if len(self.shapes.selectors) > known:
            self._rematch_later(known)
        return number

    def _rematch_later(self, first: int = 0) -> None:
        """Compare all pods with the selectors from ``first`` on before the next snapshot: once for all that come until then."""
        self._rematch_from = min(first, self._rematch_from)

    def _rematch(self) -> None:
        """Update the shapes of the pods that new selectors match, or that others no longer match."""
        first, self._rematch_from = self._rematch_from, sys.maxsize
        if first >= len(self.shapes.selectors):
            return
        fresh = self.shapes.index(first)
        for row in list(self.tasks.rows.values()):
            pod = self.tasks.plain["pods"][row]
            old = self.shapes.all[self.tasks.plain["shape"][row]]
            now = self.shapes.matched(pod, self.namespaces, fresh)
            if now == {number for number in old.matched if number >= first}:
                continue
            count(self, row, -1)
            self.tasks.plain["shape"][row] = self.shapes.number(pod, self.namespaces)
            count(self, row, +1)

    def _drop_pod(self, key: str) -> None:
        row = self.tasks.rows.get(key)
        if row is None:
            return
        count(self, row, -1)
        job = int(self.tasks.plain["job"][row])
        self.tasks.remove(key)
        if job != NONE:
            self._drop_job_if_empty(job)

    # Nodes

    def _upsert_node(self, node: core.Node) -> None:
        row = self.nodes.row(node.metadata.name)
        previous = self.nodes.plain["objects"][row]
        if previous is not None and pod_fields.same_node(previous, node):
            return
        if previous is None or not pod_fields.same_traits(previous, node):
            self.layout.nodes_changed()
        elif previous.status.images != node.status.images or previous.metadata.annotations != node.metadata.annotations:
            self.layout.images_or_measures_changed()
        offered = quantity.amounts(node.status.allocatable or node.status.capacity)
        allocatable = quantity.bounded(offered, quantity.LIMIT - 1)
        self._widen(allocatable)
        self.nodes.plain["objects"][row] = node
        self.nodes.amounts["allocatable"][:, row] = self.axis.vector(allocatable)
        self.layout.allocatable_changed()
        if previous is None:
            set_places_on(self, row)

    def _drop_node(self, name: str) -> None:
        row = self.nodes.rows.get(name)
        if row is None:
            return
        self.layout.nodes_changed()
        self.nodes.plain["objects"][row] = None
        self.nodes.amounts["allocatable"][:, row] = 0
        set_places_on(self, row)

    # Groups, queues, priorities

    def _upsert_group(self, group: core.PodGroup) -> None:
        row = self.jobs.row(group.metadata.key)
        columns, status = self.jobs.plain, group.status
        known, columns["groups"][row] = columns["groups"][row], group
        columns["grouped"][row] = True
        self.jobs.changed.add(row)
        columns["phase"][row] = status.phase or "Pending"
        columns["admitted"][row] = pod_fields.seconds(status.admitted_at or group.metadata.creation_timestamp)
        columns["unschedulable"][row] = pod_fields.condition(group, "Unschedulable") is not None
        self.jobs.amounts["reported"][:, row] = (status.running, status.succeeded, status.failed)
        self.moving.discard(row)
        if status.moves:
            self.moving.add(row)
        if known is None or not pod_fields.same_group(known, group):
            self._set_group(row, known, group)

    def _set_group(self, row: int, known: core.PodGroup | None, group: core.PodGroup) -> None:
        """Set the columns of a pod group that do not follow from its status."""
        columns = self.jobs.plain
        columns["structured"][row] = bool(group.spec.network_topology or group.spec.sub_group_policy)
        self.tasks.changed.update(self.marks.renew(self.tasks.plain, row, known, group))
        columns["queue"][row] = self._queue_row(group.spec.queue or self.default_queue)
        columns["min_available"][row] = group.spec.min_member
        columns["created"][row] = pod_fields.seconds(group.metadata.creation_timestamp)
        columns["submitter"][row] = self.submitters.number(group.metadata.annotations)
        columns["preemptable"][row] = pod_fields.flag(group.metadata, names.PREEMPTABLE, absent=False)
        columns["priority"][row] = self._job_priority(group)
        run_time = run_times.run_time(group)
        columns["walltime"][row], columns["estimate"][row] = run_time.walltime, run_time.estimate
        columns["learnt"][row], columns["past_run_time"][row] = run_time.learnt, run_time.past
        columns["pods_rejected"][row] = pod_fields.flag(group.metadata, names.PODS_REJECTED, absent=False)
        least = core.min_resources(group)
        min_resources = pod_fields.countable(least)
        columns["has_min_resources"][row] = least is not None
        self._widen(min_resources)
        for alternative in group.spec.alternatives:
            self._widen(pod_fields.countable(alternative.min_resources))
        self.jobs.amounts["min_resources"][:, row] = self.axis.vector(min_resources)
        self._forget_minima(row)
        columns["has_minima"][row] = any(minimum > 0 for minimum in group.spec.min_task_member.values())
        for name, minimum in group.spec.min_task_member.items():
            role = self.role_row(row, name)  # first: a new row may reallocate the table
            self.roles.plain["minimum"][role] = minimum
            self.roles.changed.add(role)

    def _drop_group(self, key: str) -> None:
        row = self.jobs.rows.get(key)
        if row is None:
            return
        self.tasks.changed.update(self.marks.renew(self.tasks.plain, row, self.jobs.plain["groups"][row], None))
        self.jobs.changed.add(row)
        self.jobs.reset(row, GROUP_COLUMNS)
        self.jobs.amounts["reported"][:, row] = 0
        self.jobs.amounts["min_resources"][:, row] = 0
        self.moving.discard(row)
        self._forget_minima(row)
        self._drop_job_if_empty(row)

    def _forget_minima(self, job: int) -> None:
        for role in self.job_roles.get(job, {}).values():
            self.roles.plain["minimum"][role] = 0
            self.roles.changed.add(role)

    def _drop_job_if_empty(self, row: int) -> None:
        if self.jobs.plain["groups"][row] is not None:
            return
        count_due(self)
        if self.jobs.plain["tasks"][row]:
            return
        for name in self.job_roles.pop(row, {}):
            self.roles.remove((row, name))
        self.jobs.remove(self.jobs.keys[row])

    def _queue_row(self, name: str) -> int:
        return self.queue_rows.setdefault(name, len(self.queue_rows))

    def _job_priority(self, group: core.PodGroup) -> int:
        return pod_fields.class_priority(group.spec.priority_class_name, self.priority_classes)

    def _reprioritise(self) -> None:
        for row in self.jobs.rows.values():
            group = self.jobs.plain["groups"][row]
            if group is not None:
                self.jobs.plain["priority"][row] = self._job_priority(group)
                self.jobs.changed.add(row)

    def _widen(self, units: Iterable[str]) -> None:
        """Extend the axis by new resources."""
        if all(name in self.axis.index for name in units):
            return
        self.axis = Axis.of((*self.axis.names, *units))
        for table in (self.nodes, self.jobs):
            table.extend_axis(self.axis)


def _ignore(_: State) -> None:
    """Nothing follows from the change of an object."""


_STORES: dict[type[Any], tuple[str, Callable[[State], None]]] = {
    core.Namespace: ("namespaces", State._rematch_later),
    core.PriorityClass: ("priority_classes", State._reprioritise),
    policy.PodDisruptionBudget: ("budgets", _ignore),
    policy.ResourceQuota: ("quotas", _ignore),
    topology_read.HyperNode: ("hypernodes", lambda state: state.layout.network_changed()),
    topology_read.NumaTopology: ("numa", _ignore),
}
"""Of the other kinds: where their objects are, and what follows from a change of one."""
