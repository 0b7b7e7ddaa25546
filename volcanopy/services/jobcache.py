"""What exists of every job, as its controller sees it: fed by kopf, by our watches, and by the answers to our writes.

What we have just written is taken over at once, so that the next look at a job does not do the same again; the watch
tells the same later, and wins where it is newer.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from volcanopy.api.bus import Command
from volcanopy.api.core import Meta, Pod, PodGroup, PriorityClass
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.observed import Observed
from volcanopy.kube.kinds import Json
from volcanopy.kube.watch import Change, ChangeType

REMEMBERED_DEATHS = 20_000

Wake = Callable[[str, bool], None]
"""Called with the key of a job (``namespace/name``) to look at, and whether a burst of further changes is likely."""


class JobCache:
    """Jobs by key, and what belongs to them by the job's uid."""

    def __init__(self, wake: Wake) -> None:
        self.jobs: dict[str, Json] = {}
        self.priorities: dict[str, int] = {}
        self.applied: dict[str, dict[str, str]] = {}
        self.trouble: dict[str, str] = {}
        self._wake = wake
        self._keys: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._groups: dict[str, PodGroup] = {}
        self._commands: dict[str, dict[str, Command]] = {}
        self._dead: OrderedDict[str, None] = OrderedDict()

    def observed(self, key: str) -> Observed:
        """What exists of a job."""
        uid = uid_of(self.jobs[key])
        return Observed(
            pods=tuple(self._pods.get(uid, {}).values()),
            pod_group=self._groups.get(uid),
            commands=tuple(self._commands.get(key, {}).values()),
            priorities=self.priorities,
            applied=self.applied.get(uid, {}),
            trouble=self.trouble.get(uid, ""),
        )

    def pods_of(self, owner: str) -> tuple[Pod, ...]:
        """The pods of a job, by the job's uid."""
        return tuple(self._pods.get(owner, {}).values())

    # What users write: from kopf.

    def job_event(self, event: str | None, found: Json) -> None:
        """A job was listed, added, changed or deleted."""
        key = key_of(found)
        known = self.jobs.get(key)
        if event == "DELETED":
            if known is not None and uid_of(known) == uid_of(found):
                self.drop(key)
            self._wake(key, False)
            return
        if known is None or uid_of(known) != uid_of(found):
            if known is not None:
                self.drop(key)
            self.jobs[key] = found
            self._keys[uid_of(found)] = key
        elif _version(found) <= _version(known):
            return
        else:
            self.jobs[key] = found
        self._wake(key, False)

    def written(self, found: Json) -> None:
        """A job as the server answered it to our write."""
        key = key_of(found)
        known = self.jobs.get(key)
        if known is not None and uid_of(known) == uid_of(found) and _version(found) > _version(known):
            self.jobs[key] = found

    def drop(self, key: str) -> None:
        """The job is gone."""
        job = self.jobs.pop(key, None)
        if job is not None:
            self._keys.pop(uid_of(job), None)
            self.applied.pop(uid_of(job), None)
            self.trouble.pop(uid_of(job), None)

    def command_event(self, event: str | None, found: Json) -> None:
        """A Command was listed, added, changed or deleted."""
        try:
            command = Command.read(found)
        except InvalidObjectError:
            return
        if command.target.kind != "BatchJob":
            return
        key = f"{command.metadata.namespace}/{command.target.name}"
        if event == "DELETED" or command.metadata.uid in self._dead:
            self._commands.get(key, {}).pop(command.metadata.uid, None)
        else:
            self._commands.setdefault(key, {})[command.metadata.uid] = command
            self._wake(key, False)

    def command_done(self, key: str, uid: str) -> None:
        """A Command has been deleted by us."""
        self._bury(uid)
        self._commands.get(key, {}).pop(uid, None)

    # What there is much of: from our own watches.

    def pod_changes(self, changes: Sequence[Change[Pod]]) -> None:
        """Pods of jobs have changed."""
        for change in changes:
            pod = change.object
            owner = pod.metadata.controller
            if owner is None or owner.kind != "BatchJob":
                continue
            if change.type is ChangeType.DELETED:
                self._bury(pod.metadata.uid)
                pods = self._pods.get(owner.uid, {})
                held = pods.get(pod.metadata.name)
                if held is not None and held.metadata.uid == pod.metadata.uid:
                    del pods[pod.metadata.name]
                if not pods:
                    self._pods.pop(owner.uid, None)
            else:
                self._pods.setdefault(owner.uid, {})[pod.metadata.name] = pod
            if key := self._keys.get(owner.uid):
                self._wake(key, True)

    def pod_group_changes(self, changes: Sequence[Change[PodGroup]]) -> None:
        """PodGroups have changed."""
        for change in changes:
            group = change.object
            owner = group.metadata.controller
            if owner is None or owner.kind != "BatchJob":
                continue
            if change.type is ChangeType.DELETED:
                self._bury(group.metadata.uid)
                held = self._groups.get(owner.uid)
                if held is not None and held.metadata.uid == group.metadata.uid:
                    del self._groups[owner.uid]
            else:
                self._groups[owner.uid] = group
            if key := self._keys.get(owner.uid):
                self._wake(key, False)

    def priority_changes(self, changes: Sequence[Change[PriorityClass]]) -> None:
        """PriorityClasses have changed; jobs that exist are not looked at again for that."""
        for change in changes:
            name = change.object.metadata.name
            if change.type is ChangeType.DELETED:
                self.priorities.pop(name, None)
            else:
                self.priorities[name] = change.object.value

    # What we have written ourselves.

    def pod_made(self, owner: str, pod: Pod) -> None:
        """A pod as the server answered it to our creating it, unless the watch has told more already."""
        pods = self._pods.setdefault(owner, {})
        if pod.metadata.uid not in self._dead:
            pods.setdefault(pod.metadata.name, pod)

    def pod_going(self, owner: str, name: str, uid: str, now: datetime) -> None:
        """A pod whose deletion we have asked for."""
        pod = self._pods.get(owner, {}).get(name)
        if pod is not None and pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None:
            self._pods[owner][name] = msgspec.structs.replace(pod, metadata=_going(pod.metadata, now))

    def pod_group_made(self, owner: str, group: PodGroup) -> None:
        """A PodGroup as the server answered it to our creating it."""
        if group.metadata.uid not in self._dead:
            self._groups.setdefault(owner, group)

    def pod_group_going(self, owner: str, uid: str, now: datetime) -> None:
        """A PodGroup whose deletion we have asked for."""
        group = self._groups.get(owner)
        if group is not None and group.metadata.uid == uid and group.metadata.deletion_timestamp is None:
            self._groups[owner] = msgspec.structs.replace(group, metadata=_going(group.metadata, now))

    def _bury(self, uid: str) -> None:
        self._dead[uid] = None
        if len(self._dead) > REMEMBERED_DEATHS:
            self._dead.popitem(last=False)


def _going(meta: Meta, now: datetime) -> Meta:
    return msgspec.structs.replace(meta, deletion_timestamp=now)


def key_of(found: Json) -> str:
    """``namespace/name``."""
    meta = found["metadata"]
    return f"{meta['namespace']}/{meta['name']}"


def uid_of(found: Json) -> str:
    """The identity of an object."""
    uid: str = found["metadata"]["uid"]
    return uid


def _version(found: Json) -> int:
    return int(found["metadata"]["resourceVersion"])
