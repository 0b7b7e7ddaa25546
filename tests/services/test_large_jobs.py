"""Jobs of many bytes: their writes cost the API server most, so few of them are made, and few at once."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.kube.test_write_slots import settled
from volcanopy.jobcontroller.plan import CreatePod, Effect, JobPlan, UpdateStatus
from volcanopy.kube import machine
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.effects import LARGE, LARGE_AT_ONCE, Ending, JobEffects
from volcanopy.services.controllers.job_cache import JobCache
from volcanopy.services.controllers.jobs import status_delay
from volcanopy.services.controllers.run_times import RunTimes

PENDING: Json = {"state": {"phase": "Pending"}}


class BusyServer:
    """Answers no write before the test says so."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.answer = asyncio.Event()

    def of_api(self, kind: Any) -> Any:
        return kind

    async def update_status(self, _: Any, manifest: Json, status: Json) -> Json:
        self.writes.append(f"status of {manifest['metadata']['name']}")
        await self.answer.wait()
        return {**manifest, "status": status}

    async def create(self, _: Any, __: Any, manifest: Json) -> Any:
        self.writes.append(f"create {manifest['metadata']['name']}")
        await self.answer.wait()
        raise asyncio.CancelledError


def job(name: str, size: int = 0, namespace: str = "large") -> Json:
    meta = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}
    container = {"name": "main", "image": "busybox", "env": [{"name": "TEXT", "value": "x" * size}]}
    task = {"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    body = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "metadata": meta}
    return {**body, "spec": {"minAvailable": 1, "tasks": [task]}}


def applied_plans(server: BusyServer) -> JobEffects:
    client: Any = server
    ending = Ending(None, RunTimes(client, "kube-system"))
    cache = JobCache(lambda _, __: None)
    return JobEffects(client, cache, EventRecorder(client, "test"), machine.utc_now, 48, ending, lambda _: None)


@pytest.mark.parametrize(
    "effects",
    [[UpdateStatus(PENDING)], [CreatePod("pod", lambda: {"metadata": {"name": "pod"}})] * 3],
    ids=["statuses", "pods"],
)
async def test_few_writes_for_large_jobs_are_in_flight_and_others_pass_them(effects: Sequence[Effect]) -> None:
    server = BusyServer()
    plans = applied_plans(server)
    large = [job(f"large-{number}", LARGE) for number in range(10)]
    tasks = [asyncio.create_task(plans.carry_out(manifest, JobPlan(tuple(effects)))) for manifest in large]
    await settled()
    assert len(server.writes) == LARGE_AT_ONCE
    tasks.append(
        asyncio.create_task(plans.carry_out(job("small", namespace="small"), JobPlan((UpdateStatus(PENDING),))))
    )
    await settled()
    assert server.writes[LARGE_AT_ONCE:] == ["status of small"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(("size", "seconds"), [(0, 1.0), (200_000, 1.0), (500_000, 2.0), (1_300_000, 5.0)])
def test_a_minor_status_of_a_large_job_is_written_later(size: int, seconds: float) -> None:
    assert status_delay(1.0, 0, size) == pytest.approx(seconds)
    assert status_delay(1.0, 1_000, size) == 5.0
