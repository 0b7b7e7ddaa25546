"""Jobs that run under Volcano's controller are taken over as they are: no pod is created, deleted or restarted."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from volcanopy.api.batch import BatchJob
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.core import Pod, PodGroup
from volcanopy.api.translation import read_with_own_names, with_own_names
from volcanopy.jobcontroller.observed import Observed
from volcanopy.jobcontroller.plan import (
    CreatePod,
    CreatePodGroup,
    DeletePod,
    DeletePodGroup,
    JobPlan,
    RecordEvent,
    UpdateStatus,
)
from volcanopy.jobcontroller.reconcile import reconcile

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}


def job(version: int, replicas: int = 3) -> Json:
    """A running job as Volcano's controller has written it."""
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
    task = {"name": "worker", "replicas": replicas, "minAvailable": replicas, "maxRetry": 3, "template": template}
    transitions = ["Pending", "Running", *(["Restarting", "Pending", "Running"] * version)]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": "u1", "resourceVersion": "5"},
        "spec": {
            "minAvailable": replicas,
            "maxRetry": 3,
            "queue": "default",
            "schedulerName": "volcano",
            "plugins": {"env": [], "svc": []},
            "tasks": [task],
        },
        "status": {
            "state": {"phase": "Running", "lastTransitionTime": "2026-01-01T00:01:00Z"},
            "conditions": [{"status": phase, "lastTransitionTime": "2026-01-01T00:01:00Z"} for phase in transitions],
            "minAvailable": replicas,
            "running": replicas,
            "version": version,
            "retryCount": version,
            "taskStatusCount": {"worker": {"phase": {"Running": replicas}}},
            "controlledResources": {"plugin-env": "env", "plugin-svc": "svc"},
        },
    }


def pod(index: int, version: int) -> Pod:
    """A running pod as Volcano's controller has created it."""
    keys = {"task-spec": "worker", "task-index": str(index), "job-name": "train", "queue-name": "default"}
    labels = {f"volcano.sh/{key}": value for key, value in keys.items()} | {"volcano.sh/job-namespace": "default"}
    notes = {f"volcano.sh/{key}": value for key, value in keys.items()} | {
        "volcano.sh/job-version": str(version),
        "volcano.sh/template-uid": "train-worker",
        "scheduling.k8s.io/group-name": "train-u1",
    }
    metadata = {"name": f"train-worker-{index}", "namespace": "default", "uid": f"p{index}", "resourceVersion": "6"}
    body = {
        "metadata": metadata | {"labels": labels, "annotations": notes, "ownerReferences": [OWNER]},
        "spec": {"nodeName": "n1", "schedulerName": "volcano"},
        "status": {"phase": "Running"},
    }
    return read_with_own_names(msgspec.convert(body, Pod), (VOLCANO,), only=True)


def pod_group() -> PodGroup:
    """The PodGroup of the job as Volcano's controller has created it, which notes no version."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": {"name": "train-u1", "namespace": "default", "uid": "g1", "ownerReferences": [OWNER]},
        "spec": {"minMember": 3, "minTaskMember": {"worker": 3}, "queue": "default"},
        "status": {"phase": "Running", "running": 3},
    }
    return read_with_own_names(msgspec.convert(body, PodGroup), (VOLCANO,), only=True)


def taken_over(version: int) -> JobPlan:
    """The first plan for the job, and the next one with the status that the first one writes."""
    observed = Observed(pods=tuple(pod(index, version) for index in range(3)), pod_group=pod_group())
    return reconcile(BatchJob.read(with_own_names(job(version), VOLCANO)), observed, NOW)


@pytest.mark.parametrize("version", [0, 2])
def test_no_pod_and_no_pod_group_is_touched(version: int) -> None:
    plan = taken_over(version)
    touching = (CreatePod, DeletePod, CreatePodGroup, DeletePodGroup)
    assert [effect for effect in plan.effects if isinstance(effect, touching)] == []


@pytest.mark.parametrize("version", [0, 2])
def test_the_job_stays_in_its_phase(version: int) -> None:
    for effect in taken_over(version).effects:
        if isinstance(effect, UpdateStatus):
            status = effect.status
            assert status["state"]["phase"] == "Running"
            assert (status.get("version", 0), status["retryCount"], status["running"]) == (version, version, 3)
            assert status["conditions"][-1]["status"] == "Running"


def test_an_action_is_announced_with_the_event_of_volcano() -> None:
    failing = job(0)
    failing["spec"]["policies"] = [{"event": "PodFailed", "action": "TerminateJob"}]
    failed = msgspec.convert({"phase": "Failed"}, type(pod(0, 0).status))
    pods = (msgspec.structs.replace(pod(0, 0), status=failed), pod(1, 0), pod(2, 0))
    plan = reconcile(BatchJob.read(with_own_names(failing, VOLCANO)), Observed(pods=pods, pod_group=pod_group()), NOW)
    messages = [
        effect.message
        for effect in plan.effects
        if isinstance(effect, RecordEvent) and effect.reason == "ExecuteAction"
    ]
    assert messages == ["Start to execute action TerminateJob"]
