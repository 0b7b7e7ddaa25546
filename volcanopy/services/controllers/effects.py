"""Application of a job's plan: one API call per effect, in the order of the plan, pods concurrently.

Names and uids in effects are preconditions: a pod of that name with another owner is an error that the job reports.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TypeVar

import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod, PodGroup
from volcanopy.api.names import PODS_CREATED
from volcanopy.jobcontroller import plan as effects
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import (
    COMMANDS,
    CONFIG_MAPS,
    JOBS,
    NETWORK_POLICIES,
    SECRETS,
    SERVICES,
    VOLUME_CLAIMS,
    of_object,
)
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.writes.write_slots import WriteSlots
from volcanopy.services.controllers.job_cache import JobCache, key_of, uid_of
from volcanopy.services.controllers.job_history import JobHistoryWriter, is_final
from volcanopy.services.controllers.owned_objects import (
    OutdatedError,
    all_of,
    concerns_all,
    create_owned,
    delete_same,
    existing_object,
    is_controlled,
    is_rejection,
)
from volcanopy.services.controllers.reconcile_metrics import phase_changed, pod_made
from volcanopy.services.controllers.run_times import RunTimes

log = structlog.get_logger(__name__)
_decisions = logging.getLogger(__name__)

ObjectT = TypeVar("ObjectT", Pod, PodGroup)

LARGE = 256 * 1024
"""Bytes of a job from which on its status costs the API server many times that of a usual one: 0.3 s of a core for 1.3 MB.

One such job is in progress at a time, with one write in flight: the other cores are free for the jobs of others.
"""

_OBJECTS = {kind.kind: kind for kind in (CONFIG_MAPS, SECRETS, SERVICES, VOLUME_CLAIMS, NETWORK_POLICIES)}


@dataclass(frozen=True)
class Ending:
    """What is done with a job that ends: it is recorded before, and its run time is learnt after."""

    history: JobHistoryWriter | None
    run_times: RunTimes


class JobEffects:
    """Applies plans. ``pods_at_once`` limits the pod requests in flight, over all jobs.

    Large jobs have a slot of their own, which none waits for: the work queue has one of them in progress.
    """

    def __init__(
        self,
        client: Client,
        cache: JobCache,
        recorder: EventRecorder,
        now: Callable[[], datetime],
        pods_at_once: int,
        ending: Ending,
        written: Callable[[str], None],
    ) -> None:
        """``written`` is called with the key of a job after each write for it."""
        self._written = written
        self._ending = ending
        self._client, self._cache, self._recorder, self._now = client, cache, recorder, now
        self._slots, self._large_slots = WriteSlots(pods_at_once), WriteSlots(1)
        self._lacking_pods: set[str] = set()
        """UIDs of jobs of which the API server rejected pods before the admission, until their PodGroup is created."""

    async def carry_out(self, job: Json, plan: effects.JobPlan, removed: Sequence[Pod] = ()) -> Exception | None:
        """Apply all effects of a plan for a job as it was read; its status counts these ``removed`` pods.

        Returns the first error of single pods at the end of the plan. Raises OutdatedError when the write of the status was
        rejected, and any other error; no later effect is applied then, except concurrent ones.
        """
        if _decisions.isEnabledFor(logging.DEBUG):
            for effect in plan.effects:
                log.debug("decision", effect=_summary(effect))
        written = partial(self._written, key_of(job))
        if not any(isinstance(effect, effects.UpdateStatus) for effect in plan.effects):
            self._cache.counted(uid_of(job), removed)
        error = None
        for kind, group in groupby(plan.effects, type):
            if error is not None:
                raise error
            if kind in {effects.CreatePod, effects.DeletePod}:
                namespace = job["metadata"]["namespace"]
                slots = self._large_slots if self._cache.size(key_of(job)) >= LARGE else self._slots
                error = await all_of(slots, namespace, partial(self._apply, job), group, written)
                if error is not None and concerns_all(error):
                    raise error
                continue
            for effect in group:
                if isinstance(effect, effects.UpdateStatus):
                    job = await self._update_status(job, effect)
                    self._cache.counted(uid_of(job), removed)
                else:
                    await self._apply(job, effect)
                if not isinstance(effect, effects.RecordEvent):
                    written()
        return error

    async def _update_status(self, job: Json, effect: effects.UpdateStatus) -> Json:
        meta = job["metadata"]
        ended = None
        if is_final(effect.status) and not is_final(job.get("status") or {}):
            ended = BatchJob.read({**job, "status": effect.status})
            if self._ending.history is not None:
                await self._ending.history.ended(ended)
        try:
            written = await self._client.update_status(JOBS, job, effect.status)
        except NotFound as gone:
            self._cache.drop(key_of(job))
            raise OutdatedError from gone
        except Conflict as conflict:
            try:
                self._cache.written(await self._client.get(JOBS, meta["namespace"], meta["name"]))
            except NotFound:
                self._cache.drop(key_of(job))
            raise OutdatedError from conflict
        self._cache.written(written)
        phase_changed(job, written)
        if ended is not None:
            self._ending.run_times.learn(ended)
        return written

    async def _apply(self, job: Json, effect: effects.Effect) -> None:
        namespace, owner = job["metadata"]["namespace"], uid_of(job)
        match effect:
            case effects.CreatePodGroup():
                group = await self._create(POD_GROUPS, namespace, self._corrected(effect.manifest, owner), owner)
                self._cache.pod_group_made(owner, group)
            case effects.UpdatePodGroup():
                changed = await self._client.patch(POD_GROUPS, namespace, effect.name, effect.patch)
                self._cache.pod_group_changed(owner, changed)
            case effects.DeletePodGroup():
                await delete_same(self._client, POD_GROUPS, namespace, effect.name, effect.uid)
                self._cache.pod_group_going(owner, effect.uid, self._now())
            case effects.CreatePod():
                await self._create_pod(job, effect)
            case effects.DeletePod():
                await delete_same(self._client, PODS, namespace, effect.name, effect.uid)
                self._cache.pod_going(owner, effect.name, effect.uid, self._now())
            case effects.ApplyObject():
                await self._apply_object(namespace, owner, effect)
                self._cache.applied_now(owner, effect.key, effect.digest)
            case effects.DeleteObject():
                await self._delete_object(namespace, owner, effect)
                self._cache.applied.get(owner, {}).pop(effect.key, None)
            case effects.DeleteCommand():
                await delete_same(self._client, COMMANDS, namespace, effect.name, effect.uid)
                self._cache.command_done(key_of(job), effect.uid)
            case effects.DeleteJob():
                await delete_same(self._client, JOBS, namespace, effect.name, effect.uid)
            case effects.RecordEvent():
                self._recorder.record(reference(job), effect.type, effect.reason, effect.message)
            case effects.UpdateStatus():
                raise TypeError("the status is written by carry_out, which continues with the response")

    async def _create_pod(self, job: Json, effect: effects.CreatePod) -> None:
        namespace, owner = job["metadata"]["namespace"], uid_of(job)
        try:
            pod = await self._create(PODS, namespace, effect.manifest, owner)
        except Exception as error:
            if effect.admitted or not is_rejection(error):
                raise
            self._lacking_pods.add(owner)  # the PodGroup waits, for the quota for example
        else:
            self._cache.pod_made(owner, pod)
            pod_made(job, self._now())

    def _corrected(self, manifest: Json, owner: str) -> Json:
        """Return the manifest of a PodGroup, which does not state that its pods exist if some were rejected."""
        if owner not in self._lacking_pods:
            return manifest
        self._lacking_pods.remove(owner)
        annotations = {key: value for key, value in manifest["metadata"]["annotations"].items() if key != PODS_CREATED}
        return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}

    async def _create(self, kind: Kind[ObjectT], namespace: str, manifest: Json, owner: str) -> ObjectT:
        def owned(existing: ObjectT) -> bool:
            controller = existing.metadata.controller
            return controller is not None and controller.uid == owner

        creating = owner, manifest["metadata"]["name"]
        self._cache.creating.add(creating)
        try:
            item, created = await create_owned(self._client, kind, namespace, manifest, owned)
            if not created:  # it may have changed since: the watch shows no change of a state that a response has shown
                self._cache.wake_owner(owner)
        finally:
            self._cache.creating.discard(creating)
        return item

    async def _apply_object(self, namespace: str, owner: str, effect: effects.ApplyObject) -> None:
        kind = _OBJECTS[effect.manifest["kind"]]
        manifest = effect.manifest
        if effect.ssh_keys:
            keys = await asyncio.to_thread(new_ssh_keys)
            data = {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}
            manifest = {**manifest, "data": data}
        _, created = await create_owned(
            self._client, kind, namespace, manifest, lambda existing: is_controlled(existing, owner)
        )
        if not created and kind.kind != "PersistentVolumeClaim":
            parts: Json = {
                key: effect.manifest[key] for key in ("data", "stringData", "spec") if key in effect.manifest
            }
            await self._client.patch(kind, namespace, manifest["metadata"]["name"], parts)

    async def _delete_object(self, namespace: str, owner: str, effect: effects.DeleteObject) -> None:
        kind = _OBJECTS[effect.kind]
        try:
            existing = await existing_object(self._client, kind, namespace, effect.name)
        except NotFound:
            return
        if existing is not None and is_controlled(existing, owner):
            await delete_same(self._client, kind, namespace, effect.name, uid_of(existing))


def _summary(effect: effects.Effect) -> str:
    """Return an effect for the log: its type and name, without its content, which may be secret."""
    match effect:
        case effects.UpdateStatus():
            return f"UpdateStatus {(effect.status.get('state') or {}).get('phase') or ''}".rstrip()
        case effects.RecordEvent():
            return f"RecordEvent {effect.type} {effect.reason}"
    manifest = getattr(effect, "manifest", None)
    if manifest is not None:
        return f"{type(effect).__name__} {manifest['kind']} {manifest['metadata']['name']}"
    return f"{type(effect).__name__} {getattr(effect, 'name', '')}".rstrip()


def reference(job: Json) -> ObjectReference:
    """Return the job, in its API, as the subject of Events."""
    return ObjectReference.of(of_object(JOBS, job.get("apiVersion", JOBS.api_version)), job)


def new_ssh_keys() -> dict[str, str]:
    """Return a new key pair, as the files of an ssh client and server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return {"id_rsa": private, "id_rsa.pub": public + "\n", "authorized_keys": public + "\n"}
