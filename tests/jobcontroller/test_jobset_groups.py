"""A JobSet with the annotation is one gang: its PodGroup, and the Jobs that join it."""

from typing import Any

import msgspec
import pytest

from tests.jobcontroller.test_groups import existing, made, pod
from volcanopy.api import names
from volcanopy.api.core import Meta, OwnerReference
from volcanopy.api.model import Json
from volcanopy.jobcontroller.jobset_podgroups import UID_LABEL, JobSet, JobSetGang, gang_of_job_set
from volcanopy.jobcontroller.plan import RecordEvent
from volcanopy.jobcontroller.workload_podgroups import GroupObserved, Owner, is_ours, reconcile_group

REFERENCE = OwnerReference(
    api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name="train", uid="js-uid", controller=True
)
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-workers-0", "uid": "job-uid", "controller": True}


def replicated(name: str, replicas: int, cpu: str, **spec: Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"annotations": spec.pop("notes", {})}, "spec": {"containers": [container]}}
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": template, **spec}}}


DRIVER = replicated("driver", 1, "500m")
WORKERS = replicated("workers", 2, "2", parallelism=4, completions=3, notes={names.POD_QUEUE_NAME: "research"})


def gang(size: str = "all", *jobs: Json, notes: Json | None = None, **spec: Any) -> JobSetGang:
    """The gang of a JobSet with this annotation."""
    raw = {
        "metadata": {"name": "train", "namespace": "ns"},
        "spec": {"replicatedJobs": list(jobs or (DRIVER, WORKERS)), **spec},
    }
    found = gang_of_job_set(msgspec.convert(raw, JobSet), REFERENCE, {names.GROUP_MIN_MEMBER: size, **(notes or {})})
    assert found is not None
    return found


def test_the_group_has_the_pods_of_all_jobs_and_their_requests() -> None:
    """One driver, and two Jobs of three workers at once."""
    spec = gang().manifest["spec"]
    assert (spec["minMember"], spec["minResources"]["cpu"], spec["minResources"]["pods"]) == (7, "12500m", "7")
    assert spec["queue"] == "research", "that of the first pod template that names one"


def test_a_smaller_number_counts_the_first_pods() -> None:
    spec = gang("3").manifest["spec"]
    assert (spec["minMember"], spec["minResources"]["cpu"]) == (3, "4500m")


def test_the_queue_of_the_job_set_takes_precedence() -> None:
    assert gang(notes={names.POD_QUEUE_NAME: "urgent"}).manifest["spec"]["queue"] == "urgent"


def test_a_job_set_without_the_annotation_is_no_gang() -> None:
    assert gang_of_job_set(JobSet(metadata=Meta(name="train")), REFERENCE, {}) is None


def test_the_first_job_creates_the_group_and_the_others_join_it() -> None:
    owner = Owner(gang=gang())
    first = reconcile_group(GroupObserved((pod("train-workers-0-a", owner=JOB),), owner))
    assert list(map(str, first)) == ["create podgroup podgroup-js-uid", "pod train-workers-0-a joins podgroup-js-uid"]
    manifest = made(first)
    assert manifest["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": "train",
            "uid": "js-uid",
            "controller": True,
        }
    ]
    other = pod("train-driver-0-a", owner=JOB | {"uid": "driver-uid"}, cpu="9", priority="high")
    second = reconcile_group(GroupObserved((other,), owner, existing(manifest)))
    assert list(map(str, second)) == ["pod train-driver-0-a joins podgroup-js-uid"], "the pods of a Job change nothing"


def test_a_resized_job_set_resizes_its_group() -> None:
    before = existing(made(reconcile_group(GroupObserved((pod(owner=JOB),), Owner(gang=gang())))))
    effects = reconcile_group(GroupObserved((pod(owner=JOB),), Owner(gang=gang("all", DRIVER)), before))
    assert str(effects[0]) == "update podgroup podgroup-js-uid: minMember, minResources"


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (gang("none"), 'Invalid value: "none": must be a positive integer, or "all"'),
        (gang("0"), 'Invalid value: "0"'),
        (gang("8"), "8 exceeds the pods that its Jobs run at once: 7"),
        (gang(startupPolicy={"startupPolicyOrder": "InOrder"}), "the gang would wait for ever"),
        (gang("all", DRIVER | {"dependsOn": [{"name": "workers", "status": "Ready"}]}, WORKERS), "dependsOn"),
    ],
)
def test_a_gang_that_is_not_possible_is_reported_and_each_job_has_its_own_group(
    problem: JobSetGang, message: str
) -> None:
    effects = reconcile_group(GroupObserved((pod("a", owner=JOB),), Owner(gang=problem)))
    assert message in next(effect.message for effect in effects if isinstance(effect, RecordEvent))
    assert made(effects)["metadata"]["name"] == "podgroup-job-uid"


def test_a_deleted_group_is_created_again_while_its_pods_exist() -> None:
    member = pod("a", owner=JOB, notes={names.GROUP_NAME: "podgroup-js-uid"}, labels={UID_LABEL: "js-uid"})
    assert is_ours(member)
    again = reconcile_group(GroupObserved((member,), Owner(gang=gang())))
    assert list(map(str, again)) == ["create podgroup podgroup-js-uid"]
    assert reconcile_group(GroupObserved((member,), Owner())) == (), "the JobSet is no gang any more"
