"""The job controller on a network that fails, and in a storm of changes: nothing is made twice, little is asked."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from tests.services.service_cluster import Cluster, controller, task
from volcanopy.api.core import Pod
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.cache.watch import Change, ChangeType, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NoAnswer, from_response
from volcanopy.kube.client.raw_kinds import JOBS
from volcanopy.kube.client.request_counts import RequestKey, resource
from volcanopy.kube.client.transport import Transport
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.jobs import JobController, JobControllerSettings


class RequestFaults:
    """How requests of one process fail: rejected before they are executed, or their response is lost."""

    def __init__(self, seed: int, *resources: str) -> None:
        self.random = Random(seed)
        self.resources = resources
        self.storms = True
        self.faults: Counter[str] = Counter()

    def strikes(self, method: str, path: str) -> str:
        """What becomes of a request: nothing special, or the kind of its fault."""
        if not self.storms or method == "GET" or resource(path) not in self.resources:
            return ""
        fault = self.random.choices(["", "busy", "broken", "lost before", "lost after"], [60, 10, 10, 10, 10])[0]
        self.faults[fault] += 1
        return fault

    def over(self, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
        """From now on the requests of all clients, but not those of the test's own cluster, meet this weather."""
        sent = Transport._once
        spared = cluster.client._transport

        async def once(self: Any, method: str, path: str, *rest: Any) -> bytes:
            fault = "" if self is spared else weather.strikes(method, path)
            if fault == "busy":
                raise from_response(429, b'{"kind":"Status","reason":"TooManyRequests","message":"busy"}', "0")
            if fault == "broken":
                raise from_response(500, b'{"kind":"Status","reason":"InternalError","message":"broken"}', None)
            if fault == "lost before":
                raise NoAnswer(path, "connection lost", maybe_applied=True)
            content = await sent(self, method, path, *rest)
            if fault == "lost after":
                raise NoAnswer(path, "timed out", maybe_applied=True)
            return content

        weather = self
        monkeypatch.setattr(Transport, "_once", once)


async def test_pods_are_created_once_despite_request_faults(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    weather = RequestFaults(3, "pods", "podgroups", "batchjobs/status", "configmaps")
    weather.over(monkeypatch, cluster)
    async with controller(cluster):
        await cluster.submit("storm", task("a", 40), task("b", 20), plugins={"svc": []}, maxRetry=1)
        await cluster.until(lambda: cluster.phase("storm") == "Completed", 60)
        await cluster.until(lambda: "storm" not in cluster.groups)
    assert min(weather.faults[kind] for kind in ("busy", "broken", "lost before", "lost after")) > 2
    assert len(cluster.pod_births) == 60
    assert set(cluster.pod_births.values()) == {1}
    assert cluster.jobs["storm"]["status"]["retryCount"] == 0
    assert cluster.message("storm") == "60 pods succeeded"


async def test_a_restart_replaces_each_pod_once_despite_request_faults(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ends = ""
    weather = RequestFaults(4, "pods", "podgroups", "batchjobs/status")
    weather.over(monkeypatch, cluster)
    async with controller(cluster):
        await cluster.submit("storm", task("a", 20), policies=[{"event": "PodFailed", "action": "RestartJob"}])
        await cluster.until(lambda: cluster.phase("storm") == "Running", 60)
        await cluster.set_pod("storm-a-7", "Failed", 9)
        await cluster.until(lambda: cluster.jobs["storm"]["status"]["retryCount"] == 1, 60)
        await cluster.until(lambda: cluster.phase("storm") == "Running", 60)
    assert set(cluster.pod_births.values()) == {2}
    assert cluster.jobs["storm"]["status"]["retryCount"] == 1


@asynccontextmanager
async def by_hand(cluster: Cluster, **settings: Any) -> AsyncIterator[tuple[JobController, Client]]:
    """A running controller with accessible parts: a test can deliver changes to its cache."""
    async with Client(cluster.connection) as client, EventRecorder(client, "test") as recorder:
        working = JobController(client, recorder, JobControllerSettings(**settings))
        pods, groups = Reflector(client, PODS, cluster.namespace), Reflector(client, POD_GROUPS, cluster.namespace)
        jobs = Reflector(client, JOBS, cluster.namespace)

        def delivered(changes: Any) -> None:
            for change in changes:
                working.event("DELETED" if change.type is ChangeType.DELETED else "MODIFIED", change.object)

        tasks = [
            asyncio.create_task(pods.run(working.cache.pod_changes)),
            asyncio.create_task(groups.run(working.cache.pod_group_changes)),
            asyncio.create_task(jobs.run(delivered)),
            *(asyncio.create_task(working.work()) for _ in range(4)),
        ]
        try:
            yield working, client
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_500_pod_changes_cause_few_reconciles_and_few_writes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with by_hand(cluster) as (working, client):
        cluster.plays = False
        await cluster.submit("burst", task("a", 500))
        name = (await cluster.group("burst"))["metadata"]["name"]
        await cluster.client.patch_status(POD_GROUPS.raw, cluster.namespace, name, {"status": {"phase": "Inqueue"}})
        await cluster.until(lambda: len(cluster.pods) == 500, 60)
        await cluster.until(lambda: cluster.jobs["burst"].get("status", {}).get("pending") == 500, 60)
        asked = client.connection.request_counts.counts.copy()
        planned = Mock(wraps=working.cache.observed)
        monkeypatch.setattr(working.cache, "observed", planned)
        uid = cluster.jobs["burst"]["metadata"]["uid"]
        running = msgspec.structs.replace(working.cache.pods_of(uid)[0].status, phase="Running")
        for pod in working.cache.pods_of(uid):
            changed: Pod = msgspec.structs.replace(pod, status=running)
            working.cache.pod_changes([Change(ChangeType.MODIFIED, changed, pod)])
            await asyncio.sleep(0)
        await cluster.until(lambda: cluster.phase("burst") == "Running")
        assert cluster.message("burst") == "500/500 pods running"
        assert planned.call_count <= 8
        new = client.connection.request_counts.counts - asked
        assert new[RequestKey("PUT", "batchjobs/status")] <= 3


async def test_a_small_job_is_planned_once_until_its_first_status_is_due(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with by_hand(cluster, settle=0.0, pace=0.0, status_settle=3600.0) as (working, client):
        cluster.plays, observed = False, working.cache.observed
        planned = Mock(wraps=observed)
        monkeypatch.setattr(working.cache, "observed", planned)
        key = f"{cluster.namespace}/small"
        await cluster.submit("small", task("a", 3))
        await cluster.until(lambda: key in working.cache.jobs and len(observed(key).pods) == 3)
        name = (await cluster.group("small"))["metadata"]["name"]
        await client.patch_status(POD_GROUPS.raw, cluster.namespace, name, {"status": {"phase": "Running"}})

        def runs() -> bool:
            group = observed(key).pod_group
            return group is not None and group.status.phase == "Running"

        await cluster.until(runs)
        await cluster.submit("next", task("a"))  # a job that is reconciled now is planned before it
        await cluster.until(lambda: len(cluster.pods) == 4)
        assert [call.args[0] for call in planned.call_args_list].count(key) == 1
