"""The root and default queue exist in both APIs, and a change of either object is one of the queue."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.services.service_cluster import CRDS, Cluster, controller
from tests.services.test_volcano_jobs import RUNS_FOR_EVER, job, until
from volcanopy.api import names
from volcanopy.api.bindings import VOLCANO
from volcanopy.api.volcano_crds import crds_of
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import PatchType
from volcanopy.kube.client.errors import ApiError
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.raw_kinds import EVENTS, bound
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy_local.cluster import LocalCluster, Parts

OWN, VOLCANOS = raw_kinds.QUEUES, bound(raw_kinds.QUEUES, VOLCANO)
BOTH = (OWN, VOLCANOS)
JOBS, COMMANDS = bound(raw_kinds.JOBS, VOLCANO), bound(raw_kinds.COMMANDS, VOLCANO)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def cluster() -> AsyncIterator[LocalCluster]:
    """One cluster for all tests of this file."""
    async with LocalCluster(2, parts=Parts(api="both")) as running:
        yield running


async def both(cluster: LocalCluster, name: str, holds: Callable[[Json], Any]) -> list[Json]:
    """Wait for both objects of a queue to be as expected."""
    return [await until(cluster.client, kind, name, holds, None) for kind in BOTH]


def state(value: str) -> Callable[[Json], bool]:
    return lambda item: (item.get("status") or {}).get("state") == value


async def applied(cluster: LocalCluster, **spec: Any) -> None:
    """Apply a manifest of Volcano's API for the default queue, as `kubectl apply --server-side` does."""
    manifest = {"apiVersion": VOLCANOS.api_version, "kind": "Queue", "metadata": {"name": "default"}, "spec": spec}
    await cluster.client.patch(
        VOLCANOS, None, "default", manifest, PatchType.APPLY, field_manager="kubectl", force=True
    )


async def test_both_apis_list_the_queues(cluster: LocalCluster) -> None:
    await both(cluster, "root", state("Open"))
    own, copy = await both(cluster, "default", lambda item: item["spec"].get("parent"))
    assert own["spec"] == copy["spec"]


async def test_a_manifest_of_volcanos_api_for_the_default_queue_takes_effect(cluster: LocalCluster) -> None:
    await both(cluster, "default", state("Open"))
    await applied(cluster, weight=3, capability={"cpu": "1"})
    await both(cluster, "default", lambda item: item["spec"].get("capability") == {"cpu": "1"})
    large = job("large", 2, RUNS_FOR_EVER, queue="default")
    with pytest.raises(ApiError, match="capability"):
        await cluster.client.create(JOBS, "default", large)
    await applied(cluster, weight=3)
    await both(cluster, "default", lambda item: "capability" not in item["spec"])
    await cluster.client.create(JOBS, "default", large)
    await both(cluster, "default", lambda item: item["status"].get("running") == 1)
    await cluster.client.delete(JOBS, "default", "large")
    await both(cluster, "default", lambda item: item["status"].get("running") == 0)


async def test_a_job_of_volcanos_api_with_unnamed_tasks_can_be_applied_on_the_server_twice(
    cluster: LocalCluster,
) -> None:
    await both(cluster, "default", state("Open"))
    manifest = job("unnamed", 1, RUNS_FOR_EVER)
    del manifest["spec"]["tasks"][0]["name"]
    for _ in range(2):
        stored = await cluster.client.patch(
            JOBS, "default", "unnamed", manifest, PatchType.APPLY, field_manager="kubectl", force=True
        )
        assert [task["name"] for task in stored["spec"]["tasks"]] == ["default0"]
    await cluster.client.delete(JOBS, "default", "unnamed")


async def test_a_change_of_volcanopys_object_is_in_volcanos(cluster: LocalCluster) -> None:
    await both(cluster, "default", state("Open"))
    await cluster.client.patch(OWN, None, "default", {"spec": {"deserved": {"cpu": "5"}, "maxRunningJobs": 7}})
    [_, copy] = await both(cluster, "default", lambda item: item["spec"].get("deserved") == {"cpu": "5"})
    assert copy["spec"]["maxRunningJobs"] == 7
    await cluster.client.patch(OWN, None, "default", {"spec": {"deserved": None, "maxRunningJobs": None}})
    await both(cluster, "default", lambda item: not {"deserved", "maxRunningJobs"} & item["spec"].keys())


async def test_a_command_for_volcanos_object_closes_and_opens_the_queue(cluster: LocalCluster) -> None:
    [_, copy] = await both(cluster, "default", state("Open"))
    target = {key: copy[key] for key in ("apiVersion", "kind")} | {
        key: copy["metadata"][key] for key in ("name", "uid")
    }
    for action, then in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
        command = {
            "apiVersion": COMMANDS.api_version,
            "kind": "Command",
            "metadata": {"name": action.lower()},
            "action": action,
            "target": target,
        }
        await cluster.client.create(COMMANDS, "default", command)
        await both(cluster, "default", state(then))


async def test_no_object_is_reported_as_ignored(cluster: LocalCluster) -> None:
    assert [event for event in (await cluster.client.list(EVENTS)).items if event["reason"] == "NameInUse"] == []


@pytest.mark.asyncio(loop_scope="function")
async def test_the_default_queue_of_a_cluster_in_which_volcano_was_stays_closed_and_is_created_again(
    embedded: Cluster,
) -> None:
    client, is_closed = embedded.client, state("Closed")
    for definition in crds_of((VOLCANO,)):
        await client.create(CRDS, None, definition)
    metadata = {"name": "default", "annotations": {VOLCANO.key(names.HIERARCHY): "root/a"}}
    body = {"apiVersion": VOLCANOS.api_version, "kind": "Queue", "metadata": metadata, "spec": {"weight": 5}}
    await client.create(VOLCANOS, None, body)
    await client.patch_status(VOLCANOS, None, "default", {"status": {"state": "Closed"}})
    async with controller(embedded, JobControllerSettings(api="both")):
        own = await until(client, OWN, "default", is_closed, None)
        assert own["spec"]["weight"] == 5
        assert own["metadata"]["annotations"][names.HIERARCHY] == "root/a"
        for kind in BOTH:
            deleted = await client.get(kind, None, "default")
            await client.delete(kind, None, "default")
            again = await until(client, kind, "default", is_closed, None)
            assert again["metadata"]["uid"] != deleted["metadata"]["uid"]
            assert again["spec"]["weight"] == 5
