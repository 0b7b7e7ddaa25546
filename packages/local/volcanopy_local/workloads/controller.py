"""The controller of Deployments, ReplicaSets, StatefulSets and Jobs: watches, decides, writes.

On a real cluster kube-controller-manager does this. A workload is decided again when it, or an object that it controls, has
changed, and not before the watch has shown what was written for it last.
"""

import asyncio
import math
from collections.abc import Callable, Iterable

import structlog

from volcanopy.api import names
from volcanopy.kube import machine
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import PODS, VOLUME_CLAIMS
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy_local.simulated.pod_status import stamp
from volcanopy_local.simulated.timers import TimedWorkers
from volcanopy_local.workloads import deployment, job, replica_set, stateful_set
from volcanopy_local.workloads.plan import Effect, ObjectCreation, ObjectDeletion, SetStatus, Update, controller_uid

log = structlog.get_logger(__name__)

REPLICA_SETS: Kind[Json] = Kind("apps", "v1", "ReplicaSet", "replicasets", True, dict)
DEPLOYMENTS: Kind[Json] = Kind("apps", "v1", "Deployment", "deployments", True, dict)
STATEFUL_SETS: Kind[Json] = Kind("apps", "v1", "StatefulSet", "statefulsets", True, dict)
JOBS: Kind[Json] = Kind("batch", "v1", "Job", "jobs", True, dict)
WATCHED = (PODS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, JOBS)
_KINDS = {kind.kind: kind for kind in (*WATCHED, VOLUME_CLAIMS)}
_WORKERS = 8
SEEN_LIMIT = 30.0
"""Seconds after which a write counts as seen: an object may come and go while a watch is interrupted."""


class WorkloadController:
    """Runs the workloads of all namespaces."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reflectors = {
            kind.kind: Reflector(client, kind, transform=_workload_pod, label_selector=f"!{names.JOB_NAME}")
            if kind is PODS
            else Reflector(client, kind)
            for kind in WATCHED
        }
        self._events = EventRecorder(client, "workload-controller")
        self._workers = TimedWorkers("workload", self._decide, _WORKERS)
        self._keys: dict[str, str] = {}
        # Of each workload by uid: the uids that its writes created (or, with "-", deleted) and no watch has shown, with the time.
        self._unseen: dict[str, dict[str, float]] = {}

    async def run(self, stop: asyncio.Event, ready: asyncio.Event | None = None) -> None:
        """Run until `stop` is set; `ready` is set once all objects are listed."""
        watches = [(reflector, self._taken(kind)) for kind, reflector in self._reflectors.items()]
        async with self._events:
            await self._workers.serve(watches, stop, ready)

    def _taken(self, kind: str) -> Callable[[Iterable[Change[Json]]], None]:
        """A function that enqueues the workloads that a change concerns."""

        def on_changes(changes: Iterable[Change[Json]]) -> None:
            for change in changes:
                metadata = change.object["metadata"]
                key = f"{kind} {metadata['namespace']}/{metadata['name']}"
                owner = controller_uid(change.object)
                is_deleted = change.type is ChangeType.DELETED
                if unseen := self._unseen.get(owner):
                    unseen.pop(metadata["uid"], None)
                    if is_deleted or "deletionTimestamp" in metadata:
                        unseen.pop(f"-{metadata['uid']}", None)
                if kind != PODS.kind:
                    if is_deleted:
                        self._keys.pop(metadata["uid"], None)
                        self._unseen.pop(metadata["uid"], None)
                    else:
                        self._keys[metadata["uid"]] = key
                        self._workers.put(key)
                if owner in self._keys:
                    self._workers.put(self._keys[owner])

        return on_changes

    async def _decide(self, key: str) -> float:
        """Take the next step of a workload; return when it must be looked at again."""
        kind, _, name = key.partition(" ")
        workload = self._reflectors[kind].objects.get(name)
        if workload is None:
            return math.inf
        workload = {"apiVersion": _KINDS[kind].api_version, "kind": kind, **workload}
        uid = workload["metadata"]["uid"]
        if unseen := self._unseen.get(uid):
            latest = max(unseen.values()) + SEEN_LIMIT
            if machine.epoch() < latest:
                return latest
            unseen.clear()
        await self._carry_out(kind, workload)
        if kind == JOBS.kind:
            due = job.deadline(workload)
            return math.inf if due is None or due <= machine.epoch() else due
        return math.inf

    async def _carry_out(self, kind: str, workload: Json) -> None:
        """Write the effects of a reconciliation. Raises the error with which a pod was rejected, after it is reported."""
        rejected: ApiError | None = None
        for effect in self._reconciled(kind, workload):
            if rejected is not None and isinstance(effect, ObjectCreation):
                continue  # the next is most likely rejected for the same reason
            try:
                await self._write(workload, effect)
            except ApiError as error:
                if not isinstance(effect, ObjectCreation) or error.namespace_is_deleted:
                    raise
                rejected = error
                self._report(workload, effect, str(error))
        if rejected is not None:
            raise rejected

    def _report(self, workload: Json, creation: ObjectCreation, message: str) -> None:
        """Record the event of an object that was rejected, with the message of kube-controller-manager."""
        kind, metadata = workload["kind"], workload["metadata"]
        text = f"Error creating: {message}"
        if kind == STATEFUL_SETS.kind:
            what = "Pod" if creation.kind == PODS.kind else "Claim"
            text = f"Create {what} {creation.body['metadata']['name']} in {kind} {metadata['name']} failed error: {message}"
        reference = ObjectReference(
            workload["apiVersion"], kind, metadata["name"], metadata["namespace"], metadata["uid"]
        )
        self._events.record(reference, "Warning", "FailedCreate", text)

    def _reconciled(self, kind: str, workload: Json) -> list[Effect]:
        now = stamp(machine.epoch())
        namespace = workload["metadata"]["namespace"]

        def objects(of: Kind[Json]) -> list[Json]:
            prefix = f"{namespace}/"
            return [item for key, item in self._reflectors[of.kind].objects.items() if key.startswith(prefix)]

        match kind:
            case "ReplicaSet":
                return replica_set.reconcile(workload, objects(PODS))
            case "Deployment":
                return deployment.reconcile(workload, objects(REPLICA_SETS), now)
            case "StatefulSet":
                return stateful_set.reconcile(workload, objects(PODS))
            case _:
                return job.reconcile(workload, objects(PODS), now)

    async def _write(self, workload: Json, effect: Effect) -> None:
        """Carry out an effect; the watch must show its outcome before the workload is decided again."""
        metadata = workload["metadata"]
        namespace, unseen = metadata["namespace"], self._unseen.setdefault(metadata["uid"], {})
        try:
            match effect:
                case ObjectCreation(kind, body):
                    if kind == PODS.kind and names.JOB_NAME in (body["metadata"].get("labels") or {}):
                        raise Forbidden(403, message=f"label {names.JOB_NAME} is set by the controllers: remove it")
                    created = await self._client.create(_KINDS[kind], namespace, body)
                    if kind != VOLUME_CLAIMS.kind and not self._knows(kind, created):
                        unseen[created["metadata"]["uid"]] = machine.epoch()
                case ObjectDeletion(kind, body):
                    body_meta = body["metadata"]
                    unseen[f"-{body_meta['uid']}"] = machine.epoch()
                    await self._client.delete(_KINDS[kind], namespace, body_meta["name"], uid=body_meta["uid"])
                case Update(kind, body, patch):
                    await self._client.patch(_KINDS[kind], namespace, body["metadata"]["name"], patch)
                case SetStatus(status):
                    patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
                    await self._client.patch_status(_KINDS[workload["kind"]], namespace, metadata["name"], patch)
        except (AlreadyExists, NotFound, Conflict) as error:
            log.debug("workload has changed meanwhile", workload=metadata["name"], error=str(error))

    def _knows(self, kind: str, body: Json) -> bool:
        metadata = body["metadata"]
        current = self._reflectors[kind].objects.get(f"{metadata['namespace']}/{metadata['name']}")
        return current is not None and current["metadata"]["uid"] == metadata["uid"]


def _workload_pod(pod: Json) -> Json:
    """Return the identity of pods of other owners, which may be very many; pods of workloads whole."""
    owners = pod["metadata"].get("ownerReferences") or ()
    if any(owner.get("controller") and owner.get("kind") in _KINDS for owner in owners):
        return pod
    fields = ("name", "namespace", "uid", "resourceVersion")
    return {"metadata": {key: pod["metadata"][key] for key in fields}}
