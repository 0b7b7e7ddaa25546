"""Gangs of other APIs: a PodGroup of volcanopy for each PodGroup of another gang API, and the status of the latter.

The scheduler knows only volcanopy's PodGroups. One of a gang is owned by the PodGroup that it stands for and has a name with
its uid, as the PodGroup of a workload. The pods get its name in an annotation, as pods of workloads do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from volcanopy.api import names
from volcanopy.api.core import Condition, PodGroup
from volcanopy.api.gang_apis import GangApi, GangGroup, StatusForm
from volcanopy.api.model import Json
from volcanopy.api.times import format_time
from volcanopy.jobcontroller.job_podgroup import exact, written
from volcanopy.jobcontroller.observed import age
from volcanopy.jobcontroller.plan import DeletePodGroup, RecordEvent
from volcanopy.jobcontroller.workload_podgroups import (
    GroupEffect,
    Owner,
    WorkloadPod,
    effects_of,
    group_annotations,
    group_name,
    pod_group,
    usage_of,
)

_STARTED = frozenset({"Running", "Completed"})
_FINAL = frozenset({"Finished", "Failed"})


@dataclass(frozen=True)
class GangObserved:
    """What exists of a gang: its PodGroup in its API, that of volcanopy, and the pods that name the former.

    ``version`` is the served version of the API; ``queue_labels`` are labels of the PodGroup that name the queue.
    """

    api: GangApi
    version: str
    name: str
    gang: GangGroup | None = None
    group: PodGroup | None = None
    pods: tuple[WorkloadPod, ...] = ()
    queue_labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatchGangStatus:
    """Patch the status of the PodGroup of the other API; rejected if that has changed since it was read."""

    status: Json

    def __str__(self) -> str:
        return f"patch status {self.status}"


GangEffect = GroupEffect | PatchGangStatus


def reconcile_gang(seen: GangObserved, now: datetime) -> tuple[GangEffect, ...]:
    """What to do for one gang."""
    gang = seen.gang
    if gang is None:
        if not any(pod.lives and not pod.group for pod in seen.pods):
            return ()
        message = f'PodGroup "{seen.name}" of {seen.api.group} not found: the pods that name it wait for it'
        return (RecordEvent("Warning", "PodGroupNotFound", message),)
    name = group_name(gang.metadata.uid)
    pods = tuple(pod for pod in seen.pods if pod.group in {"", name})
    status = _STATUS[seen.api.status](seen, gang, pods, now)
    patches = () if status is None else (PatchGangStatus(status),)
    return (*_group_effects(seen, gang, pods), *patches)


def _group_effects(seen: GangObserved, gang: GangGroup, pods: Sequence[WorkloadPod]) -> tuple[GroupEffect, ...]:
    group = seen.group
    if gang.metadata.deletion_timestamp is not None or (
        group is not None and group.metadata.deletion_timestamp is not None
    ):
        return ()
    living = sorted((pod for pod in pods if pod.lives), key=lambda pod: age(pod.metadata))
    if not living:
        # A group without any pod would reserve its minimum for nothing.
        return (DeletePodGroup(group.metadata.name, group.metadata.uid),) if group is not None and not pods else ()
    events: list[RecordEvent] = []
    desired = gang_pod_group(seen, gang, living, events)
    return effects_of(desired, group, living, events)


def gang_pod_group(
    seen: GangObserved, gang: GangGroup, living: Sequence[WorkloadPod], events: list[RecordEvent]
) -> Json:
    """Return the manifest of volcanopy's PodGroup of a gang, whose pods are given from the oldest to the newest."""
    meta, spec = gang.metadata, gang.spec
    notes = {key: value for key, value in group_annotations(meta.annotations).items() if key != names.GROUP_MIN_MEMBER}
    desired = pod_group(living[-1], Owner(notes), events)
    needed = _needed(living, spec.pods_at_once) if spec.min_resources is None else exact(spec.min_resources)
    desired["metadata"] |= {
        "name": group_name(meta.uid),
        "ownerReferences": [
            {
                "apiVersion": f"{seen.api.group}/{seen.version}",
                "kind": "PodGroup",
                "name": meta.name,
                "uid": meta.uid,
                "controller": True,
            }
        ],
    }
    desired["spec"] |= {"minMember": spec.pods_at_once, "minResources": written(needed)}
    labelled = next((meta.labels[key] for key in seen.queue_labels if meta.labels.get(key)), "")
    if queue := spec.queue or notes.get(names.POD_QUEUE_NAME) or labelled:
        desired["spec"]["queue"] = queue
    if spec.priority_class_name:
        desired["spec"]["priorityClassName"] = spec.priority_class_name
    topology = () if spec.scheduling_constraints is None else spec.scheduling_constraints.topology
    if topology and topology[0].key:
        # HyperNodes that are discovered from labels of nodes have the label as the name of their tier.
        desired["spec"]["networkTopology"] = {"mode": "hard", "highestTierName": topology[0].key}
    return desired


def _needed(pods: Sequence[WorkloadPod], member: int) -> dict[str, int]:
    """Return the usage of the oldest pods, as many as start together; those that do not exist count as the newest."""
    total: dict[str, int] = {}
    usage: Mapping[str, int] = {}
    before: WorkloadPod | None = None
    for number in range(member):
        pod = pods[min(number, len(pods) - 1)]
        if before is None or before.spec != pod.spec:
            usage = usage_of(pod)
        before = pod
        for name, units in usage.items():
            total[name] = total.get(name, 0) + units
    return {name: units for name, units in total.items() if units}


# Status


def _no_status(_: GangObserved, __: GangGroup, ___: Sequence[WorkloadPod], ____: datetime) -> Json | None:
    return None


def _condition(seen: GangObserved, gang: GangGroup, _: Sequence[WorkloadPod], now: datetime) -> Json | None:
    """Return the patch of the condition of Kubernetes' scheduler: False until the gang is scheduled once, then True for ever."""
    outcome = _outcome(seen.group)
    if outcome is None:
        return None
    kind, (status, reason, message) = seen.api.condition_types[seen.version], outcome
    conditions: list[Json] = list(gang.status.get("conditions") or ())
    old = next((entry for entry in conditions if entry.get("type") == kind), {})
    same = old.get("status") == status
    if old.get("status") == "True" or (same and (old.get("reason"), old.get("message", "")) == (reason, message)):
        return None
    entry: Json = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": old["lastTransitionTime"] if same else format_time(now),
    }
    if gang.metadata.generation:
        entry["observedGeneration"] = gang.metadata.generation
    return {"conditions": [*(other for other in conditions if other.get("type") != kind), entry]}


def _outcome(group: PodGroup | None) -> tuple[str, str, str] | None:
    """Return status, reason and message of the condition; None while the scheduler has not decided."""
    if group is None:
        return None
    conditions: dict[str, Condition] = {
        entry.type: entry for entry in group.status.conditions if entry.status == "True"
    }
    if group.status.phase in _STARTED or "Scheduled" in conditions:
        return "True", "Scheduled", ""
    waiting = conditions.get("Unschedulable")
    return None if waiting is None else ("False", "Unschedulable", waiting.message)


def _phase(_: GangObserved, gang: GangGroup, pods: Sequence[WorkloadPod], now: datetime) -> Json | None:
    """Return the patch of phase and numbers as the controller of scheduler-plugins sets them; a final phase stays."""
    before = gang.status
    if before.get("phase") in _FINAL:
        return None
    counts = {phase: sum(pod.status.phase == phase for pod in pods) for phase in ("Running", "Succeeded", "Failed")}
    started, member = counts["Running"] + counts["Succeeded"], gang.spec.pods_at_once
    if counts["Succeeded"] >= member:
        phase = "Finished"
    elif counts["Failed"] and started + counts["Failed"] >= member:
        phase = "Failed"
    elif len(pods) < member:
        phase = "Pending"
    else:
        phase = "Running" if started >= member else "Scheduling"
    expected: dict[str, Any] = {"phase": phase} | {name.lower(): count for name, count in counts.items()}
    if phase != "Pending":
        expected["scheduleStartTime"] = before.get("scheduleStartTime") or format_time(now)
        expected["occupiedBy"] = before.get("occupiedBy") or _owners(pods[0])
    patch = {key: value for key, value in expected.items() if before.get(key, _ABSENT.get(key, "")) != value}
    return patch or None


_ABSENT: Mapping[str, Any] = {"running": 0, "succeeded": 0, "failed": 0}


def _owners(pod: WorkloadPod) -> str:
    meta = pod.metadata
    return ",".join(sorted(f"{meta.namespace}/{owner.name}" for owner in meta.owner_references))


_STATUS: Mapping[StatusForm, Callable[[GangObserved, GangGroup, Sequence[WorkloadPod], datetime], Json | None]] = {
    StatusForm.CONDITION: _condition,
    StatusForm.PHASE: _phase,
    StatusForm.NONE: _no_status,
}
