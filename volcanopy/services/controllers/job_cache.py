"""The objects of every job, as the job controller sees them: from watches and from responses to writes.

Responses enter the cache at once, so that the next reconcile of a job does not repeat its writes; see
:mod:`volcanopy.kube.cache.read_your_writes` for the order of responses and watch events.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum, auto

import msgspec

from volcanopy.api import names
from volcanopy.api.core import Meta, Node, NodeStatus, Pod, PodGroup, PriorityClass
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.admission_backlog import AdmissionBacklog
from volcanopy.jobcontroller.observed import Disruption, Observed, disruption, group_may_matter, may_matter
from volcanopy.jobcontroller.unready_nodes import not_ready_reason
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.cache.read_your_writes import WriteTracker, version
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.kinds import Json


class Urgency(Enum):
    """How soon a job is reconciled after a change."""

    NOW = auto()
    SOON = auto()
    """A little later, because more changes are likely to follow."""
    STATUS = auto()
    """When its status is due: of the plan, nothing else depends on the change."""


Wake = Callable[[str, Urgency], None]
"""Called with the key of a job (``namespace/name``) to reconcile, and how soon."""
_DISRUPTIONS = 32
"""The evictions of a job that are remembered."""
_UNKNOWN = 4096
"""Removed pods that are remembered of jobs that are not known, because this controller is not the leader: the latest."""


class JobCache:
    """Jobs by key, and their objects by the job's uid."""

    def __init__(self, wake: Wake) -> None:
        self.jobs: dict[str, Json] = {}
        self.priorities: dict[str, int] = {}
        self.not_ready: dict[str, str] = {}
        """Why each node that is not ready is not, by name."""
        self.applied: dict[str, dict[str, str]] = {}
        self.errors: dict[str, str] = {}
        """By uid of the job: the server's last rejection of one of its objects."""
        self.backlog = AdmissionBacklog()
        self.writes = WriteTracker()
        self.creating: set[tuple[str, str]] = set()
        """The pods and PodGroups for which a request is in flight: uid of the job, and name."""
        self._wake = wake
        self._keys: dict[str, str] = {}
        self._sizes: dict[str, tuple[Json, int]] = {}
        """By key: the bytes of a job in this state."""
        self._pods: dict[str, dict[str, Pod]] = {}
        self._groups: dict[str, PodGroup] = {}
        self._commands: dict[str, dict[str, Command]] = {}
        self._removed: dict[str, dict[str, Pod]] = {}
        """By uid of the job: the pods that had succeeded before they were deleted, by name, until its status counts them."""
        self._removed_of_unknown: dict[str, dict[str, Pod]] = {}
        """The same of jobs that are not known."""
        self._unknown = 0
        """Their number of pods."""
        self._disruptions: dict[str, dict[tuple[datetime, str], set[str]]] = {}
        """By uid of the job: the uids of the pods of each eviction."""

    def manifests(self) -> list[Json]:
        """Return all jobs."""
        return list(self.jobs.values())

    def size(self, key: str) -> int:
        """Return the bytes of a job; 0 if it is gone."""
        job = self.jobs.get(key)
        if job is None:
            return 0
        measured, size = self._sizes.get(key, (None, 0))
        if measured is not job:
            size = len(msgspec.json.encode(job))
            self._sizes[key] = job, size
        return size

    def observed(self, key: str) -> Observed:
        """Return the objects of a job."""
        uid = uid_of(self.jobs[key])
        return Observed(
            pods=tuple(self._pods.get(uid, {}).values()),
            pod_group=self._groups.get(uid),
            commands=tuple(self._commands.get(key, {}).values()),
            priorities=self.priorities,
            applied=self.applied.get(uid, {}),
            trouble=self.errors.get(uid, ""),
            disruptions=self._disruptions_of(uid),
            removed=tuple(self._removed.get(uid, {}).values()),
            not_ready=self.not_ready,
        )

    def remains(self, job: Json) -> Observed:
        """Return what is known of the pods of a deleted job."""
        uid = uid_of(job)
        return Observed(pods=self.pods_of(uid), disruptions=self._disruptions_of(uid))

    def _disruptions_of(self, owner: str) -> tuple[Disruption, ...]:
        known = self._disruptions.get(owner, {})
        return tuple(Disruption(time, by, len(pods)) for (time, by), pods in known.items())

    def pods_of(self, owner: str) -> tuple[Pod, ...]:
        """Return the pods of a job, by the job's uid."""
        return tuple(self._pods.get(owner, {}).values())

    # Jobs and Commands

    def job_event(self, event: str | None, job: Json) -> None:
        """Take a job that was listed, added, changed or deleted."""
        key = key_of(job)
        known = self.jobs.get(key)
        if event == "DELETED":
            if known is not None and uid_of(known) == uid_of(job):
                self.drop(key)
            self._wake(key, Urgency.NOW)
            return
        if known is None or uid_of(known) != uid_of(job):
            if known is not None:
                self.drop(key)
            self.jobs[key] = job
            self._keys[uid_of(job)] = key
            if removed := self._forget_unknown(uid_of(job)):
                self._removed[uid_of(job)] = removed
            for pod in self.pods_of(uid_of(job)):
                self._note_disruption(uid_of(job), pod)
        elif self.writes.event(uid_of(job), version(job), version(known)):
            self.jobs[key] = job
        else:
            return
        self._wake(key, Urgency.NOW)

    def written(self, job: Json) -> None:
        """Take the job in the response to a write."""
        key = key_of(job)
        known = self.jobs.get(key)
        if known is None or uid_of(known) != uid_of(job):
            return
        if self.writes.response("batchjobs", uid_of(job), version(job), version(known)):
            self.jobs[key] = job

    def drop(self, key: str) -> None:
        """Remove a job that is gone."""
        job = self.jobs.pop(key, None)
        self._sizes.pop(key, None)
        if job is not None:
            self.writes.deleted(uid_of(job))
            self._keys.pop(uid_of(job), None)
            self.applied.pop(uid_of(job), None)
            self.errors.pop(uid_of(job), None)
            self._disruptions.pop(uid_of(job), None)
            self._removed.pop(uid_of(job), None)

    def command_event(self, event: str | None, manifest: Json) -> None:
        """Take a Command that was listed, added, changed or deleted."""
        try:
            command = Command.read(manifest)
        except InvalidObjectError:
            return
        if command.target.kind != names.JOB_KIND:
            return
        key = f"{command.metadata.namespace}/{command.target.name}"
        if event == "DELETED" or self.writes.is_deleted(command.metadata.uid):
            self._forget_command(key, command.metadata.uid)
        else:
            self._commands.setdefault(key, {})[command.metadata.uid] = command
            self._wake(key, Urgency.NOW)

    def command_done(self, key: str, uid: str) -> None:
        """Remove a Command that the controller has deleted."""
        self.writes.deleted(uid)
        self._forget_command(key, uid)

    def _forget_command(self, key: str, uid: str) -> None:
        commands = self._commands.get(key, {})
        commands.pop(uid, None)
        if not commands:
            self._commands.pop(key, None)

    # Pods, PodGroups and PriorityClasses, from watches

    def pod_changes(self, changes: Sequence[Change[Pod]]) -> None:
        """Take changes of jobs' pods."""
        for change in changes:
            pod = change.object
            owner = pod.metadata.controller
            if owner is None or not names.is_job(owner.api_version, owner.kind):
                continue
            self._note_disruption(owner.uid, pod)
            identity = (owner.uid, pod.metadata.name, pod.metadata.uid)
            if change.type is ChangeType.DELETED or pod.metadata.deletion_timestamp is not None:
                self._note_removed(owner.uid, pod)
            before = self._pods.get(owner.uid, {}).get(pod.metadata.name)
            if change.type is ChangeType.DELETED:
                self.writes.deleted(identity)
                self._remove_pod(*identity)
                before = None
            elif self.writes.event(identity, version(pod)):
                self._pods.setdefault(owner.uid, {})[pod.metadata.name] = pod
            if before is None:
                # Of a pod whose creation ends soon, its status is counted then.
                matters = identity[:2] not in self.creating or pod.status.phase not in {"", "Pending"}
            else:
                matters = may_matter(before, pod)
            if matters and (key := self._keys.get(owner.uid)):
                self._wake(key, Urgency.SOON)

    def _note_removed(self, owner: str, pod: Pod) -> None:
        """Remember that a pod which is deleted had succeeded before: a program that ends well because of its eviction has not."""
        before = self._pods.get(owner, {}).get(pod.metadata.name)
        if before is None or before.metadata.uid != pod.metadata.uid or self.writes.is_deleted(owner):
            return
        if before.metadata.deletion_timestamp is not None or before.status.phase != "Succeeded":
            return
        if owner in self._keys:
            self._removed.setdefault(owner, {})[pod.metadata.name] = before
            return
        latest = self._forget_unknown(owner)
        latest[pod.metadata.name] = before
        self._removed_of_unknown[owner] = latest
        self._unknown += len(latest)
        while self._unknown > _UNKNOWN and len(self._removed_of_unknown) > 1:
            self._forget_unknown(next(iter(self._removed_of_unknown)))

    def _forget_unknown(self, owner: str) -> dict[str, Pod]:
        """Forget and return the removed pods of a job that was not known."""
        removed = self._removed_of_unknown.pop(owner, {})
        self._unknown -= len(removed)
        return removed

    def counted(self, owner: str, removed: Sequence[Pod]) -> None:
        """Forget these removed pods, whose success is now in the status of their job, or does not matter to it."""
        known = self._removed.get(owner, {})
        for pod in removed:
            if known.get(pod.metadata.name) is pod:
                del known[pod.metadata.name]
        if not known:
            self._removed.pop(owner, None)

    def _note_disruption(self, owner: str, pod: Pod) -> None:
        eviction = disruption(pod) if owner in self._keys else None
        if eviction is None:
            return
        known = self._disruptions.setdefault(owner, {})
        known.setdefault(eviction, set()).add(pod.metadata.uid)
        if len(known) > _DISRUPTIONS:
            del known[min(known)]

    def pod_group_changes(self, changes: Sequence[Change[PodGroup]]) -> None:
        """Take changes of PodGroups."""
        for change in changes:
            group = change.object
            if change.type is ChangeType.DELETED:
                self.backlog.remove(group)
            else:
                self.backlog.update(group)
            owner = group.metadata.controller
            if owner is None or not names.is_job(owner.api_version, owner.kind):
                continue
            identity = (owner.uid, "", group.metadata.uid)
            urgency: Urgency | None = Urgency.NOW
            if change.type is ChangeType.DELETED:
                self.writes.deleted(identity)
                self._remove_group(owner.uid, group.metadata.uid)
            elif self.writes.event(identity, version(group)):
                urgency = self._urgency(owner.uid, self._groups.get(owner.uid), group)
                self._groups[owner.uid] = group
            if urgency is not None:
                self.wake_owner(owner.uid, urgency)

    def _urgency(self, owner: str, before: PodGroup | None, group: PodGroup) -> Urgency | None:
        """Return how soon a changed PodGroup makes a plan necessary; None if none depends on the change."""
        if before is None:
            being_created = (owner, group.metadata.name) in self.creating and not group.status.phase
            return None if being_created else Urgency.NOW
        if before.status.phase == group.status.phase:
            # Its messages change while its pods are created and start.
            return Urgency.SOON if group_may_matter(before, group) else None
        placed_at_once = before.status.phase in {"", "Pending"} and group.status.phase == "Running"
        return Urgency.STATUS if placed_at_once and self._has_all_pods(owner) else Urgency.NOW

    def _has_all_pods(self, owner: str) -> bool:
        job = self.jobs.get(self._keys.get(owner, ""), {})
        tasks = job.get("spec", {}).get("tasks", ())
        return bool(tasks) and len(self._pods.get(owner, ())) == sum(task.get("replicas", 1) for task in tasks)

    def priority_changes(self, changes: Sequence[Change[PriorityClass]]) -> None:
        """Take changes of PriorityClasses; existing jobs are not reconciled because of them."""
        for change in changes:
            name = change.object.metadata.name
            if change.type is ChangeType.DELETED:
                self.priorities.pop(name, None)
            else:
                self.priorities[name] = change.object.value

    def node_changes(self, changes: Sequence[Change[Node]]) -> None:
        """Take changes of nodes; jobs with pods that terminate on a node that is or was not ready are reconciled."""
        changed = set()
        for change in changes:
            name = change.object.metadata.name
            reason = "" if change.type is ChangeType.DELETED else not_ready_reason(change.object)
            if reason != self.not_ready.get(name, ""):
                changed.add(name)
                self.not_ready.pop(name, None)
                if reason:
                    self.not_ready[name] = reason
        for owner, pods in self._pods.items() if changed else ():
            if any(pod.metadata.deletion_timestamp and pod.spec.node_name in changed for pod in pods.values()):
                self.wake_owner(owner)

    # Responses to writes

    def pod_made(self, owner: str, pod: Pod) -> None:
        """Take a created pod from the response, unless a watch event was first."""
        meta = pod.metadata
        identity = (owner, meta.name, meta.uid)
        if self.writes.is_deleted(identity) or meta.name in self._pods.get(owner, {}):
            return
        if self.writes.response(PODS.plural, identity, version(pod), created=True):
            self._pods.setdefault(owner, {})[meta.name] = pod
        else:
            self.wake_owner(owner)

    def pod_going(self, owner: str, name: str, uid: str, now: datetime) -> None:
        """Mark a pod whose deletion was accepted as terminating."""
        pod = self._pods.get(owner, {}).get(name)
        if pod is not None and pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None:
            self._pods[owner][name] = msgspec.structs.replace(pod, metadata=_terminating(pod.metadata, now))

    def pod_group_made(self, owner: str, group: PodGroup) -> None:
        """Take a created PodGroup from the response, unless a watch event was first."""
        identity = (owner, "", group.metadata.uid)
        if self.writes.is_deleted(identity) or owner in self._groups:
            return
        if self.writes.response(POD_GROUPS.plural, identity, version(group), created=True):
            self._groups[owner] = group
            self.backlog.update(group)
        else:
            self.wake_owner(owner)

    def listed(self, resource: str, list_version: int) -> None:
        """Remove created objects that a complete list of pods or podgroups (by plural) at this version does not contain."""
        for owner, name, uid in self.writes.listed(resource, list_version):
            if resource == PODS.plural:
                self._remove_pod(owner, name, uid)
            else:
                self._remove_group(owner, uid)
            self.wake_owner(owner)

    def _remove_pod(self, owner: str, name: str, uid: str) -> None:
        pods = self._pods.get(owner, {})
        if name in pods and pods[name].metadata.uid == uid:
            del pods[name]
        if not pods:
            self._pods.pop(owner, None)

    def _remove_group(self, owner: str, uid: str) -> None:
        if owner in self._groups and self._groups[owner].metadata.uid == uid:
            self.backlog.remove(self._groups.pop(owner))

    def wake_owner(self, owner: str, urgency: Urgency = Urgency.NOW) -> None:
        """Reconcile the job with this uid, if it is known."""
        if key := self._keys.get(owner):
            self._wake(key, urgency)

    def pod_group_changed(self, owner: str, group: PodGroup) -> None:
        """Take a changed PodGroup from the response, unless a watch event has shown a later state."""
        known = self._groups.get(owner)
        if known is not None and known.metadata.uid == group.metadata.uid and version(known) > version(group):
            return
        if self.writes.response(POD_GROUPS.plural, (owner, "", group.metadata.uid), version(group)):
            self._groups[owner] = group
            if known is None or known.status != group.status:  # a later list shows no change of it
                self.wake_owner(owner)

    def applied_now(self, owner: str, key: str, digest: str) -> None:
        """Note that an object of a job was applied in this form, unless the job is gone."""
        if owner in self._keys:
            self.applied.setdefault(owner, {})[key] = digest

    def pod_group_going(self, owner: str, uid: str, now: datetime) -> None:
        """Mark a PodGroup whose deletion was accepted as terminating."""
        group = self._groups.get(owner)
        if group is not None and group.metadata.uid == uid and group.metadata.deletion_timestamp is None:
            self._groups[owner] = msgspec.structs.replace(group, metadata=_terminating(group.metadata, now))


def with_labels_and_readiness(node: Node) -> Node:
    """Return a node with what the controllers read of it."""
    ready = tuple(condition for condition in node.status.conditions if condition.type == "Ready")
    metadata = msgspec.structs.replace(node.metadata, annotations={})
    return Node(metadata=metadata, status=NodeStatus(conditions=ready))


def _terminating(meta: Meta, now: datetime) -> Meta:
    return msgspec.structs.replace(meta, deletion_timestamp=now)


def key_of(manifest: Json) -> str:
    """Return ``namespace/name``, or the name alone for a cluster-scoped object."""
    meta = manifest["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def uid_of(manifest: Json) -> str:
    """Return the uid of an object."""
    uid: str = manifest["metadata"]["uid"]
    return uid
