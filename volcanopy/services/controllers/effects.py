"""Carries out the plan of a job: each effect is a call, in the plan's order, pods many at a time.

What an effect says about names and uids is kept to: a pod that has the name and belongs to somebody else is a fault that
people are told, not something to overwrite.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import groupby
from typing import Any, TypeVar

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from volcanopy.api import names
from volcanopy.api.core import Pod, PodGroup, PriorityClass
from volcanopy.jobcontroller import plan as effects
from volcanopy.kube.apply.event_writer import EventRecorder, ObjectReference
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, Conflict, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.controllers.job_cache import JobCache, key_of, uid_of
from volcanopy.services.controllers.reconcile_metrics import phase_changed, pod_made

log = logging.getLogger(__name__)

ObjectT = TypeVar("ObjectT", Pod, PodGroup)

JOBS: Kind[Json] = Kind(names.BATCH, "v1alpha1", "BatchJob", "batchjobs", True, dict)
COMMANDS: Kind[Json] = Kind(names.BUS, "v1alpha1", "Command", "commands", True, dict)
POD_GROUPS = Kind(names.SCHEDULING, "v1beta1", "PodGroup", "podgroups", True, PodGroup)
PODS = Kind("", "v1", "Pod", "pods", True, Pod)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, PriorityClass)
_OBJECTS: dict[str, Kind[Json]] = {
    kind.kind: kind
    for kind in (
        Kind("", "v1", "ConfigMap", "configmaps", True, dict),
        Kind("", "v1", "Secret", "secrets", True, dict),
        Kind("", "v1", "Service", "services", True, dict),
        Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, dict),
        Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, dict),
    )
}


class NameTakenError(Exception):
    """A name is taken by an object that does not belong to the job."""


class OutdatedError(Exception):
    """The job has changed since it was looked at, or is gone: the plan is void."""


class JobEffects:
    """Carries out plans. ``pods_at_once`` bounds the pod requests in flight, over all jobs."""

    def __init__(
        self,
        client: Client,
        cache: JobCache,
        recorder: EventRecorder,
        now: Callable[[], datetime],
        pods_at_once: int = 48,
    ) -> None:
        self._client, self._cache, self._recorder, self._now = client, cache, recorder, now
        self._slots = asyncio.Semaphore(pods_at_once)

    async def carry_out(self, job: Json, plan: effects.JobPlan) -> None:
        """All effects of a plan for a job as it was looked at.

        Raises OutdatedError when the status was refused (nothing that follows it has been done), and the first fault
        of a group of effects after all of the group have been tried.
        """
        if log.isEnabledFor(logging.DEBUG):
            for effect in plan.effects:
                log.debug("decision: %s", _said(effect))
        for kind, group in groupby(plan.effects, type):
            if kind in {effects.CreatePod, effects.DeletePod}:
                await self._together(job, group)
            else:
                for effect in group:
                    if isinstance(effect, effects.UpdateStatus):
                        job = await self._update_status(job, effect)
                    else:
                        await self._one(job, effect)

    async def _together(self, job: Json, several: Iterable[effects.Effect]) -> None:
        async def one(effect: effects.Effect) -> None:
            async with self._slots:
                await self._one(job, effect)

        outcomes = await asyncio.gather(*map(one, several), return_exceptions=True)
        if faults := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
            raise faults[0]

    async def _update_status(self, job: Json, effect: effects.UpdateStatus) -> Json:
        meta = job["metadata"]
        try:
            written = await self._client.update_status(
                JOBS, meta["namespace"], meta["name"], {**job, "status": effect.status}
            )
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
        return written

    async def _one(self, job: Json, effect: effects.Effect) -> None:
        namespace, owner = job["metadata"]["namespace"], uid_of(job)
        match effect:
            case effects.CreatePodGroup():
                self._cache.pod_group_made(owner, await self._create(POD_GROUPS, namespace, effect.manifest, owner))
            case effects.UpdatePodGroup():
                changed = await self._client.patch(POD_GROUPS, namespace, effect.name, effect.patch)
                self._cache.pod_group_changed(owner, changed)
            case effects.DeletePodGroup():
                await self._delete(POD_GROUPS, namespace, effect.name, effect.uid)
                self._cache.pod_group_going(owner, effect.uid, self._now())
            case effects.CreatePod():
                self._cache.pod_made(owner, await self._create(PODS, namespace, effect.manifest, owner))
                pod_made(job, self._now())
            case effects.DeletePod():
                await self._delete(PODS, namespace, effect.name, effect.uid)
                self._cache.pod_going(owner, effect.name, effect.uid, self._now())
            case effects.ApplyObject():
                await self._apply(namespace, owner, effect)
                self._cache.applied_now(owner, effect.key, effect.digest)
            case effects.DeleteObject():
                await self._remove(namespace, owner, effect)
                self._cache.applied.get(owner, {}).pop(effect.key, None)
            case effects.DeleteCommand():
                await self._delete(COMMANDS, namespace, effect.name, effect.uid)
                self._cache.command_done(key_of(job), effect.uid)
            case effects.DeleteJob():
                await self._delete(JOBS, namespace, job["metadata"]["name"], effect.uid)
            case effects.RecordEvent():
                self._recorder.record(reference(job), effect.type, effect.reason, effect.message)
            case effects.UpdateStatus():
                raise TypeError("the status is written by carry_out, which goes on with what the server answered")

    async def _create(self, kind: Kind[ObjectT], namespace: str, manifest: Json, owner: str) -> ObjectT:
        name = manifest["metadata"]["name"]
        try:
            return await self._client.create(kind, namespace, manifest)
        except AlreadyExists:
            found = await self._client.get(kind, namespace, name)
            holder = found.metadata.controller
            if holder is None or holder.uid != owner:
                raise NameTakenError(f"{kind.kind} {name} exists and does not belong to this job: delete it") from None
            return found

    async def _delete(self, kind: Kind[Any], namespace: str, name: str, uid: str) -> None:
        try:
            await self._client.delete(kind, namespace, name, uid=uid, propagation="Background")
        except (NotFound, Conflict):
            log.debug("%s %s/%s is gone already", kind.kind, namespace, name)

    async def _apply(self, namespace: str, owner: str, effect: effects.ApplyObject) -> None:
        kind = _OBJECTS[effect.manifest["kind"]]
        name = effect.manifest["metadata"]["name"]
        made = effect.manifest
        if effect.ssh_keys:
            keys = await asyncio.to_thread(new_ssh_keys)
            made = {**made, "data": {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}}
        try:
            await self._client.create(kind, namespace, made)
        except AlreadyExists:
            found = await self._client.get(kind, namespace, name)
            if not _controlled(found, owner):
                raise NameTakenError(f"{kind.kind} {name} exists and does not belong to this job: delete it") from None
            if kind.kind == "PersistentVolumeClaim":
                return
            parts: Json = {
                key: effect.manifest[key] for key in ("data", "stringData", "spec") if key in effect.manifest
            }
            await self._client.patch(kind, namespace, name, parts)

    async def _remove(self, namespace: str, owner: str, effect: effects.DeleteObject) -> None:
        kind = _OBJECTS[effect.kind]
        try:
            found = await self._client.get(kind, namespace, effect.name)
        except NotFound:
            return
        if _controlled(found, owner):
            await self._delete(kind, namespace, effect.name, uid_of(found))


def _said(effect: effects.Effect) -> str:
    """An effect in short, for the log: its name, but nothing of what is in it, which may be secret."""
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
    """The job as the subject of Events."""
    meta = job["metadata"]
    return ObjectReference(
        api_version=names.BATCH_V1ALPHA1,
        kind="BatchJob",
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
    )


def _controlled(found: Json, owner: str) -> bool:
    owners = found["metadata"].get("ownerReferences") or ()
    return any(one.get("uid") == owner and one.get("controller") for one in owners)


def new_ssh_keys() -> dict[str, str]:
    """A new key pair, as the files of an ssh client and server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return {"id_rsa": private, "id_rsa.pub": public + "\n", "authorized_keys": public + "\n"}
