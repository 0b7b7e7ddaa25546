"""The controller of queues: states, Commands, and counts of PodGroups.

The scheduler writes other fields of the same status. Both write merge patches of their own fields only.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.api.lifecycle import Command
from volcanopy.api.model import InvalidObjectError, Json
from volcanopy.api.scheduling import PodGroupPhase, Queue, QueueState
from volcanopy.jobcontroller.phases import STOPPED
from volcanopy.jobcontroller.plan import DeleteCommand, RecordEvent
from volcanopy.jobcontroller.queues import PatchQueue, PatchQueueStatus, QueueObserved, reconcile_queue
from volcanopy.kube import machine
from volcanopy.kube.cache.object_counts import ObjectCounts
from volcanopy.kube.cache.read_your_writes import version
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.raw_kinds import COMMANDS, JOBS, QUEUES
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.job_cache import key_of, uid_of
from volcanopy.services.controllers.owned_objects import OutdatedError, delete_same
from volcanopy.services.controllers.reconcile_metrics import queue_is_gone
from volcanopy.services.controllers.shared_queues import SharedQueues

log = structlog.get_logger(__name__)


PACE = 1.0
"""Least seconds between two reconciles of a queue because of its contents."""

_STOPPED = frozenset(map(str, STOPPED))


class QueueContents:
    """Counts of PodGroups by phase and of active BatchJobs (neither finished nor suspended) by queue.

    ``changed`` is called with the name of a queue whose counts have changed.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._groups = ObjectCounts[tuple[str, PodGroupPhase]]()
        self._jobs = ObjectCounts[str]()

    def groups(self, queue: str) -> dict[PodGroupPhase, int]:
        """Return the number of PodGroups of a queue in each phase in which there are any."""
        return {phase: count for phase in PodGroupPhase if (count := self._groups.counts[queue, phase])}

    def jobs(self, queue: str) -> int:
        """Return the number of active BatchJobs of a queue."""
        return self._jobs.counts[queue]

    def pod_group_changes(self, changes: Sequence[Change[core.PodGroup]]) -> None:
        """Take changes of PodGroups."""
        for change in changes:
            group, gone = change.object, change.type is ChangeType.DELETED
            now = None if gone else (group.spec.queue or names.DEFAULT_QUEUE, _phase(group))
            for queue in {changed[0] for changed in self._groups.put(group.metadata.key, now)}:
                self._changed(queue)

    def job_event(self, event: str | None, job: Json) -> None:
        """Take a BatchJob that was listed, added, changed or deleted."""
        state = (job.get("status") or {}).get("state") or {}
        lives = event != "DELETED" and state.get("phase") not in _STOPPED
        now = str((job.get("spec") or {}).get("queue") or names.DEFAULT_QUEUE) if lives else None
        for queue in self._jobs.put(uid_of(job), now):
            self._changed(queue)


class QueueController(Controller):
    """Opens and closes queues, and counts their contents.

    ``opened`` is called with the name of a queue that became open. ``now`` is injected by tests.
    """

    of_kind = QUEUES

    def __init__(
        self,
        apis: ApiViews,
        recorder: EventRecorder,
        opened: Callable[[str], None] = lambda _: None,
        now: Callable[[], datetime] = machine.utc_now,
    ) -> None:
        """``apis``: those whose queues form one tree."""
        super().__init__(next(iter(apis)), recorder, now)
        self._apis = apis
        self._hidden: dict[str, Json] = {}
        """By name: queues that are ignored, because a queue of another API has the name, or that are copies of it."""
        self._shared = SharedQueues(apis)
        self._opened = opened
        self.contents = QueueContents(self._contents_changed)
        self._commands: defaultdict[str, dict[str, Command]] = defaultdict(dict)
        self._counted: dict[str, float] = {}

    def kinds(self) -> Sequence[Kind[Any]]:
        """Return the kinds of queues, Commands and jobs."""
        return self._apis.kinds(QUEUES, COMMANDS, JOBS)

    def reference(self, manifest: Json) -> ObjectReference:
        """Return a queue, in the API that it is of, as the subject of Events."""
        return replace(super().reference(manifest), api_version=manifest["apiVersion"])

    def event(self, event: str | None, manifest: Json) -> None:
        """Take a queue, a Command or a job that was listed, added, changed or deleted."""
        if manifest.get("kind") == QUEUES.kind:
            self._queue_event(event, manifest)
        elif manifest.get("kind") == COMMANDS.kind:
            self._command(event, manifest)
        else:
            self.contents.job_event(event, manifest)

    def _queue_event(self, event: str | None, manifest: Json) -> None:
        """Take a queue, unless a queue of another API with its name is older."""
        name, known = key_of(manifest), self.objects.get(key_of(manifest))
        if known is None or known.get("apiVersion") == manifest.get("apiVersion"):
            self.object_event(event, manifest)
            if event == "DELETED" and (hidden := self._hidden.pop(name, None)) is not None:
                self.object_event(None, hidden)
            return
        hidden, uid = self._hidden.get(name), uid_of(manifest)
        same = hidden if hidden is not None and uid_of(hidden) == uid else None
        if event == "DELETED":
            self.writes.deleted(uid)
            if same is not None:
                del self._hidden[name]
        elif not self.writes.event(uid, version(manifest), version(same) if same is not None else -1):
            return
        elif self._precedence(manifest) < self._precedence(known):
            self._hidden[name] = known
            self.objects[name] = manifest
        else:
            self._hidden[name] = manifest
        self.queue.add(name)

    def _precedence(self, queue: Json) -> tuple[str, int]:
        """Return the sort key of queues with the same name: the scheduler takes the first."""
        metadata = queue["metadata"]
        created = "" if metadata["name"] in names.SHARED_QUEUES else metadata.get("creationTimestamp", "")
        return str(created), self._apis.rank(queue)

    def object_event(self, event: str | None, manifest: Json) -> None:
        """Take a queue that was listed, added, changed or deleted; its children follow its state."""
        name = key_of(manifest)
        before = self.objects.get(name)
        super().object_event(event, manifest)
        after = self.objects.get(name)
        if after is None:
            queue_is_gone(name)
            self._counted.pop(name, None)
        if _state(before) != _state(after):
            self._wake_below(name)
            if after is not None and _state(after) in {"", QueueState.OPEN}:
                self._opened(name)

    def _wake_below(self, name: str) -> None:
        for below, queue in self.objects.items():
            if _parent(queue) == name:
                self.queue.add(below)

    def _contents_changed(self, name: str) -> None:
        if name in self.objects:
            now = asyncio.get_running_loop().time()
            self.queue.add(name, max(self._counted.get(name, 0.0) + PACE - now, 0.02))

    def _command(self, event: str | None, manifest: Json) -> None:
        try:
            command = Command.read(manifest)
        except InvalidObjectError as error:
            log.warning("invalid Command ignored", key=key_of(manifest), error=str(error))
            return
        if command.target.kind != QUEUES.kind:
            return
        name, uid = command.target.name, command.metadata.uid
        if event == "DELETED" or self.writes.is_deleted(uid):
            self._forget_command(name, uid)
        else:
            self._commands[name][uid] = command
            self.queue.add(name)

    def _forget_command(self, name: str, uid: str) -> None:
        commands = self._commands.get(name, {})
        commands.pop(uid, None)
        if not commands:
            self._commands.pop(name, None)

    async def reconcile_object(self, manifest: Json) -> datetime | None:
        """Reconcile a queue."""
        name = manifest["metadata"]["name"]
        if (queue := self.readable(Queue, manifest)) is None:
            return None
        self._counted[name] = asyncio.get_running_loop().time()
        for effect in self.step(manifest, reconcile_queue(queue, self._observed(manifest))):
            self.queue.progress(name)
            match effect:
                case PatchQueue():
                    manifest = await self._write(manifest, effect.patch)
                case PatchQueueStatus():
                    manifest = await self._write(manifest, {"status": effect.patch})
                case RecordEvent():
                    self.record(manifest, effect.type, effect.reason, effect.message)
                case DeleteCommand():
                    await self._delete_command(name, effect)
        return await self._synchronize(name) if name in self._shared else None

    async def _synchronize(self, name: str) -> datetime | None:
        """Give every API the queue, with the same content and status."""
        queue = self.objects.get(name)
        current, pause = ([], 0.0) if queue is None else await self._shared.synchronize(queue, self._hidden.get(name))
        for manifest in current:
            self._queue_event(None, manifest)
        return self.now() + timedelta(seconds=pause) if pause else None

    def _observed(self, raw: Json) -> QueueObserved:
        name, above = raw["metadata"]["name"], _parent(raw)
        parent = self.objects.get(above)
        return QueueObserved(
            parent=None if parent is None else _readable(parent),
            parent_ordered=above in self._commands,
            commands=tuple(self._addressed(command, name) for command in self._commands.get(name, {}).values()),
            groups=self.contents.groups(name),
            jobs=self.contents.jobs(name),
        )

    def _addressed(self, command: Command, name: str) -> Command:
        """Return a Command; one for the copy of a shared queue is for the queue."""
        copy = self._hidden.get(name) if name in self._shared else None
        if copy is None or command.target.uid != uid_of(copy):
            return command
        return command.model_copy(update={"target": command.target.model_copy(update={"uid": ""})})

    async def _write(self, manifest: Json, patch: Json) -> Json:
        """Patch a queue. A new state has the version read as precondition. Raises OutdatedError."""
        meta, client = manifest["metadata"], self._apis.of(manifest)
        status = patch.get("status")
        precondition = {"resourceVersion": meta["resourceVersion"]} if "state" in (status or {}) else {}
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": meta["uid"], **precondition}}
        write = client.patch if status is None else client.patch_status
        try:
            written = await write(QUEUES, None, meta["name"], body)
        except NotFound as gone:
            self.objects.pop(meta["name"], None)
            raise OutdatedError from gone
        except Conflict as conflict:
            try:
                self.object_event(None, await client.get(QUEUES, None, meta["name"]))
            except NotFound:
                self.objects.pop(meta["name"], None)
            raise OutdatedError from conflict
        self.object_event(None, written)
        return written

    async def _delete_command(self, name: str, effect: DeleteCommand) -> None:
        command = self._commands.get(name, {}).get(effect.uid)
        if command is None:
            return
        client = self._apis.of({"apiVersion": command.api_version})
        await delete_same(client, COMMANDS, command.metadata.namespace, effect.name, effect.uid)
        self.writes.deleted(effect.uid)
        self._forget_command(name, effect.uid)
        self._wake_below(name)


def _phase(group: core.PodGroup) -> PodGroupPhase:
    """Return the phase of a group; an unknown phase counts as not finished."""
    phase = group.status.phase or PodGroupPhase.PENDING
    return PodGroupPhase(phase) if phase in set(PodGroupPhase) else PodGroupPhase.UNKNOWN


def _state(queue: Json | None) -> str:
    return str(((queue or {}).get("status") or {}).get("state") or "")


def _parent(queue: Json) -> str:
    """Return the name of the parent queue, empty for the root."""
    if queue["metadata"]["name"] == names.ROOT_QUEUE:
        return ""
    return str((queue.get("spec") or {}).get("parent") or names.ROOT_QUEUE)


def _readable(queue: Json) -> Queue | None:
    """Return a queue, None if it is invalid, which its own reconcile reports."""
    try:
        return Queue.read(queue)
    except InvalidObjectError:
        return None
