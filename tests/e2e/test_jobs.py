"""Jobs from creation to deletion: failure, restart, deletion and rejected manifests."""

import pytest

from tests.e2e.world import JOBS, POD_GROUPS, PODS, World, batch_job
from volcanopy.client.manifests import CreateError
from volcanopy.kube.client.kinds import Json

RESTART = [{"event": "PodFailed", "action": "RestartJob"}]


async def test_a_job_with_failed_pods_fails(cluster: World) -> None:
    await cluster.create(batch_job("broken", 2, "1", duration="100ms", exit_code="3"))
    job = await cluster.job("broken", "Failed")
    assert job["status"]["failed"] == 2


async def test_a_job_is_restarted_by_its_policy_until_max_retry(cluster: World) -> None:
    await cluster.create(batch_job("stubborn", 1, "1", duration="100ms", exit_code="1", policies=RESTART, maxRetry=2))
    job = await cluster.job("stubborn", "Failed")
    assert job["status"]["retryCount"] >= 1


async def test_a_restarted_container_can_succeed(cluster: World) -> None:
    body = batch_job("twice", 1, "1", duration="100ms", exit_code="1,0", restartPolicy="OnFailure")
    await cluster.create(body)
    await cluster.job("twice", "Completed")
    pods = (await cluster.client.list(PODS, cluster.namespace)).items
    assert [container_status["restartCount"] for container_status in pods[0]["status"]["containerStatuses"]] == [1]


async def test_deleting_a_job_deletes_its_pods_and_pod_group(cluster: World) -> None:
    await cluster.create(batch_job("doomed", 3, "1", duration="forever"))
    await cluster.job("doomed", "Running")
    await cluster.client.delete(JOBS, cluster.namespace, "doomed", propagation="Background")
    await cluster.all_of(PODS, lambda pods: not pods)
    await cluster.all_of(POD_GROUPS, lambda groups: not groups)


def _unknown_field(job: Json) -> None:
    job["spec"]["tasks"][0]["replica"] = 3


def _wrong_type(job: Json) -> None:
    job["spec"]["tasks"][0]["replicas"] = "three"


def _too_many(job: Json) -> None:
    job["spec"]["minAvailable"] = 5


def _same_name(job: Json) -> None:
    job["spec"]["tasks"] *= 2


def _no_queue(job: Json) -> None:
    job["spec"]["queue"] = "nowhere"


def _no_plugin(job: Json) -> None:
    job["spec"]["plugins"] = {"svcs": []}


def _circle(job: Json) -> None:
    first = job["spec"]["tasks"][0]
    job["spec"]["tasks"] = [
        {**first, "name": "a", "dependsOn": {"name": ["b"]}},
        {**first, "name": "b", "dependsOn": {"name": ["a"]}},
    ]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_unknown_field, ("spec.tasks[0].replica",)),
        (_wrong_type, ("spec.tasks[0].replicas", "integer")),
        (_too_many, ("spec", "must not be greater than the sum of task replicas")),
        (_same_name, ("spec.tasks[1]", "Duplicate value")),
        (_no_queue, ("spec.queue", "nowhere")),
        (_no_plugin, ("spec.plugins", "svcs", "svc")),
        (_circle, ("spec.tasks", "a", "b")),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else None,
)
async def test_an_invalid_manifest_is_rejected_with_field_and_rule(
    cluster: World, spoil: object, said: tuple[str, ...]
) -> None:
    body = batch_job("wrong", 2, "1")
    assert callable(spoil)
    spoil(body)
    with pytest.raises(CreateError) as refused:
        await cluster.create(body)
    for word in said:
        assert word in str(refused.value)
