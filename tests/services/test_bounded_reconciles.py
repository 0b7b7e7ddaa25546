"""A reconcile makes at most so many writes, whatever an object needs, and the others follow behind the keys that wait."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobcontroller.flow_world import job_spec
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers.controller import Controller
from volcanopy.services.controllers.cron_jobs import CronController
from volcanopy.services.controllers.flows import FlowController
from volcanopy.services.controllers.steps import FIRST_WRITES

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CREATED = "2029-12-31T00:00:00Z"


class CountingClient:
    """Carries out every write, and counts it."""

    def __init__(self) -> None:
        self.writes = 0
        self.on_deletion: Callable[[str], None] = lambda _: None

    def of_api(self, kind: Any) -> Any:
        return kind

    async def delete(self, _: Any, __: Any, name: str, **___: Any) -> None:
        self.writes += 1
        self.on_deletion(name)

    async def create(self, _: Any, __: Any, manifest: Json, **___: Any) -> Json:
        self.writes += 1
        stamp = {"uid": f"u-{manifest['metadata']['name']}", "resourceVersion": "9", "creationTimestamp": CREATED}
        return {**manifest, "metadata": manifest["metadata"] | stamp}

    async def update_status(self, _: Any, manifest: Json, status: Json) -> Json:
        self.writes += 1
        return {**manifest, "status": status}

    async def patch_status(self, _: Any, namespace: str, name: str, patch: Json) -> Json:
        self.writes += 1
        return {"metadata": metadata(name, namespace=namespace), "spec": job_spec(), **patch}


def metadata(name: str, **more: Any) -> Json:
    return {"name": name, "uid": f"u-{name}", "resourceVersion": "1", "creationTimestamp": CREATED, **more}


def controller(kind: Callable[..., Controller], client: CountingClient) -> Any:
    return kind(client, EventRecorder(client, "test"), lambda: NOW)  # type: ignore[arg-type]


def cron(client: CountingClient, count: int) -> tuple[Any, str]:
    """A cron job with so many completed jobs too many."""
    item = controller(CronController, client)
    spec = {
        "schedule": "@yearly",
        "jobTemplate": {"spec": job_spec()},
        "successfulJobsHistoryLimit": 0,
        "suspend": True,
    }
    item.event(
        "ADDED",
        {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "CronBatchJob", "spec": spec}
        | {"metadata": metadata("c", namespace="ns")},
    )
    owner = {
        "kind": "CronBatchJob",
        "uid": "u-c",
        "controller": True,
        "name": "c",
        "apiVersion": "batch.volcanopy.io/v1alpha1",
    }
    jobs: dict[str, Json] = {}
    client.on_deletion = lambda name: item.event("DELETED", jobs[name])
    for number in range(count):
        meta = metadata(f"j{number}", namespace="ns", ownerReferences=[owner])
        body = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "spec": job_spec(), "metadata": meta}
        jobs[f"j{number}"] = {**body, "status": {"state": {"phase": "Completed"}}}
        item.event("ADDED", jobs[f"j{number}"])
    return item, "ns/c"


def flow(client: CountingClient, count: int) -> tuple[Any, str]:
    """A flow with so many jobs to create."""
    item = controller(FlowController, client)
    steps = [{"name": f"s{number}", "template": f"t{number}"} for number in range(max(count, 1))]
    group = {"apiVersion": "flow.volcanopy.io/v1alpha1"}
    for step in steps:
        template = {**group, "kind": "JobTemplate", "metadata": metadata(step["template"], namespace="ns")}
        item.event("ADDED", {**template, "spec": job_spec()})
    item.event(
        "ADDED", {**group, "kind": "JobFlow", "metadata": metadata("f", namespace="ns"), "spec": {"flows": steps}}
    )
    return item, "ns/f"


@pytest.mark.parametrize("work", [cron, flow])
@given(count=st.integers(0, 250))
@settings(max_examples=10, deadline=None)
async def test_a_reconcile_makes_few_writes_and_is_continued(work: Any, count: int) -> None:
    client = CountingClient()
    item, key = work(client, count)
    reconciles = 0
    while client.writes < count or reconciles == 0:
        before = client.writes
        await item.reconcile(key)
        reconciles += 1
        assert client.writes - before <= FIRST_WRITES
        assert client.writes > before or count == 0
    assert reconciles <= 2 + 2 * count // FIRST_WRITES
