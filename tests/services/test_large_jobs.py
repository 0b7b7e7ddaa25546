"""Jobs of many bytes: their writes cost the API server most, so few of them are made, and one at a time."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from tests.kube.test_write_slots import settled
from volcanopy.api.core import Pod
from volcanopy.jobcontroller.plan import CreatePod, Effect, JobPlan, UpdateStatus
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.effects import LARGE
from volcanopy.services.controllers.job_cache import JobCache
from volcanopy.services.controllers.jobs import JobController, JobControllerSettings, status_delay

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


def controller(server: BusyServer, jobs: Sequence[Json]) -> JobController:
    """A controller that makes the same plan for each job."""
    client: Any = server
    made = JobController(client, EventRecorder(client, "test"), JobControllerSettings())
    for manifest in jobs:
        made.event("ADDED", manifest)
    return made


def of_status(_: str) -> tuple[Effect, ...]:
    return (UpdateStatus(PENDING),)


def of_pods(name: str) -> tuple[Effect, ...]:
    return (CreatePod("pod", lambda: {"metadata": {"name": name}}),) * 3


@pytest.mark.parametrize("effects", [of_status, of_pods])
async def test_one_large_job_is_in_progress_and_occupies_one_worker(
    effects: Callable[[str], tuple[Effect, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def planned(_: JobController, __: str, manifest: Json) -> tuple[Sequence[Pod], JobPlan]:
        return (), JobPlan(effects(manifest["metadata"]["name"]))

    monkeypatch.setattr(JobController, "_planned", planned)
    server = BusyServer()
    jobs = controller(server, [job(f"large-{number}", LARGE) for number in range(20)])
    workers = [asyncio.create_task(jobs.work()) for _ in range(JobControllerSettings.workers)]
    await settled()
    assert len(server.writes) == 1
    small = {f"small-{number}" for number in range(JobControllerSettings.workers - 1)}
    for name in small:
        jobs.event("ADDED", job(name, namespace="small"))
    await settled()
    assert {write.rpartition(" ")[2] for write in server.writes[1:]} == small
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


async def test_the_size_of_a_job_is_measured_once_for_each_of_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = JobCache(lambda _, __: None)
    cache.job_event("ADDED", job("a", LARGE))
    measured: list[Any] = []
    encode = msgspec.json.encode

    def counted(value: Any) -> bytes:
        measured.append(value)
        return encode(value)

    monkeypatch.setattr(msgspec.json, "encode", counted)
    assert cache.size("large/a") == cache.size("large/a") > LARGE
    cache.written({**job("a"), "metadata": {**job("a")["metadata"], "resourceVersion": "2"}})
    assert 0 < cache.size("large/a") < LARGE
    cache.drop("large/a")
    assert cache.size("large/a") == 0
    assert len(measured) == 2


@pytest.mark.parametrize(("size", "seconds"), [(0, 1.0), (65_536, 1.0), (655_360, 10.0)])
def test_a_minor_status_of_a_large_job_is_written_later(size: int, seconds: float) -> None:
    assert status_delay(1.0, 0, size) == seconds
    assert status_delay(1.0, 1_000, size) == max(seconds, 5.0)
