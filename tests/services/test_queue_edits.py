"""Changes of the tree of queues are judged one after another, whichever server judges them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tests.services.service_cluster import Cluster
from volcanopy.admission.context import Context
from volcanopy.admission.review import validate
from volcanopy.api import names
from volcanopy.api.model import Json
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.raw_kinds import CONFIG_MAPS
from volcanopy.services.admission.cluster_cache import QUEUES
from volcanopy.services.admission.queue_edits import KEPT, PAGE, QueueEdits

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def queue(name: str, **spec: Any) -> Json:
    return {"apiVersion": names.SCHEDULING_V1BETA1, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def raising(name: str, parent: str, cpu: int, operation: str = "UPDATE") -> Json:
    """The review of a change that gives a queue so much."""
    after, before = (queue(name, parent=parent, deserved={"cpu": amount}) for amount in (cpu, 2))
    kind = {"group": names.SCHEDULING, "version": "v1beta1", "kind": "Queue"}
    request = {"uid": "u", "kind": kind, "operation": operation, "name": name, "object": after}
    return {"request": request | ({"oldObject": before} if operation == "UPDATE" else {})}


@pytest.fixture
async def family(cluster: Cluster) -> list[str]:
    """A queue of ten with two parts of two each."""
    parent, *children = (f"{item}-{cluster.namespace}" for item in "pab")
    await cluster.client.create(QUEUES.raw, None, queue(parent, deserved={"cpu": 10}))
    for child in children:
        await cluster.client.create(QUEUES.raw, None, queue(child, parent=parent, deserved={"cpu": 2}))
    return [parent, *children]


async def is_allowed(edits: QueueEdits, body: Json) -> bool:
    request = edits.concerns(body)
    assert request is not None
    answer = await edits.judge(body, request, Context(), validate)
    return bool(answer["response"]["allowed"])


async def test_concurrent_servers_admit_one_of_two_conflicting_changes(cluster: Cluster, family: list[str]) -> None:
    """Neither change is stored in between: each server knows of the other's by the page alone."""
    parent, one, other = family
    servers = [QueueEdits(ApiViews(cluster.client), cluster.namespace, lambda: NOW) for _ in range(2)]
    bodies = [raising(one, parent, 7), raising(other, parent, 7)]
    outcomes = await asyncio.gather(*(is_allowed(server, body) for server, body in zip(servers, bodies, strict=True)))
    assert sorted(outcomes) == [False, True]


async def test_eight_concurrent_changes_stay_within_the_sum(cluster: Cluster, family: list[str]) -> None:
    """Six cpus are left: of eight new queues of two cpus each, three are let through."""
    servers = [QueueEdits(ApiViews(cluster.client), cluster.namespace, lambda: NOW) for _ in range(4)]
    bodies = [raising(f"n{n}-{cluster.namespace}", family[0], 2, "CREATE") for n in range(8)]
    outcomes = await asyncio.gather(*(is_allowed(servers[n % 4], body) for n, body in enumerate(bodies)))
    assert sum(outcomes) == 3


async def test_an_edit_that_was_never_stored_expires(cluster: Cluster, family: list[str]) -> None:
    parent, one, other = family
    now = NOW
    edits = QueueEdits(ApiViews(cluster.client), cluster.namespace, lambda: now)
    assert await is_allowed(edits, raising(one, parent, 7))
    assert not await is_allowed(edits, raising(other, parent, 7))
    now += KEPT + timedelta(seconds=1)
    assert await is_allowed(edits, raising(other, parent, 7))


async def test_a_stored_edit_is_removed_from_the_record(cluster: Cluster, family: list[str]) -> None:
    parent, one, other = family
    edits = QueueEdits(ApiViews(cluster.client), cluster.namespace, lambda: NOW)
    assert await is_allowed(edits, raising(one, parent, 4))
    await cluster.client.patch(QUEUES.raw, None, one, {"spec": {"deserved": {"cpu": 4}}})
    assert await is_allowed(edits, raising(other, parent, 6))
    page = await cluster.client.get(CONFIG_MAPS, cluster.namespace, PAGE)
    assert one not in page["data"]["edits"]
    assert other in page["data"]["edits"]


async def test_a_corrupt_record_is_replaced(cluster: Cluster, family: list[str]) -> None:
    page = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PAGE}, "data": {"edits": "[{]"}}
    await cluster.client.create(CONFIG_MAPS, cluster.namespace, page)
    edits = QueueEdits(ApiViews(cluster.client), cluster.namespace, lambda: NOW)
    assert await is_allowed(edits, raising(family[1], family[0], 8))


def test_edits_that_do_not_change_the_tree_need_no_record() -> None:
    edits = QueueEdits(ApiViews(cast(Client, None)), "x", lambda: NOW)
    assert edits.concerns(raising("a", "p", 2)) is None
    assert edits.concerns(raising("a", "p", 3)) is not None
    assert edits.concerns({"request": {"kind": {"kind": "Pod"}}}) is None
