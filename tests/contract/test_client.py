"""Our client and reflector against both servers: what the scripted server of their own tests stands for is so."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from embedded_apiserver.server import ApiServer
from tests.controlplane.fixtures import real_control_plane
from tests.kube.faulty_server import FakeTime
from tests.kube.reflector_runs import following, names_and_values
from tests.kube.shapes import PODS, RAW_PODS, Thing
from volcanopy.kube.client.api_client import Client, PatchType
from volcanopy.kube.client.connection import Connection, Credentials
from volcanopy.kube.client.decoding import Listing
from volcanopy.kube.client.errors import AlreadyExists, Conflict, Invalid, NotFound, TooManyRequests, Unauthorized
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import EVENTS
from volcanopy.kube.writes.event_writer import EventRecorder, ObjectReference
from volcanopy_local.cluster import self_signed

__all__ = ["real_control_plane"]

_NUMBERS = itertools.count(1)
NAMESPACES = Kind("", "v1", "Namespace", "namespaces", False, dict)
NODES = Kind("", "v1", "Node", "nodes", False, dict)
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps", True, dict)
BUDGETS = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, dict)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def connection(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connection]:
    """A connection to each server, through a kubeconfig as users have it."""
    if request.param == "real":
        yield load_connection(request.getfixturevalue("real_control_plane").kubeconfig)
        return
    server = await ApiServer.start(tls=self_signed())
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    yield load_connection(path)
    await server.stop()


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[Client]:
    async with Client(connection) as started:
        yield started


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    name = f"client-{next(_NUMBERS)}"
    await client.create(NAMESPACES, None, {"metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, None, name)


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


async def test_a_pod_is_created_bound_once_and_deleted(client: Client, namespace: str) -> None:
    made = await client.create(PODS, namespace, pod("p"))
    with pytest.raises(AlreadyExists):
        await client.create(PODS, namespace, pod("p"))
    with pytest.raises(Conflict):
        await client.bind(namespace, "p", "n1", uid="0f9a3c62-0000-4000-8000-000000000000")
    await client.bind(namespace, "p", "n1", uid=made.metadata.uid, annotations={"volcanopy.io/gpu-index": "0"})
    bound = await client.get(RAW_PODS, namespace, "p")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"volcanopy.io/gpu-index": "0"}
    with pytest.raises(Conflict):
        await client.bind(namespace, "p", "n1", uid=made.metadata.uid)
    with pytest.raises(NotFound):
        await client.bind(namespace, "q", "n1")
    status = {"status": {"phase": "Running"}}
    assert (await client.patch_status(RAW_PODS, namespace, "p", status))["status"]["phase"] == "Running"
    with pytest.raises(Conflict):
        await client.delete(PODS, namespace, "p", uid="0f9a3c62-0000-4000-8000-000000000000", grace=0)
    await client.delete(PODS, namespace, "p", uid=made.metadata.uid, grace=0)
    with pytest.raises(NotFound):
        await client.get(PODS, namespace, "p")
    with pytest.raises(NotFound):
        await client.delete(PODS, namespace, "p")


async def evict(client: Client, namespace: str, name: str, options: Json) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
    await client.post_raw(RAW_PODS.path(namespace, name, "eviction"), body, deadline=0.5)


async def test_an_eviction_deletes_a_pod_unless_a_disruption_budget_forbids_it(client: Client, namespace: str) -> None:
    await client.create(PODS, namespace, pod("free"))
    await evict(client, namespace, "free", {"gracePeriodSeconds": 0})
    with pytest.raises(NotFound):
        await client.get(PODS, namespace, "free")
    with pytest.raises(NotFound):
        await evict(client, namespace, "free", {})
    selector = {"matchLabels": {"app": "kept"}}
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
    await client.create(BUDGETS, namespace, budget)
    kept = await client.create(PODS, namespace, pod("kept", app="kept"))
    await client.bind(namespace, "kept", "n1", uid=kept.metadata.uid)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch_status(PODS, namespace, "kept", {"status": ready}, PatchType.STRATEGIC)
    with pytest.raises(TooManyRequests) as caught:
        await evict(client, namespace, "kept", {"preconditions": {"uid": kept.metadata.uid}})
    assert caught.value.has_cause("DisruptionBudget")


async def test_a_resource_slice_is_updated_without_loss_under_optimistic_locking(
    client: Client, namespace: str
) -> None:
    await client.create(RAW_PODS, namespace, pod("p", app="x"))
    calls = 0

    def relabel(item: dict[str, Any]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        item["metadata"]["labels"]["tries"] = str(calls)
        return item

    stale = await client.get(RAW_PODS, namespace, "p")
    await client.update_with_retry(RAW_PODS, namespace, "p", relabel)
    with pytest.raises(Conflict):
        await client.update(RAW_PODS, namespace, "p", stale)
    patch = {"metadata": {"labels": {"a": "b"}, "resourceVersion": stale["metadata"]["resourceVersion"]}}
    with pytest.raises(Conflict):
        await client.patch(RAW_PODS, namespace, "p", patch)
    await asyncio.gather(*(client.update_with_retry(RAW_PODS, namespace, "p", relabel) for _ in range(4)))
    now = await client.get(RAW_PODS, namespace, "p")
    assert calls >= 5
    assert now["metadata"]["labels"]["app"] == "x"
    assert now["spec"]["containers"][0]["image"] == "none"


async def test_every_patch_type_is_accepted(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, namespace, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    await client.patch(CONFIG_MAPS, namespace, "c", {"data": {"b": "2"}})
    await client.patch(CONFIG_MAPS, namespace, "c", {"data": {"c": "3"}}, PatchType.STRATEGIC)
    await client.patch(CONFIG_MAPS, namespace, "c", [{"op": "remove", "path": "/data/a"}], PatchType.JSON)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"b": "4"}}
    with pytest.raises(Conflict):
        await client.patch(CONFIG_MAPS, namespace, "c", applied, PatchType.APPLY, field_manager="other")
    done = await client.patch(CONFIG_MAPS, namespace, "c", applied, PatchType.APPLY, field_manager="other", force=True)
    assert done["data"] == {"b": "4", "c": "3"}


async def test_a_rejection_names_the_field(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(RAW_PODS, namespace, {**pod("p"), "spec": {"containers": []}})
    assert caught.value.details
    assert [cause.field for cause in caught.value.details.causes or ()] == ["spec.containers"]


async def test_a_wrong_token_is_unauthorized(connection: Connection) -> None:
    wrong = Connection(connection.url, Credentials({"Authorization": "Bearer wrong"}), connection.ssl)
    async with Client(wrong) as client:
        with pytest.raises(Unauthorized):
            await client.list(PODS, "default")


async def test_a_list_supports_pages_and_selectors(client: Client, namespace: str) -> None:
    for number in range(7):
        await client.create(PODS, namespace, pod(f"p{number}", parity=str(number % 2)))
    whole = await client.list(PODS, namespace, page=3)
    assert sorted(item.metadata.name for item in whole.items) == [f"p{number}" for number in range(7)]
    assert int(whole.resource_version) >= max(int(item.metadata.resource_version) for item in whole.items)
    odd = await client.list(PODS, namespace, label_selector="parity=1", field_selector="metadata.name!=p3")
    assert sorted(item.metadata.name for item in odd.items) == ["p1", "p5"]
    await client.delete_collection(PODS, namespace, label_selector="parity=1", grace=0)
    left = (await client.list(PODS, namespace)).items
    assert sorted(item.metadata.name for item in left) == ["p0", "p2", "p4", "p6"]


async def test_a_reflector_delivers_changes(client: Client, namespace: str) -> None:
    await client.create(PODS, namespace, pod("old", app="x"))
    time = FakeTime()
    async with following(client, time, namespace, label_selector="app") as (reflector, follower):
        assert follower.descriptions == ["Added old"]
        await client.create(PODS, namespace, pod("unseen"))
        first = await client.create(PODS, namespace, pod("p", app="x"))
        await client.bind(namespace, "p", "n1", uid=first.metadata.uid)
        await client.delete(PODS, namespace, "p", grace=0)
        await client.create(PODS, namespace, pod("p", app="y"))
        await client.patch(PODS, namespace, "old", {"metadata": {"labels": {"app": None}}})
        await client.create(PODS, namespace, pod("last", app="x"))
        await follower.until(f"{namespace}/last")
        # A deletion may be shown as a last modification first: how often an object changes is the server's affair.
        assert [word for word, _ in itertools.groupby(follower.descriptions[1:])] == [
            "Added p",
            "Modified p",
            "Deleted p",
            "Added p",
            "Deleted old",
            "Added last",
        ]
        listed: list[Thing] = (await client.list(PODS, namespace, label_selector="app")).items
        assert names_and_values(reflector.objects) == names_and_values(
            {f"{namespace}/{item.metadata.name}": item for item in listed}
        )
        assert follower.ends("fault") == 0


class DelayedClient(Client):
    """Its first list claims to be from before anything."""

    async def list(self, kind: Kind[Any], namespace: str | None = None, **options: Any) -> Listing[Any]:
        listing = await super().list(kind, namespace, **options)
        self.lists = getattr(self, "lists", 0) + 1
        return Listing(listing.items, "1") if self.lists == 1 else listing


async def test_an_expired_version_neither_loses_nor_duplicates_changes(connection: Connection, namespace: str) -> None:
    """One server may still have its history since then, the other answers 410 Gone: the result is the same."""
    async with DelayedClient(connection) as client:
        await client.create(PODS, namespace, pod("p"))
        async with following(client, FakeTime(), namespace) as (_, follower):
            await client.create(PODS, namespace, pod("q"))
            await follower.until(f"{namespace}/q")
            assert follower.descriptions == ["Added p", "Added q"]


async def test_an_event_is_created_and_counted(client: Client, namespace: str) -> None:
    made = await client.create(PODS, namespace, pod("p"))
    about = ObjectReference("v1", "Pod", "p", namespace, made.metadata.uid)
    async with EventRecorder(client, "volcanopy-scheduler") as recorder:
        recorder.record(about, "Warning", "Unschedulable", "0/1 nodes are available")
        await recorder.flush()
        recorder.record(about, "Warning", "Unschedulable", "0/1 nodes are available")
        await recorder.flush()
    (event,) = (await client.list(EVENTS, namespace, field_selector="involvedObject.name=p")).items
    assert (event["count"], event["reason"], event["source"]["component"]) == (
        2,
        "Unschedulable",
        "volcanopy-scheduler",
    )
