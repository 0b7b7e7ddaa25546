"""A cluster with one job, without a server: plans are applied to dictionaries; a test acts as scheduler and nodes.

Like an API server it rejects a status written on an outdated version, and a name that exists. `crash_after` makes the
controller crash in the middle of a plan.
"""

import json
from collections import Counter
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from volcanopy.api.batch import BatchJob
from volcanopy.api.core import Pod, PodGroup
from volcanopy.api.lifecycle import Command
from volcanopy.jobcontroller.observed import Disruption, Observed, disruption
from volcanopy.jobcontroller.plan import (
    ApplyObject,
    CreatePod,
    CreatePodGroup,
    DeleteCommand,
    DeleteJob,
    DeleteObject,
    DeletePod,
    DeletePodGroup,
    Effect,
    JobPlan,
    RecordEvent,
    UpdatePodGroup,
    UpdateStatus,
)
from volcanopy.jobcontroller.reconcile import reconcile

START = datetime(2026, 1, 1, tzinfo=UTC)
Json = dict[str, Any]


def task(name: str = "a", replicas: int = 1, *, cpu: str = "1", **fields: Any) -> Json:
    """A task of a job's spec."""
    resources = {"requests": {"cpu": cpu}}
    containers = [{"name": "main", "image": "busybox", "resources": resources}]
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": containers}}, **fields}


def job(
    *tasks: Json, name: str = "job", annotations: Json | None = None, labels: Json | None = None, **spec: Any
) -> Json:
    """A BatchJob as an API server would hold it."""
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": "u1",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": START.isoformat(),
        "annotations": annotations or {},
        "labels": labels or {},
    }
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": metadata,
        "spec": {"tasks": list(tasks or (task(),)), **spec},
    }


class ConflictError(Exception):
    """The job has changed since the controller looked at it."""


class World:
    """One job and what exists of it."""

    def __init__(self, manifest: Json) -> None:
        self.now = START
        self.job: Json | None = deepcopy(manifest)
        self.pods: dict[str, Json] = {}
        self.pod_group: Json | None = None
        self.objects: dict[str, Json] = {}
        self.applied: dict[str, str] = {}
        self.commands: dict[str, Json] = {}
        self.events: list[RecordEvent] = []
        self.created: list[str] = []
        self.status_writes = 0
        self.grace = True
        self.removed: dict[str, Json] = {}
        """Pods that had succeeded before they were deleted, since the last reconcile."""
        self.trouble = ""
        """The last rejection of a write by the server."""
        self.learnt: timedelta | None = None
        """The run time learnt from earlier jobs of its name."""
        self.learnt_of_others: timedelta | None = None
        self.not_ready: dict[str, str] = {}
        """Why each node that is not ready is not."""
        self._uid = 100

    # What the controller sees and does.

    def read(self) -> BatchJob:
        """The job as the controller reads it."""
        assert self.job is not None
        return BatchJob.read(self.job)

    def observed(self) -> Observed:
        """What exists, as the controller sees it."""
        return Observed(
            pods=tuple(msgspec.convert(pod, Pod) for pod in self.pods.values()),
            pod_group=msgspec.convert(self.pod_group, PodGroup) if self.pod_group else None,
            commands=tuple(map(Command.read, self.commands.values())),
            applied=dict(self.applied),
            disruptions=self.disruptions(),
            trouble=self.trouble,
            learnt=self.learnt,
            learnt_of_others=self.learnt_of_others,
            removed=tuple(msgspec.convert(pod, Pod) for pod in self.removed.values()),
            not_ready=dict(self.not_ready),
        )

    def disruptions(self) -> tuple[Disruption, ...]:
        """The evictions of the pods that are there."""
        pods = [msgspec.convert(pod, Pod) for pod in self.pods.values()]
        evictions = Counter(eviction for pod in pods if (eviction := disruption(pod)) is not None)
        return tuple(Disruption(time, by, number) for (time, by), number in evictions.items())

    def plan(self) -> JobPlan:
        """What the controller would do now."""
        return reconcile(self.read(), self.observed(), self.now)

    def step(self, crash_after: int | None = None) -> JobPlan:
        """One reconcile, carried out; only its first effects if the controller dies after them."""
        if self.job is None:
            return JobPlan()
        looked_at = self.job["metadata"]["resourceVersion"]
        plan = self.plan()
        self.removed = {}
        for number, effect in enumerate(plan.effects):
            if crash_after is not None and number >= crash_after:
                self.applied = {}
                break
            if isinstance(effect, UpdateStatus):
                if self.job["metadata"]["resourceVersion"] != looked_at:
                    raise ConflictError
                looked_at = self._write_status(effect.status)
            else:
                self._apply(effect)
        return plan

    def settle(self, limit: int = 30) -> "World":
        """Reconcile until there is nothing to do. Pods on their way out go in between."""
        for _ in range(limit):
            plan = self.step()
            self.remove_terminated()
            if not [effect for effect in plan.effects if not isinstance(effect, RecordEvent)]:
                return self
        raise AssertionError(f"does not come to rest:\n{plan}")

    def _write_status(self, status: Json) -> str:
        assert self.job is not None
        json.dumps(status)
        self.job["status"] = deepcopy(status)
        self.status_writes += 1
        return self.touch()

    def touch(self) -> str:
        """The job gets a new resource version."""
        assert self.job is not None
        version = str(int(self.job["metadata"]["resourceVersion"]) + 1)
        self.job["metadata"]["resourceVersion"] = version
        return version

    def _new(self, manifest: Json) -> Json:
        self._uid += 1
        made = deepcopy(manifest)
        made["metadata"] |= {"uid": f"u{self._uid}", "creationTimestamp": self.now.isoformat()}
        return made

    def _apply(self, effect: Effect) -> None:
        match effect:
            case CreatePodGroup():
                if self.pod_group is None:
                    self.pod_group = self._new(effect.manifest) | {"status": {"phase": "Pending"}}
            case UpdatePodGroup():
                assert self.pod_group
                merge(self.pod_group, effect.patch)
            case DeletePodGroup():
                if self.pod_group and self.pod_group["metadata"]["uid"] == effect.uid:
                    self.pod_group = None
            case CreatePod():
                name = effect.manifest["metadata"]["name"]
                assert name not in self.pods, f"{name} is made twice"
                self.created.append(name)
                self.pods[name] = self._new(effect.manifest) | {"status": {"phase": "Pending"}}
            case DeletePod():
                if effect.name in self.pods and self.pods[effect.name]["metadata"]["uid"] == effect.uid:
                    self.delete(effect.name)
            case ApplyObject():
                merge(self.objects.setdefault(effect.key, {}), effect.manifest)
                self.applied[effect.key] = effect.digest
            case DeleteObject():
                self.objects.pop(effect.key, None)
                self.applied.pop(effect.key, None)
            case DeleteCommand():
                self.commands.pop(effect.name, None)
            case DeleteJob():
                self.job, self.pods, self.pod_group = None, {}, None
            case RecordEvent():
                self.events.append(effect)

    # What scheduler, nodes and people do.

    def admit(self, phase: str = "Inqueue") -> "World":
        """The scheduler admits the gang."""
        assert self.pod_group is not None
        self.pod_group["status"]["phase"] = phase
        return self

    def say_unschedulable(self, message: str) -> None:
        """The scheduler reports why the gang is unschedulable."""
        assert self.pod_group is not None
        condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message}
        self.pod_group["status"]["conditions"] = [condition | {"lastTransitionTime": self.now.isoformat()}]

    def set_phase(self, phase: str, *pods: str, exit_code: int = 0) -> "World":
        """Pods (all, if none is named) come to a phase."""
        for name in pods or tuple(self.pods):
            terminated = {"terminated": {"exitCode": exit_code}} if phase in {"Succeeded", "Failed"} else {}
            statuses = [{"name": "main", "ready": phase == "Running", "state": terminated}]
            self.pods[name]["status"] = {"phase": phase, "containerStatuses": statuses}
        return self

    def going(self) -> list[str]:
        """Pods that have not come to their end."""
        ended = {"Succeeded", "Failed"}
        return [name for name, pod in self.pods.items() if pod["status"]["phase"] not in ended]

    def run(self, *pods: str) -> "World":
        """Pods run."""
        return self.set_phase("Running", *pods)

    def succeed(self, *pods: str) -> "World":
        """Pods end well."""
        return self.set_phase("Succeeded", *pods)

    def fail(self, *pods: str, exit_code: int = 1) -> "World":
        """Pods fail."""
        return self.set_phase("Failed", *pods, exit_code=exit_code)

    def delete(self, name: str) -> "World":
        """A pod is deleted: with grace it stays until it is buried."""
        if self.pods[name]["status"]["phase"] == "Succeeded" and "deletionTimestamp" not in self.pods[name]["metadata"]:
            self.removed[name] = deepcopy(self.pods[name])
        if self.grace:
            self.pods[name]["metadata"]["deletionTimestamp"] = self.now.isoformat()
        else:
            del self.pods[name]
        return self

    def remove_terminated(self) -> None:
        """Pods on their way out are gone, but for those of nodes that are not ready."""
        self.pods = {
            name: pod
            for name, pod in self.pods.items()
            if "deletionTimestamp" not in pod["metadata"] or pod["spec"].get("nodeName") in self.not_ready
        }

    def command(self, action: str, name: str = "c1", uid: str = "u1") -> "World":
        """A person leaves a Command."""
        self.commands[name] = {
            "apiVersion": "bus.volcanopy.io/v1alpha1",
            "kind": "Command",
            "metadata": {"name": name, "namespace": "ns", "uid": f"cmd-{name}"},
            "action": action,
            "target": {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "name": "job", "uid": uid},
        }
        return self

    def edit(self, **spec: Any) -> "World":
        """A person changes the spec."""
        assert self.job is not None
        self.job["spec"] |= spec
        self.job["metadata"]["generation"] += 1
        self.touch()
        return self

    def wait(self, **duration: float) -> "World":
        """Time passes."""
        self.now += timedelta(**duration)
        return self

    # What a test asks about.

    @property
    def status(self) -> Json:
        """The job's status, with the version that is not written while it is 0."""
        assert self.job is not None
        status: Json = self.job["status"]
        return {"version": 0, **status}

    @property
    def phase(self) -> str:
        """The job's phase."""
        return str(self.status["state"]["phase"])

    @property
    def message(self) -> str:
        """Why the job is there."""
        return str(self.status["state"].get("message", ""))

    @property
    def retries(self) -> int:
        """The job's retry count."""
        return int(self.status["retryCount"])

    def started(self) -> "World":
        """The job is admitted, all of its pods run, and the controller has seen it."""
        self.settle().admit().settle().run().settle()
        return self

    def again(self) -> "World":
        """After a whole restart: admitted again, all pods run."""
        return self.settle().admit().settle().run().settle()


def merge(into: Json, patch: Json) -> None:
    """A merge patch."""
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = deepcopy(value)
