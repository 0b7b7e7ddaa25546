"""Limits of users in a queue, as users meet them: what is admitted, what waits and why, what is refused."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.e2e.world import JOBS, POD_GROUPS, QUEUES, World, batch_job
from tests.services.test_admission_rules import Acting
from volcanopy.client.manifests import CreateError, Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection


def queue(name: str, **spec: object) -> Json:
    return {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@contextlib.asynccontextmanager
async def user(cluster: World, name: str) -> AsyncIterator[Creator]:
    """Somebody who makes things in the test's namespace, whom RBAC lets do everything."""
    connection = load_connection(cluster.kubeconfig)
    whose = Acting(connection.credentials, name, ["system:masters"])
    async with Client(replace(connection, credentials=whose)) as client:
        yield Creator(client, cluster.namespace)


def explanation(groups: list[Json], job: str) -> Json:
    """Why the pod group of a job waits."""
    group = next((item for item in groups if item["metadata"]["name"].startswith(f"{job}-")), {})
    said: Json = (group.get("status") or {}).get("explanation") or {}
    return said


async def test_a_user_at_the_limit_waits_and_others_do_not(cluster: World) -> None:
    name = f"limited-{cluster.namespace}"
    await cluster.create(queue(name, limits=[{"users": ["*"], "maxRunningJobs": 1}]))
    async with user(cluster, "ana") as ana, user(cluster, "bo") as bo:
        await ana.create([batch_job("first", 1, "1", duration="forever", queue=name)])
        await cluster.job("first", "Running")
        await ana.create([batch_job("second", 1, "1", duration="forever", queue=name)])
        await bo.create([batch_job("third", 1, "1", duration="forever", queue=name)])
        await cluster.job("third", "Running")
    message = f'maxRunningJobs of user "ana" in queue "{name}" reached (1/1)'
    groups = await cluster.all_of(
        POD_GROUPS, lambda pod_groups: explanation(pod_groups, "second").get("message") == message
    )
    why = explanation(groups, "second")
    assert why["gate"] == "limits"
    assert why["unblockedBy"] == f'end of 1 job of user "ana" in queue "{name}"'
    assert why["blockedBy"] == [f"job {cluster.namespace}/first"]
    await cluster.all_of(JOBS, lambda jobs: any(message in str(job.get("status")) for job in jobs))
    await cluster.client.delete(JOBS, cluster.namespace, "first", propagation="Background")
    await cluster.job("second", "Running")


async def test_max_queued_jobs_of_a_user_is_enforced(cluster: World) -> None:
    """Ana's first job fits nowhere yet: a second one of hers is refused, one of bo's is not."""
    name = f"limited-{cluster.namespace}"
    await cluster.create(queue(name, maxRunningJobs=0, limits=[{"users": ["ana"], "maxQueuedJobs": 1}]))
    async with user(cluster, "ana") as ana, user(cluster, "bo") as bo:
        await ana.create([batch_job("first", 1, "1", queue=name)])
        await cluster.all_of(POD_GROUPS, lambda pod_groups: explanation(pod_groups, "first").get("gate") == "limits")
        with pytest.raises(CreateError, match=r'maxQueuedJobs of user "ana" in queue ".*" reached \(1/1\)'):
            await ana.create([batch_job("second", 1, "1", queue=name)])
        await bo.create([batch_job("third", 1, "1", queue=name)])
        await cluster.client.patch(QUEUES, None, name, {"spec": {"maxRunningJobs": None}})
        await cluster.job("first", "Completed")
        await ana.create([batch_job("second", 1, "1", queue=name)])
        await cluster.job("second", "Completed")


async def test_a_job_larger_than_its_user_limit_is_rejected(cluster: World) -> None:
    name = f"limited-{cluster.namespace}"
    await cluster.create(queue(name, limits=[{"users": ["*"], "resources": {"cpu": "2"}}]))
    async with user(cluster, "ana") as ana:
        with pytest.raises(
            CreateError, match=f'resources of user "ana" in queue "{name}" exceeded: cpu requested 3, limit 2'
        ):
            await ana.create([batch_job("large", 3, "1", queue=name)])
