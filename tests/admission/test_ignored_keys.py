"""Pods with names of one API and the scheduler of another: they would run alone, in the default queue, or not at all."""

from collections.abc import Iterator
from typing import Any

import pytest

from volcanopy.admission.context import AdmissionPolicy, Context
from volcanopy.admission.review import validate


def warnings(scheduler: str, annotations: dict[str, str], served: list[str]) -> list[str]:
    """Return the warnings about a pod that is created."""
    spec = {"schedulerName": scheduler, "containers": [{"name": "a", "image": "b"}]}
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "team",
        "name": "x",
        "userInfo": {"username": "ana", "groups": ["system:authenticated"]},
        "object": {"metadata": {"name": "x", "namespace": "team", "annotations": annotations}, "spec": spec},
    }
    policy = AdmissionPolicy.read({"schedulerNames": served}, unknown="forbid")
    response: dict[str, Any] = validate({"request": request}, Context(policy=policy))["response"]
    return [text for text in response.get("warnings", ()) if "no effect" in text]


@pytest.mark.parametrize("name", ["group-name", "queue-name"])
def test_a_key_of_volcano_has_no_effect_with_our_scheduler(name: str) -> None:
    key = f"scheduling.volcano.sh/{name}"
    cause = f'metadata.annotations[{key}]: no effect with schedulerName "volcanopy": use scheduling.volcanopy.io/{name}'
    assert warnings("volcanopy", {key: "g"}, ["volcanopy"]) == [cause]
    assert warnings("volcanopy", {key: "g"}, ["volcanopy", "volcano"]) == [f'{cause}, or schedulerName "volcano"']


@pytest.mark.parametrize(
    ("scheduler", "key"),
    [
        ("volcano", "scheduling.volcano.sh/queue-name"),
        ("volcanopy", "scheduling.volcanopy.io/queue-name"),
        ("volcanopy", "example.com/queue-name"),
    ],
)
def test_other_keys_have_no_such_warning(scheduler: str, key: str) -> None:
    assert warnings(scheduler, {key: "default"}, ["volcanopy", "volcano"]) == []


def rejections(kind: str, api: str, scheduler: str, *, of_template: bool) -> Iterator[str]:
    """Return what the rejection of a new job says of its scheduler."""
    pod: dict[str, Any] = {"containers": [{"name": "a", "image": "b"}]}
    job: dict[str, Any] = {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": pod}}]}
    (pod if of_template else job)["schedulerName"] = scheduler
    version = f"{'flow' if kind == 'JobTemplate' else 'batch'}.{api}/v1alpha1"
    cron = {"schedule": "@daily", "jobTemplate": {"spec": job}}
    group, _, number = version.partition("/")
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": group, "version": number, "kind": kind},
        "namespace": "team",
        "name": "x",
        "userInfo": {"username": "ana", "groups": ["system:authenticated"]},
        "object": {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "x", "namespace": "team"},
            "spec": cron if "Cron" in kind else job,
        },
    }
    policy = AdmissionPolicy.read({"schedulerNames": ["volcanopy", "volcano"]}, unknown="forbid")
    response = validate({"request": request}, Context(policy=policy))["response"]
    message = response.get("status", {}).get("message", "")
    return (part for part in message.split("; ") if "schedulerName" in part)


@pytest.mark.parametrize("of_template", [True, False])
@pytest.mark.parametrize(
    ("kind", "api", "scheduler", "own"),
    [
        ("Job", "volcano.sh", "volcanopy", "volcano"),
        ("BatchJob", "volcanopy.io", "volcano", "volcanopy"),
        ("CronJob", "volcano.sh", "volcanopy", "volcano"),
        ("JobTemplate", "volcanopy.io", "volcano", "volcanopy"),
    ],
)
def test_a_job_has_the_scheduler_of_its_api(
    kind: str, api: str, scheduler: str, own: str, *, of_template: bool
) -> None:
    (rejection,) = rejections(kind, api, scheduler, of_template=of_template)
    path = "tasks[0].template.spec.schedulerName" if of_template else "schedulerName"
    detail = f'"{scheduler}": schedules the pods of another API: use "{own}" or leave it out'
    assert rejection.endswith(f"spec.{path}: Invalid value: {detail}")
    assert not list(rejections(kind, api, own, of_template=of_template))
    assert not list(rejections(kind, api, "default-scheduler", of_template=of_template))
