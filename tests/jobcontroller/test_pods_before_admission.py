"""Pods of small jobs are created together with the PodGroup, and only while few jobs of the queue wait for admission."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.jobcontroller.world import START, World, job, task
from volcanopy.api import names
from volcanopy.api.core import PodGroup
from volcanopy.jobcontroller.admission_backlog import (
    MOST_PODS_OF_A_GANG,
    MOST_PODS_OF_A_JOB,
    MOST_PODS_OF_A_QUEUE,
    AdmissionBacklog,
)
from volcanopy.jobcontroller.observed import Observed
from volcanopy.jobcontroller.plan import CreatePod, CreatePodGroup, JobPlan
from volcanopy.jobcontroller.reconcile import reconcile


class SmallJobs(World):
    """A world in which the controller may create pods before the admission."""

    def observed(self) -> Observed:
        return replace(super().observed(), pods_before_admission=True)


def created(plan: JobPlan) -> list[str]:
    return [str(effect) for effect in plan.effects if isinstance(effect, CreatePod | CreatePodGroup)]


def test_the_pods_of_a_small_job_are_created_before_its_pod_group_which_notes_it() -> None:
    world = SmallJobs(job(task("a", 2)))
    assert created(world.step()) == ["create pod job-a-0", "create pod job-a-1", "create podgroup job-u1"]
    assert world.pod_group is not None
    assert world.pod_group["metadata"]["annotations"][names.PODS_CREATED] == "true"
    assert created(world.settle().admit().settle().plan()) == []
    assert world.run().settle().phase == "Running"


def test_a_crash_after_any_effect_creates_no_pod_twice_and_loses_none() -> None:
    effects = len(SmallJobs(job(task("a", 3))).plan().effects)
    for number in range(effects + 1):
        world = SmallJobs(job(task("a", 3)))
        world.step(crash_after=number)
        world.settle().admit().settle()
        assert sorted(world.created) == ["job-a-0", "job-a-1", "job-a-2"]


def test_a_job_with_pods_that_is_not_admitted_waits_for_admission() -> None:
    world = SmallJobs(job(task("a", 2))).settle()
    assert world.status["state"]["reason"] == "NotAdmitted"
    assert world.message == 'waiting for admission to queue "default"'


def test_tasks_that_wait_for_others_get_no_pods_before_these_run() -> None:
    world = SmallJobs(job(task("a"), task("b", dependsOn={"name": ["a"]})))
    assert created(world.step()) == ["create pod job-a-0", "create podgroup job-u1"]


@pytest.mark.parametrize(
    "change",
    [
        {"alternatives": [{"name": "x", "tasks": [{"name": "a", "replicas": 1}]}, {"name": "y"}]},
        {"suspend": True},
    ],
)
def test_a_job_whose_pods_are_not_decided_yet_gets_none(change: dict[str, Any]) -> None:
    world = SmallJobs(job(task("a", 2), **change))
    world.settle()
    assert world.created == []


def test_pods_that_the_server_rejects_are_created_again_after_the_admission() -> None:
    world = SmallJobs(job(task("a")))
    plan = world.plan()
    assert [effect.admitted for effect in plan.effects if isinstance(effect, CreatePod)] == [False]
    for effect in plan.effects:
        if not isinstance(effect, CreatePod):
            world._apply(effect)
    assert created(world.plan()) == []
    (pod,) = [effect for effect in world.admit().plan().effects if isinstance(effect, CreatePod)]
    assert pod.admitted


def test_after_a_rejection_the_pod_group_comes_first() -> None:
    world = SmallJobs(job(task("a")))
    plan = reconcile(world.read(), replace(world.observed(), trouble="exceeded quota"), START)
    assert created(plan) == ["create podgroup job-u1"]


def group(uid: str, phase: str = "", pods: int = 1, *, queue: str = "q", unschedulable: bool = False) -> PodGroup:
    conditions = [{"type": "Unschedulable", "status": "True"}] if unschedulable else []
    return msgspec.convert(
        {
            "metadata": {"name": uid, "namespace": "ns", "uid": uid},
            "spec": {"minMember": pods, "queue": queue},
            "status": {"phase": phase, "conditions": conditions},
        },
        PodGroup,
    )


def test_a_queue_in_which_few_pods_wait_permits_pods_of_small_jobs() -> None:
    backlog = AdmissionBacklog()
    assert backlog.permits("q", MOST_PODS_OF_A_GANG, MOST_PODS_OF_A_GANG)
    assert not backlog.permits("q", MOST_PODS_OF_A_GANG + 1, MOST_PODS_OF_A_GANG + 1)
    assert backlog.permits("q", MOST_PODS_OF_A_JOB, 1)
    assert not backlog.permits("q", MOST_PODS_OF_A_JOB + 1, 1)
    backlog.update(group("large", pods=MOST_PODS_OF_A_QUEUE - 5))
    assert backlog.permits("q", 5, 5)
    assert not backlog.permits("q", 6, 6)
    assert backlog.permits("other", 6, 6)
    backlog.update(group("large", "Inqueue", pods=MOST_PODS_OF_A_QUEUE - 5))
    assert backlog.permits("q", 6, 6)


def test_a_queue_that_has_rejected_a_job_permits_none_until_that_is_admitted_or_deleted() -> None:
    backlog = AdmissionBacklog()
    for end in ("admitted", "deleted"):
        backlog.update(group("a", "Pending", unschedulable=True))
        backlog.update(group("b"))
        assert not backlog.permits("q", 1, 1)
        if end == "admitted":
            backlog.update(group("a", "Running"))
        else:
            backlog.remove(group("a"))
        assert backlog.permits("q", 1, 1)


def test_a_pod_group_that_moves_counts_in_its_new_queue_only() -> None:
    backlog = AdmissionBacklog()
    backlog.update(group("a", "Pending", unschedulable=True))
    backlog.update(group("a", "Pending", queue="r", unschedulable=True))
    assert backlog.permits("q", 1, 1)
    assert not backlog.permits("r", 1, 1)
