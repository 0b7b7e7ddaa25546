"""The writes of volcanopy for gangs, by a client that decides nothing: what they cost the API server by themselves.

For each job: the job, its PodGroup, that it is admitted, its pods, their nodes, that it runs, the status of the job, an Event. The bodies
are those of the job controller; they are made before the measure begins. There are no webhooks, and no watch but one of the pods.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from volcanopy.api import core
from volcanopy.api.batch import BatchJob
from volcanopy.jobcontroller.observed import Observed
from volcanopy.jobcontroller.plan import CreatePod, CreatePodGroup, Effect, UpdateStatus
from volcanopy.jobcontroller.reconcile import reconcile
from volcanopy.whatif import kinds

Json = dict[str, Any]
E = TypeVar("E")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = "2026-01-01T00:00:00Z"
GANG_READY = {
    "type": "Scheduled",
    "status": "True",
    "reason": "GangReady",
    "message": "gang is ready: the required pods have nodes",
    "lastTransitionTime": SECOND,
    "transitionID": "00000000-1",
}


@dataclass(frozen=True)
class JobWrites:
    """The bodies of one job. Its pods are numbered in all jobs, as those of the bare client."""

    job: Json
    group: Json
    pods: Sequence[Json]
    status: Json

    @property
    def name(self) -> str:
        """Return the name of the job."""
        return str(self.job["metadata"]["name"])

    @property
    def event(self) -> Json:
        """Return the Event of the PodGroup that has got its nodes."""
        group, metadata = self.group, self.group["metadata"]
        involved = {"apiVersion": group["apiVersion"], "kind": group["kind"], "name": metadata["name"]}
        return {
            "metadata": {"name": f"{metadata['name']}.1", "namespace": metadata["namespace"]},
            "involvedObject": involved
            | {"namespace": metadata["namespace"], "uid": "00000000-0000-0000-0000-000000000000"},
            "type": "Normal",
            "reason": "Scheduled",
            "message": "pod group is ready",
            "source": {"component": "volcanopy-scheduler"},
            "firstTimestamp": SECOND,
            "lastTimestamp": SECOND,
            "count": 1,
        }


def writes(job: Json, uid: str) -> JobWrites:
    """Return what the job controller writes for a job until all its pods are bound."""
    read = BatchJob.read(job | {"metadata": job["metadata"] | {"uid": uid}})
    (created,) = _of(reconcile(read, Observed(), NOW).effects, CreatePodGroup)
    admitted = _group(created.manifest, {"phase": "Inqueue"})
    pods = [each.manifest for each in _of(reconcile(read, Observed(pod_group=admitted), NOW).effects, CreatePod)]
    seen = tuple(kinds.read(_with_uid(pod, str(number)), kinds.BY_NAME["Pod"]) for number, pod in enumerate(pods))
    running = Observed(pods=seen, pod_group=_group(created.manifest, {"phase": "Running", "conditions": [GANG_READY]}))
    (status,) = _of(reconcile(read, running, NOW).effects, UpdateStatus)
    return JobWrites(job, created.manifest, pods, status.status)


def _of(effects: Iterable[Effect], kind: type[E]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def _group(manifest: Json, status: Json) -> core.PodGroup:
    group: core.PodGroup = kinds.read(_with_uid(manifest, "group") | {"status": status}, kinds.BY_NAME["PodGroup"])
    return group


def _with_uid(manifest: Json, uid: str) -> Json:
    return manifest | {"metadata": manifest["metadata"] | {"uid": uid}}
