"""A queue on hold and one that is drained, as users meet them."""

import pytest

from tests.e2e.test_user_limits import explanation, queue
from tests.e2e.world import POD_GROUPS, PODS, QUEUES, World, batch_job
from volcanopy.client.manifests import CreateError


async def test_what_is_drained_waits_again_and_has_not_failed(cluster: World) -> None:
    name = f"stopped-{cluster.namespace}"
    await cluster.create(queue(name), batch_job("long", 2, "1", duration="forever", queue=name))
    await cluster.job("long", "Running")
    (first, second) = await cluster.all_of(PODS, lambda pods: len(pods) == 2)
    old = {first["metadata"]["uid"], second["metadata"]["uid"]}
    await cluster.client.patch(QUEUES, None, name, {"spec": {"stopPolicy": "HoldAndDrain"}})
    await cluster.all_of(  # they may be made anew at once, or when the job is admitted again
        PODS,
        lambda pods: all(pod["metadata"]["uid"] not in old and not pod["spec"].get("nodeName") for pod in pods),
    )
    message = f'queue "{name}" is drained: stopPolicy HoldAndDrain'
    groups = await cluster.all_of(
        POD_GROUPS, lambda pod_groups: explanation(pod_groups, "long").get("message") == message
    )
    assert explanation(groups, "long")["gate"] == "queue"
    status = (await cluster.job("long", "Running", "Pending"))["status"]
    assert not status.get("retryCount")
    assert not status.get("failed")
    await cluster.client.patch(QUEUES, None, name, {"spec": {"stopPolicy": "None"}})
    await cluster.all_of(PODS, lambda pods: [pod["status"].get("phase") for pod in pods] == ["Running"] * 2)
    assert not (await cluster.job("long", "Running"))["status"].get("retryCount")


async def test_a_job_in_a_queue_on_hold_starts_when_it_is_resumed(cluster: World) -> None:
    name = f"stopped-{cluster.namespace}"
    await cluster.create(queue(name, stopPolicy="Hold"), batch_job("late", 1, "1", queue=name))
    message = f'queue "{name}" is held: stopPolicy Hold'
    await cluster.all_of(POD_GROUPS, lambda pod_groups: explanation(pod_groups, "late").get("message") == message)
    await cluster.client.patch(QUEUES, None, name, {"spec": {"stopPolicy": "None"}})
    await cluster.job("late", "Completed")


async def test_the_root_queue_cannot_be_held(cluster: World) -> None:
    with pytest.raises(CreateError, match="the root queue must not be stopped"):
        await cluster.create(queue("root", stopPolicy="Hold"))
