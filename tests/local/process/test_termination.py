"""The grace period of pods on process nodes can be shortened while it runs."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.local.process.conftest import NAMESPACE, ProcessCluster, runtime_named
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import EVENTS, PODS
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings

PRE_STOP = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "1000"]}}}}


async def terminating(cluster: ProcessCluster, **container: Json) -> None:
    """Delete a pod that ignores SIGTERM, with a long grace period."""
    command = ["sh", "-c", "trap '' TERM; touch ${TMPDIR:-/tmp}/ready; while :; do sleep 0.05; done"]
    probe = {"exec": {"command": ["sh", "-c", "test -e ${TMPDIR:-/tmp}/ready"]}, "periodSeconds": 1}
    main = {"name": "main", "image": "none", "command": command, "readinessProbe": probe, **container}
    await cluster.create("p", {"containers": [main]})
    await cluster.until("p", lambda pod: any(each["ready"] for each in pod["status"].get("containerStatuses", ())))
    await cluster.client.delete(PODS, NAMESPACE, "p", grace=1000)
    killing = Reflector(cluster.client, EVENTS, NAMESPACE, field_selector="involvedObject.name=p,reason=Killing")
    async with asyncio.timeout(60):
        async for _ in killing.batches():
            if killing.objects:
                break


@pytest.mark.parametrize("container", [{}, PRE_STOP], ids=["SIGTERM", "preStop"])
async def test_a_second_deletion_shortens_the_grace_period(process_cluster: ProcessCluster, container: Json) -> None:
    await terminating(process_cluster, **container)
    await process_cluster.deleted("p", grace=1)


@pytest.mark.parametrize("step", ["namespaces", "plain"])
async def test_a_cluster_stops_within_its_time_while_a_pod_has_a_longer_grace_period(
    open_folder: Path, step: str
) -> None:
    settings = ProcessSettings(open_folder / "run", open_folder / "claims", runtime_named(step))
    parts = Parts(scheduler=None, controller=None, admission=None, process=settings)
    with capture_logs() as logs:
        async with LocalCluster(0, objects=machine.manifests(1, 4, 8 << 30), parts=parts) as cluster:
            await terminating(ProcessCluster(cluster, open_folder))
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == []
