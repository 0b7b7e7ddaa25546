"""Flows and cron jobs at work on an API server: their jobs are made, in order and in time, through restarts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from tests.services.service_cluster import Cluster, controller, task
from volcanopy.api.names import SCHEDULED_TIME
from volcanopy.jobcontroller.flow_jobs import PodProbe
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.errors import Invalid
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import CRON_JOBS, FLOWS, JOBS, TEMPLATES
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers import flows
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.cron_jobs import CronController
from volcanopy.services.controllers.flows import FlowController, probe
from volcanopy.services.controllers.owned_jobs import OwnedJobs


async def template(cluster: Cluster, name: str, **spec: Any) -> None:
    """Make a template."""
    manifest: Json = {"metadata": {"name": name}, "spec": {"tasks": [task()], **spec}}
    manifest |= {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.kind}
    await cluster.client.create(TEMPLATES, cluster.namespace, manifest)


async def flow(cluster: Cluster, name: str, *flows: Json, **spec: Any) -> None:
    """Make a flow."""
    manifest: Json = {"metadata": {"name": name}, "spec": {"flows": list(flows), **spec}}
    await cluster.client.create(
        FLOWS, cluster.namespace, manifest | {"apiVersion": FLOWS.api_version, "kind": FLOWS.kind}
    )


class Watched:
    """Objects of one kind, seen live."""

    def __init__(self, cluster: Cluster, kind: Kind[Json]) -> None:
        self._changed = asyncio.Event()
        self._reflector = Reflector(cluster.client, kind, cluster.namespace)

    @classmethod
    @asynccontextmanager
    async def open(cls, cluster: Cluster, kind: Kind[Json]) -> "AsyncIterator[Watched]":
        """From now until the end of the block."""
        watched = cls(cluster, kind)
        running = asyncio.create_task(watched._reflector.run(lambda _: watched._changed.set()))
        try:
            yield watched
        finally:
            running.cancel()

    async def until(self, name: str, holds: Callable[[Json], bool]) -> Json:
        """Wait for a condition on the status of an object; return the object."""
        async with asyncio.timeout(60):
            while True:
                for key, obj in self._reflector.objects.items():
                    if key.endswith(f"/{name}") and holds(obj.get("status") or {}):
                        return obj
                self._changed.clear()
                await self._changed.wait()


async def test_a_flow_runs_its_jobs_in_order_across_a_restart(cluster: Cluster) -> None:
    async with controller(cluster):
        await template(cluster, "first")
        await flow(cluster, "f", {"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}})
        await cluster.until(lambda: cluster.phase("f-first") == "Completed")
    await template(cluster, "second")
    async with controller(cluster):
        await cluster.until(lambda: cluster.phase("f-second") == "Completed")
        async with Watched.open(cluster, FLOWS) as flows:
            done = await flows.until("f", lambda status: status.get("state", {}).get("phase") == "Succeed")
    assert done["status"]["completedJobs"] == ["f-first", "f-second"]
    result = await cluster.client.get(TEMPLATES, cluster.namespace, "second")
    assert result["status"]["jobDependsOnList"] == ["f-second"]


async def test_a_failed_job_of_a_flow_is_recreated(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster), Watched.open(cluster, FLOWS) as flows:
        await template(cluster, "a", maxRetry=0)
        await flow(cluster, "f", {"name": "a", "maxRetry": 1})
        await cluster.until(lambda: cluster.phase("f-a") == "Running")
        first = cluster.jobs["f-a"]["metadata"]["uid"]
        await cluster.set_pod("f-a-a-0", "Failed", 1)
        await cluster.until(
            lambda: cluster.phase("f-a") == "Running" and cluster.jobs["f-a"]["metadata"]["uid"] != first
        )
        await cluster.set_pod("f-a-a-0", "Failed", 1)
        failed = await flows.until("f", lambda status: status.get("state", {}).get("phase") == "Failed")
    assert failed["status"]["jobStatusList"][0]["attempt"] == 1


async def test_a_flow_that_failed_terminates_its_other_jobs(cluster: Cluster) -> None:
    cluster.ends = ""
    async with controller(cluster):
        for name in ("a", "b"):
            await template(cluster, name, maxRetry=0)
        await flow(cluster, "f", {"name": "a"}, {"name": "b"}, failurePolicy="terminate")
        await cluster.until(lambda: cluster.phase("f-a") == cluster.phase("f-b") == "Running")
        await cluster.set_pod("f-a-a-0", "Failed", 1)
        await cluster.until(lambda: cluster.phase("f-b") in {"Terminating", "Terminated"})


async def test_a_cron_job_creates_jobs_on_schedule_and_limits_its_history(cluster: Cluster) -> None:
    manifest: Json = {
        "apiVersion": CRON_JOBS.api_version,
        "kind": CRON_JOBS.kind,
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": "@every 1s",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"tasks": [task()]}},
        },
    }
    async with controller(cluster), Watched.open(cluster, CRON_JOBS) as crons:
        await cluster.client.create(CRON_JOBS, cluster.namespace, manifest)
        first = await crons.until("tick", lambda status: "lastSuccessfulTime" in status)
        served = first["status"]["lastScheduleTime"]
        await crons.until("tick", lambda status: status.get("lastScheduleTime", "") > served)
        await cluster.client.patch(CRON_JOBS, cluster.namespace, "tick", {"spec": {"suspend": True}})
        await crons.until("tick", lambda status: "active" not in status and "nextScheduleTime" not in status)
        await cluster.until(lambda: len(cluster.jobs) == 1)


async def test_the_jobs_of_a_flow_cannot_be_changed_and_templates_can(cluster: Cluster) -> None:
    await template(cluster, "a")
    await flow(cluster, "f", {"name": "a"})
    with pytest.raises(Invalid, match="field is immutable: create a new flow"):
        await cluster.client.patch(FLOWS, cluster.namespace, "f", {"spec": {"flows": [{"name": "b"}]}})
    changed = {"spec": {"queue": "other", "tasks": [task("b", 3)]}}
    assert (await cluster.client.patch(TEMPLATES, cluster.namespace, "a", changed))["spec"]["queue"] == "other"


async def test_a_flow_with_an_unknown_dependency_is_rejected(cluster: Cluster) -> None:
    with pytest.raises(Invalid, match="dependsOn must contain names of jobs of the flow"):
        await flow(cluster, "f", {"name": "a", "dependsOn": {"targets": ["b"]}})


class StatusClient:
    """Writes statuses, and creates jobs."""

    def of_api(self, kind: Any) -> Any:
        return kind

    async def update_status(self, _: Any, manifest: Json, status: Json) -> Json:
        version = str(int(manifest["metadata"]["resourceVersion"]) + 1)
        return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": version}, "status": status}

    async def create(self, _: Any, __: str, manifest: Json, **___: Any) -> Json:
        server = {
            "uid": manifest["metadata"]["name"],
            "resourceVersion": "9",
            "creationTimestamp": "2026-03-02T08:02:30Z",
        }
        return {**manifest, "metadata": {**manifest["metadata"], **server}}


def manifest_of(kind: Kind[Json], name: str, **fields: Any) -> Json:
    metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


async def test_a_flow_costs_other_flows_of_its_namespace_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = StatusClient()
    item = FlowController(client, EventRecorder(client, "test"), lambda _: ())
    read: list[str] = []
    jobs_of = OwnedJobs.of
    monkeypatch.setattr(OwnedJobs, "of", lambda jobs, owner: read.append(owner) or jobs_of(jobs, owner))  # type: ignore[func-returns-value]
    for name in ("f", "g"):
        item.event("ADDED", manifest_of(FLOWS, name, spec={"flows": [{"name": f"of-{name}"}]}))
    for _ in range(2):
        key = await item.queue.get()
        await item.reconcile(key)
        item.queue.done(key)
    assert read == ["f", "g"]
    for replicas, status, awake in ((1, {}, 1), (1, {"jobDependsOnList": ["x"]}, 0), (2, {}, 1)):
        spec = {"tasks": [task(replicas=replicas)]}
        item.event("MODIFIED", manifest_of(TEMPLATES, "of-f", spec=spec, status=status))
        assert len(item.queue) == awake
        if awake:
            assert await item.queue.get() == "ns/f"
            item.queue.done("ns/f")
    item.event("DELETED", item.objects["ns/f"])
    assert not item._flows.keys() - {"ns/of-g"}


async def test_pods_are_probed_over_http_and_tcp() -> None:
    async def ready(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers.get("X") == "1" else 500)

    app = web.Application()
    app.router.add_get("/ready", ready)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    nobody = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    closed = nobody.sockets[0].getsockname()[1]
    nobody.close()
    await nobody.wait_closed()
    pod_probes = [
        PodProbe("p", "127.0.0.1", port, "/ready", ("X", "1")),
        PodProbe("p", "127.0.0.1", port, "/ready"),
        PodProbe("p", "127.0.0.1", port),
        PodProbe("p", "127.0.0.1", closed),
        PodProbe("p", "127.0.0.1", closed, "/"),
    ]
    assert list((await probe(pod_probes)).values()) == [True, False, True, False, False]
    await runner.cleanup()


async def test_few_probes_of_a_flow_are_in_flight_and_they_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand addresses that do not answer: their flow waits, and no other."""
    in_flight, most = set[PodProbe](), 0

    async def unanswered(_: object, pod_probe: PodProbe) -> bool:
        nonlocal most
        if pod_probe.port < 100:
            return True
        in_flight.add(pod_probe)
        most = max(most, len(in_flight))
        try:
            await asyncio.Event().wait()
        finally:
            in_flight.discard(pod_probe)
        return True

    monkeypatch.setattr(flows, "_answers", unanswered)
    monkeypatch.setattr(flows, "PROBES_TIMEOUT", 0.01)
    pod_probes = [PodProbe("p", "192.0.2.1", port) for port in range(1, 1_101)]
    answers = await probe(pod_probes)
    assert list(answers) == pod_probes
    assert sum(answers.values()) == 99
    assert most == flows.PROBES_AT_ONCE
    assert not in_flight


async def test_a_header_that_is_none_fails_its_probe_only() -> None:
    pod_probe = PodProbe("p", "127.0.0.1", 9, "/", ("X", "1\r\nY: 2"))
    assert await probe([pod_probe]) == {pod_probe: False}


def job_of(owner: Json, name: str, phase: str, number: int) -> Json:
    """A job of a flow or of a cron job in a phase, in its version with this number."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    metadata: Json = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": str(number)}
    metadata |= {"creationTimestamp": "2026-03-02T08:00:00Z", "annotations": {SCHEDULED_TIME: "2026-03-02T08:00:00Z"}}
    metadata["ownerReferences"] = [reference | {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
    state = {"phase": phase, "lastTransitionTime": "2026-03-02T08:01:00Z"}
    spec = {"tasks": [task()], "ttlSecondsAfterFinished": 0}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec} | {
        "status": {"state": state}
    }


async def reconcile_all(item: Controller) -> Json:
    """Reconcile until nothing is queued; return the only object, as it was written."""
    while len(item.queue):
        key = await item.queue.get()
        await item.reconcile(key)
        item.queue.done(key)
    return next(iter(item.objects.values()))


async def test_a_job_that_is_deleted_as_it_completes_is_not_created_again() -> None:
    client: Any = StatusClient()
    item = FlowController(client, EventRecorder(client, "test"), lambda _: ())
    item.event("ADDED", manifest_of(TEMPLATES, "a", spec={"tasks": [task()]}))
    item.event("ADDED", flow := manifest_of(FLOWS, "f", spec={"flows": [{"name": "a"}]}))
    item.event("ADDED", job_of(flow, "f-a", "Running", 2))
    assert (await reconcile_all(item))["status"]["state"]["phase"] == "Running"
    for event in ("MODIFIED", "DELETED"):
        item.event(event, job_of(flow, "f-a", "Completed", 3))
    assert (await reconcile_all(item))["status"]["state"]["phase"] == "Succeed"
    assert not item.jobs.of("f")


@pytest.mark.parametrize("fields", [{"suspend": True}, {"concurrencyPolicy": "Forbid"}])
async def test_the_completion_of_a_job_that_is_deleted_at_once_is_the_last_success_of_its_cron_job(
    fields: Json,
) -> None:
    """Also if the next job could not be created before, and is now."""
    client: Any = StatusClient()
    item = CronController(client, EventRecorder(client, "test"), lambda: datetime(2026, 3, 2, 8, 2, 30, tzinfo=UTC))
    spec = {"schedule": "* 8 2 3 *", "jobTemplate": {"spec": {"tasks": [task()]}}, **fields}
    cron = manifest_of(CRON_JOBS, "c", spec=spec)
    cron["metadata"]["creationTimestamp"] = "2026-03-02T07:59:00Z"
    item.event("ADDED", cron)
    for number, event, phase in ((2, "ADDED", "Running"), (3, "MODIFIED", "Completed"), (4, "DELETED", "Completed")):
        item.event(event, job_of(cron, "c-1", phase, number))
    assert (await reconcile_all(item))["status"]["lastSuccessfulTime"] == "2026-03-02T08:01:00Z"
    item.event("ADDED", job_of(cron, "c-2", "Completed", 4))
    item.event("DELETED", item.objects["ns/c"])
    item.event("ADDED", cron | {"metadata": cron["metadata"] | {"uid": "c-again"}})
    item.event("DELETED", job_of(cron, "c-2", "Completed", 4))
    assert "c-2" not in item.jobs.of("c")
