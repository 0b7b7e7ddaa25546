"""What exists of every job, as its controller sees it: fed by kopf, by our watches, and by the answers to our writes.

What we have just written is taken over at once, so that the next look at a job does not do the same again; the watch
tells the same later, and wins where it is newer.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from volcanopy.api.bus import Command
from volcanopy.api.core import Meta, Pod, PodGroup, PriorityClass
from volcanopy.api.model import InvalidObjectError
from volcanopy.jobcontroller.observed import Observed
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.kinds import Json

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
        self._unseen: dict[str, tuple[str, str, int]] = {}
        """Owner, name and version of what we have made and no watch has told of yet, by uid; PodGroups without a name."""
        self._listed = {"pods": 0, "groups": 0}
        """The version at which a kind was last listed."""

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
            self._forget_command(key, command.metadata.uid)
        else:
            self._commands.setdefault(key, {})[command.metadata.uid] = command
            self._wake(key, False)

    def command_done(self, key: str, uid: str) -> None:
        """A Command has been deleted by us."""
        self._bury(uid)
        self._forget_command(key, uid)

    def _forget_command(self, key: str, uid: str) -> None:
        given = self._commands.get(key, {})
        given.pop(uid, None)
        if not given:
            self._commands.pop(key, None)

    # What there is much of: from our own watches.

    def pod_changes(self, changes: Sequence[Change[Pod]]) -> None:
        """Pods of jobs have changed."""
        for change in changes:
            pod = change.object
            owner = pod.metadata.controller
            if owner is None or owner.kind != "BatchJob":
                continue
            self._unseen.pop(pod.metadata.uid, None)
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
            self._unseen.pop(group.metadata.uid, None)
            if change.type is ChangeType.DELETED:
                self._bury(group.metadata.uid)
                held = self._groups.get(owner.uid)
                if held is not None and held.metadata.uid == group.metadata.uid:
                    del self._groups[owner.uid]
            else:
                self._take_group(owner.uid, group)
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
        meta = pod.metadata
        if meta.uid in self._dead:
            return
        if self._pods.setdefault(owner, {}).setdefault(meta.name, pod) is pod:
            self._made("pods", meta, owner)

    def pod_going(self, owner: str, name: str, uid: str, now: datetime) -> None:
        """A pod whose deletion we have asked for."""
        pod = self._pods.get(owner, {}).get(name)
        if pod is not None and pod.metadata.uid == uid and pod.metadata.deletion_timestamp is None:
            self._pods[owner][name] = msgspec.structs.replace(pod, metadata=_going(pod.metadata, now))

    def pod_group_made(self, owner: str, group: PodGroup) -> None:
        """A PodGroup as the server answered it to our creating it."""
        if group.metadata.uid not in self._dead and self._groups.setdefault(owner, group) is group:
            self._made("groups", group.metadata, owner)

    def _made(self, kind: str, meta: Meta, owner: str) -> None:
        version = int(meta.resource_version or 0)
        self._unseen[meta.uid] = (owner, meta.name if kind == "pods" else "", version)
        if version <= self._listed[kind]:
            # It was made before the list in which it was not: nobody will tell that it is gone.
            self._gone(meta.uid)

    def listed(self, kind: Literal["pods", "groups"], version: int) -> None:
        """All of a kind have been listed, at this version: what we had made before and the list does not hold is gone.

        No watch tells of its end: none has told of its beginning.
        """
        self._listed[kind] = version
        for uid, (_, name, made) in list(self._unseen.items()):
            if bool(name) is (kind == "pods") and made <= version:
                self._gone(uid)

    def _gone(self, uid: str) -> None:
        owner, name, _ = self._unseen.pop(uid)
        self._bury(uid)
        pods = self._pods.get(owner, {})
        if name and name in pods and pods[name].metadata.uid == uid:
            del pods[name]
            if not pods:
                del self._pods[owner]
        if not name and owner in self._groups and self._groups[owner].metadata.uid == uid:
            del self._groups[owner]
        if key := self._keys.get(owner):
            self._wake(key, False)

    def pod_group_changed(self, owner: str, group: PodGroup) -> None:
        """A PodGroup as the server answered it to our changing it."""
        if group.metadata.uid not in self._dead:
            self._take_group(owner, group)

    def _take_group(self, owner: str, group: PodGroup) -> None:
        """Unless a later state of it is known: an answer may come before the watch tells what was before it."""
        held = self._groups.get(owner)
        if held is None or held.metadata.uid != group.metadata.uid or _age(held) <= _age(group):
            self._groups[owner] = group

    def applied_now(self, owner: str, key: str, digest: str) -> None:
        """An object has been brought to a form for a job; of no interest if the job has gone meanwhile."""
        if owner in self._keys:
            self.applied.setdefault(owner, {})[key] = digest

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
    """``namespace/name``, or the name alone for what lives in no namespace."""
    meta = found["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def uid_of(found: Json) -> str:
    """The identity of an object."""
    uid: str = found["metadata"]["uid"]
    return uid


def _age(group: PodGroup) -> int:
    return int(group.metadata.resource_version or 0)


def _version(found: Json) -> int:
    return int(found["metadata"]["resourceVersion"])
