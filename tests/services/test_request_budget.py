"""How many writes a job costs until its pods are bound: two for each pod, and a few for the job."""

import asyncio
from collections import Counter
from functools import partial

import pytest

from bench.requests import services
from volcanopy.api.core import Pod
from volcanopy.kube.cache.followed_kinds import NODES, PODS
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.kube.client.request_counts import WATCH, RequestKey
from volcanopy.services.controllers import controller_service
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler import scheduler_service
from volcanopy.services.scheduler.writers.status_writer import Timing
from volcanopy_local.cluster import LocalCluster, Parts, connection_to

FOR_A_JOB = {
    RequestKey("POST", "podgroups"): 1,
    RequestKey("PATCH", "podgroups/status"): 1,
    RequestKey("POST", "events"): 1,
    RequestKey("PUT", "batchjobs/status"): 1,
}
"""The most writes for each small job besides its pods: its PodGroup, which is admitted and runs, an event of that, and a status.

A job whose pods are seen before all of them are bound may state the reason once: whether it does depends on the time taken.
"""
ADMISSION = [RequestKey("PATCH", "podgroups/status")]
"""For a larger job, whose pods are created after its admission."""
FOR_ALL = {RequestKey("POST", "queues"): 2, RequestKey("PATCH", "queues"): 1}
"""Writes for all jobs together: the queues that exist in every cluster."""
BY_TIME = RequestKey("PATCH", "queues/status")
"""Written in intervals, however many jobs there are."""
NEVER = 3600.0
PATIENT = Timing(settle=NEVER, message_delay=NEVER, repeat_delay=NEVER)
"""What is written later, with other changes, is not written at all here: otherwise the count would depend on the time taken."""


def gang(name: str, pods: int) -> Json:
    containers = [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    task = {"name": "task", "replicas": pods, "template": {"spec": {"containers": containers}}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": pods, "tasks": [task]},
    }


async def writes_until_bound(jobs: int, pods: int) -> Counter[RequestKey]:
    """Return the writes of scheduler and controller until all pods are bound, on nodes that run nothing."""
    without = Parts(scheduler=None, controller=None, admission=None, adopt_all=False)
    async with LocalCluster(0, parts=without) as cluster, Client(connection_to(cluster.server)) as client:
        for number in range(10):
            room = {"cpu": "32", "memory": "64Gi", "pods": "110"}
            node = {"metadata": {"name": f"node-{number}"}, "status": {"capacity": room, "allocatable": room}}
            await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", **node})
        scheduler, controller = connection_to(cluster.server), connection_to(cluster.server)
        bound, all_bound = set[str](), asyncio.Event()

        def see(changes: list[Change[Pod]]) -> None:
            bound.update(change.object.metadata.name for change in changes if change.object.spec.node_name)
            if len(bound) == jobs * pods:
                all_bound.set()

        async with services(
            (partial(scheduler_service.run, timing=PATIENT), scheduler, SchedulerSettings()),
            (controller_service.run, controller, JobControllerSettings(status_settle=NEVER)),
        ):
            following = asyncio.create_task(Reflector(client, PODS).run(see))
            for number in range(jobs):
                await client.create(JOBS, "default", gang(f"gang-{number}", pods))
            async with asyncio.timeout(60):
                await all_bound.wait()
            following.cancel()
            counts = scheduler.request_counts.counts + controller.request_counts.counts
    return Counter({key: count for key, count in counts.items() if key.verb not in {"GET", WATCH}})


@pytest.mark.parametrize(("jobs", "pods", "more"), [(1, 200, ADMISSION), (10, 20, []), (20, 1, [])])
async def test_a_pod_costs_two_writes_and_a_job_a_few(jobs: int, pods: int, more: list[RequestKey]) -> None:
    writes = await writes_until_bound(jobs, pods)
    assert writes.pop(RequestKey("POST", "pods")) == jobs * pods
    assert writes.pop(RequestKey("POST", "pods/binding")) == jobs * pods
    del writes[BY_TIME]
    allowed = Counter({key: count * jobs for key, count in FOR_A_JOB.items()}) + Counter(FOR_ALL) + Counter(more)
    assert writes - allowed == Counter(), "more writes than allowed"
