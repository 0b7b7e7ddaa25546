"""The controllers of workloads of an embedded cluster write what kube-controller-manager writes."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from embedded_apiserver.server import ApiServer
from tests.controlplane.fixtures import real_control_plane
from tests.controlplane.plane import ControlPlane
from volcanopy.api.names import JOB_NAME
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import EVENTS, NAMESPACES
from volcanopy_local.cluster import self_signed
from volcanopy_local.workloads import controller
from volcanopy_local.workloads.controller import WorkloadController

__all__ = ["real_control_plane"]

pytestmark = pytest.mark.real
Json = dict[str, Any]
_NUMBERS = itertools.count(1)
KINDS = {kind.kind: kind for kind in controller.WATCHED}
TEMPLATE = {
    "metadata": {"labels": {"app": "w"}},
    "spec": {"priorityClassName": "nope", "containers": [{"name": "c", "image": "x"}]},
}
SELECTED = {"selector": {"matchLabels": {"app": "w"}}, "template": TEMPLATE}
WORKLOADS: dict[str, Json] = {
    "Deployment": {"replicas": 3, **SELECTED},
    "StatefulSet": {"replicas": 2, "serviceName": "w", **SELECTED},
    "Job": {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},  # type: ignore[dict-item]
}
_GENERATED = re.compile(r"w-[0-9a-z]{8,10}(?=[-\"])")


@dataclass
class Site:
    """A cluster in which the controllers run, and the namespace of a test."""

    client: Client
    namespace: str


@pytest.fixture
async def sites(real_control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[dict[str, Site]]:
    """Clients of both clusters, in which the controllers of workloads run."""
    embedded, stop = await ApiServer.start(tls=self_signed()), asyncio.Event()
    plane, path = real_control_plane, tmp_path / "kubeconfig"
    path.write_text(embedded.kubeconfig())
    async with (
        Client(load_connection(plane.kubeconfig)) as real,
        Client(load_connection(path)) as own,
    ):
        running = asyncio.create_task(WorkloadController(own).run(stop))
        namespace = f"workloads-{next(_NUMBERS)}"
        for client in (real, own):
            await client.create(NAMESPACES, None, {"metadata": {"name": namespace}})
        yield {"real": Site(real, namespace), "embedded": Site(own, namespace)}
        await real.delete(NAMESPACES, None, namespace)
        stop.set()
        await running
    await embedded.stop()


async def eventually(ask: Callable[[], Awaitable[Any]], seconds: float = 120.0) -> Any:
    """The first answer that is not empty."""
    async with asyncio.timeout(seconds):
        while True:
            if answer := await ask():
                return answer
            await asyncio.sleep(0.05)


async def create(site: Site, kind: str, **metadata: Any) -> None:
    body = {"metadata": {"name": "w", "namespace": site.namespace, **metadata}, "spec": WORKLOADS[kind]}
    await site.client.create(KINDS[kind], site.namespace, body)


async def replica_set(site: Site) -> Json | None:
    listed = await site.client.list(KINDS["ReplicaSet"], site.namespace)
    return next(iter(listed.items), None)


async def failures(site: Site, kind: str) -> set[tuple[str, str]]:
    """Reason and message of the warnings about objects of a kind, without generated names."""
    listed = await site.client.list(EVENTS, site.namespace)
    return {
        (event["reason"], _GENERATED.sub("w-HASH", event["message"]))
        for event in listed.items
        if event["type"] == "Warning" and event["involvedObject"]["kind"] == kind
    }


def _without_rollout(item: Json) -> Json:
    """The annotations without the numbers of a rollout, which Deployments on one machine have none of."""
    annotations = item["metadata"]["annotations"].items()
    return {key: text for key, text in annotations if not key.startswith("deployment.kubernetes.io/")}


async def test_annotations_of_a_deployment_reach_its_replica_set(sites: dict[str, Site]) -> None:
    notes = {"scheduling.volcano.sh/group-min-member": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    results = {}
    for name, site in sites.items():
        await create(site, "Deployment", annotations=notes)
        created = await eventually(lambda site=site: replica_set(site))  # type: ignore[misc]
        patch = {"metadata": {"annotations": {"later": "x"}}, "spec": {"replicas": 5}}
        await site.client.patch(KINDS["Deployment"], site.namespace, "w", patch)

        async def changed(site: Site = site) -> Json | None:
            item = await replica_set(site)
            return (
                item if item and item["spec"]["replicas"] == 5 and "later" in item["metadata"]["annotations"] else None
            )

        results[name] = [_without_rollout(item) for item in (created, await eventually(changed))]
    assert results["embedded"] == results["real"]
    assert results["real"][0]["scheduling.volcano.sh/group-min-member"] == "2"


@pytest.mark.parametrize(("kind", "reported"), [("Deployment", "ReplicaSet"), ("StatefulSet", ""), ("Job", "")])
async def test_a_rejected_pod_is_reported(sites: dict[str, Site], kind: str, reported: str) -> None:
    results = {}
    for name, site in sites.items():
        await create(site, kind)
        results[name] = await eventually(lambda site=site: failures(site, reported or kind))  # type: ignore[misc]
    assert results["embedded"] == results["real"]
    assert {reason for reason, _ in results["real"]} == {"FailedCreate"}


async def test_a_workload_creates_no_pods_with_the_label_of_a_job(sites: dict[str, Site]) -> None:
    """The controllers do not follow pods of jobs: one that created such pods would create more and more."""
    site = sites["embedded"]
    labels = {"app": "w", JOB_NAME: "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    await site.client.create(KINDS["ReplicaSet"], site.namespace, {"metadata": {"name": "w"}, "spec": spec})
    message = f"Error creating: label {JOB_NAME} is set by the controllers: remove it"
    assert await eventually(lambda: failures(site, "ReplicaSet")) == {("FailedCreate", message)}
    assert not (await site.client.list(KINDS["Pod"], site.namespace)).items
