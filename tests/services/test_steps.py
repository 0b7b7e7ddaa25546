"""A plan is carried out in steps that grow while the server is fast, and work on one job does not delay that on another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.service_cluster import Cluster, controller, task
from volcanopy.api.names import PODS_CREATED
from volcanopy.jobcontroller.plan import CreatePod, DeletePod, JobPlan
from volcanopy.kube.cache.followed_kinds import POD_GROUPS
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.request_counts import RequestKey
from volcanopy.services.controllers.steps import FIRST_WRITES, MOST_WRITES, Steps

QUOTAS: Kind[Json] = Kind("", "v1", "ResourceQuota", "resourcequotas", True, dict)


def creations(count: int) -> JobPlan:
    """A plan that creates so many pods."""
    return JobPlan(tuple(CreatePod(f"p{number}", dict) for number in range(count)))


def test_steps_double_while_they_are_fast_and_are_halved_when_they_are_slow() -> None:
    steps, sizes = Steps(), []
    step = steps.begin("a", creations(10_000))
    for seconds in (0.1, 0.1, 0.1, 0.1, 0.1, 5.0, 5.0, 0.1):
        sizes.append(len(step.effects))
        steps.done("a", seconds)
        step = steps.next("a", 0.0) or JobPlan()
    assert sizes == [FIRST_WRITES, 96, 192, 384, MOST_WRITES, MOST_WRITES, 250, 125]


@given(seconds=st.lists(st.floats(0, 10), min_size=30, max_size=30), count=st.integers(0, 2_000))
def test_every_step_has_at_least_one_write_and_never_more_than_the_limit(seconds: list[float], count: int) -> None:
    steps, names = Steps(), []
    step: JobPlan | None = steps.begin("a", creations(count))
    for took in seconds * 100:
        assert step is not None
        assert len(step.effects) <= MOST_WRITES
        names += [str(effect) for effect in step.effects]
        steps.done("a", took)
        if (step := steps.next("a", 0.0)) is None:
            break
    assert names == [str(effect) for effect in creations(count).effects]
    assert not steps.remain("a")


def test_a_change_replaces_what_remains_of_a_plan_from_its_time_on() -> None:
    steps = Steps()
    steps.begin("a", creations(1_000))
    steps.changed("a", at=7.0)
    assert steps.next("a", 6.9) is not None
    assert steps.next("a", 7.0) is None
    steps.begin("a", creations(1_000))
    assert steps.next("a", 7.0) is not None


def test_an_error_of_one_pod_is_raised_after_the_others_and_before_effects_of_another_kind() -> None:
    steps = Steps()
    pods = creations(FIRST_WRITES * 2).effects
    steps.begin("a", JobPlan((*pods, DeletePod("q", "u"))))
    steps.done("a", 0.1, NotFound(404, "NotFound", "gone"))
    assert steps.next("a", 0.0) == JobPlan(pods[FIRST_WRITES:])
    with pytest.raises(NotFound):
        steps.done("a", 0.1)
    assert steps.next("a", 0.0) is None


def test_after_an_error_that_concerns_all_writes_a_single_one_is_tried() -> None:
    steps = Steps()
    steps.begin("a", creations(1_000))
    steps.stop("a", probe=True)
    assert steps.next("a", 0.0) is None
    assert len(steps.begin("a", creations(1_000)).effects) == 1


async def admit(cluster: Cluster, job: str) -> None:
    """Admit the PodGroup of a job, as the scheduler does."""
    name = (await cluster.group(job))["metadata"]["name"]
    await cluster.client.patch_status(POD_GROUPS.raw, cluster.namespace, name, {"status": {"phase": "Inqueue"}})


async def test_a_used_up_quota_stops_the_creation_of_pods(cluster: Cluster) -> None:
    cluster.plays = False
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}}
    await cluster.client.create(QUOTAS, cluster.namespace, quota)
    await cluster.all_of(QUOTAS, lambda quotas: bool(quotas[0].get("status", {}).get("hard")))
    async with controller(cluster):
        await cluster.submit("large", task(replicas=1_000), minAvailable=1_000)
        await admit(cluster, "large")
        await cluster.until(lambda: "exceeded quota" in cluster.message("large"))
        assert len(cluster.pods) == 3
    assert cluster.connection.request_counts.counts[RequestKey("POST", "pods")] < 60


async def test_a_pod_group_does_not_state_that_pods_exist_which_a_quota_rejected(cluster: Cluster) -> None:
    cluster.plays = False
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    await cluster.client.create(QUOTAS, cluster.namespace, quota)
    await cluster.all_of(QUOTAS, lambda quotas: bool(quotas[0].get("status", {}).get("hard")))
    async with controller(cluster):
        await cluster.submit("two", task(replicas=2), minAvailable=2)
        assert PODS_CREATED not in (await cluster.group("two"))["metadata"]["annotations"]
        await admit(cluster, "two")
        await cluster.until(lambda: "exceeded quota" in cluster.message("two"))
        assert len(cluster.pods) == 1


async def test_a_job_of_one_pod_does_not_wait_for_the_pods_of_a_large_job(cluster: Cluster) -> None:
    cluster.plays = False
    async with controller(cluster):
        await cluster.submit("large", task(replicas=3_000), minAvailable=3_000)
        await admit(cluster, "large")
        await cluster.until(lambda: len(cluster.pods) > 100)
        await cluster.submit("small")
        await admit(cluster, "small")
        await cluster.until(lambda: "small-a-0" in cluster.pods)
        assert len(cluster.pods) < 2_500
