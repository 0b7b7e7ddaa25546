"""The embedded cluster as a whole: it starts, serves, persists its objects if configured, and stops completely."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.world import JOBS, PODS, batch_job, phase_of
from tests.loop_time import loop_time
from volcanopy.client.manifests import CreateError, Creator
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy_local import cluster as cluster_module
from volcanopy_local.cluster import ClusterError, Components, LocalCluster, Parts, connection_to
from volcanopy_local.simulated import nodes

CLIENT_ONLY = Parts(scheduler=None, controller=None, admission=None)
REVIEWS: Kind[Json] = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, dict)
NODES: Kind[Json] = Kind("", "v1", "Node", "nodes", False, dict)


async def completed(client: Client, name: str) -> None:
    reflector, changed = Reflector(client, JOBS), asyncio.Event()
    following = asyncio.create_task(reflector.run(lambda _: changed.set()))
    async with asyncio.timeout(60):
        while phase_of(reflector.objects.get(f"default/{name}", {})) != "Completed":
            changed.clear()
            await changed.wait()
    following.cancel()


@pytest.mark.parametrize("tls", [False, True])
async def test_a_job_completes_on_it(tls: bool) -> None:
    async with LocalCluster(1, tls=tls) as cluster:
        assert cluster.url.startswith("https://127.0.0.1:" if tls else "http://127.0.0.1:")
        await Creator(cluster.client).create([batch_job("hello", 1, "1", duration="100ms")])
        await completed(cluster.client, "hello")


@pytest.mark.parametrize(
    ("role", "verb", "resource", "expected"),
    [
        ("edit", "create", "batch.volcanopy.io/batchjobs", True),
        ("edit", "create", "batch.volcano.sh/jobs", True),
        ("edit", "list", "scheduling.volcanopy.io/queues", True),
        ("edit", "update", "scheduling.volcanopy.io/queues", False),
        ("view", "get", "batch.volcanopy.io/batchjobs", True),
        ("view", "get", "batch.volcanopy.io/jobhistories", True),
        ("view", "delete", "batch.volcanopy.io/batchjobs", False),
    ],
)
async def test_the_usual_roles_cover_jobs_where_rights_are_enforced(
    role: str, verb: str, resource: str, expected: bool
) -> None:
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ana", "namespace": "default"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "ana"}],
    }
    group, _, plural = resource.partition("/")
    wanted = {"namespace": "default", "verb": verb, "group": group, "resource": plural}
    spec = {"user": "ana", "groups": ["system:authenticated"], "resourceAttributes": wanted}
    async with LocalCluster(0, tls=True, rbac=True, parts=CLIENT_ONLY) as cluster:
        await Creator(cluster.client).create([binding])
        answer = await cluster.client.create(REVIEWS, None, {"metadata": {}, "spec": spec})
    assert answer["status"]["allowed"] is expected


async def test_it_stops_within_a_few_seconds_and_leaves_no_task_behind() -> None:
    async with loop_time() as elapsed:
        before = asyncio.all_tasks()
        async with LocalCluster(1) as cluster:
            await Creator(cluster.client).create([batch_job("long", 1, "1", duration="forever")])
            began = elapsed()
        assert elapsed() - began < 5
        assert asyncio.all_tasks() == before


async def test_persisted_objects_are_available_in_the_next_cluster(tmp_path: Path) -> None:
    file = tmp_path / "cluster"
    async with LocalCluster(1, persist=file, parts=CLIENT_ONLY) as first:
        await Creator(first.client).create([batch_job("kept", 1, "1", duration="100ms")])
    async with LocalCluster(0, persist=file) as second:
        assert [node["metadata"]["name"] for node in (await second.client.list(NODES)).items] == ["node-1"]
        await completed(second.client, "kept")


async def test_a_port_in_use_is_an_os_error() -> None:
    async with LocalCluster(0, parts=CLIENT_ONLY) as cluster:
        port = int(cluster.url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            await LocalCluster(0, port=port, parts=CLIENT_ONLY).__aenter__()


async def test_a_component_that_cannot_start_is_named_with_its_reason(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("actions: enqueue, alocate\n")
    with pytest.raises(ClusterError, match=r"scheduler failed: .*'alocate', did you mean 'allocate'"):
        await LocalCluster(0, parts=Parts(scheduler=SchedulerSettings(config=config))).__aenter__()


async def test_a_component_that_ends_unexpectedly_is_detected() -> None:
    async with LocalCluster(0, parts=CLIENT_ONLY) as cluster:
        part = next(task for task in asyncio.all_tasks() if task.get_name() == "kubelet")
        part.cancel()
        async with asyncio.timeout(60):
            assert str(await cluster.fault()) == "kubelet failed: stopped unexpectedly"


class StartingController:
    """A component that reads for some turns of the start, or none, and is ready then."""

    turns = 0

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self, stop: asyncio.Event, ready: asyncio.Event) -> None:
        async with loop_time() as elapsed:
            while elapsed() < self.turns * cluster_module.TURN:
                await self._client.list(NODES)
        if self.turns:
            ready.set()
        await stop.wait()


async def test_a_start_may_take_long_while_it_reads_and_one_that_hangs_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_module, "ClaimController", StartingController)
    monkeypatch.setattr(cluster_module, "TURN", 0.05)
    monkeypatch.setattr(cluster_module, "MOST_IDLE_TURNS", 10)
    monkeypatch.setattr(StartingController, "turns", 30)
    async with LocalCluster(0, parts=CLIENT_ONLY):
        pass
    monkeypatch.setattr(StartingController, "turns", 0)
    with pytest.raises(ClusterError, match="claim controller not ready, no successful read"):
        await LocalCluster(0, parts=CLIENT_ONLY).__aenter__()


async def test_the_log_can_be_followed_to_the_end() -> None:
    async with LocalCluster(1, parts=CLIENT_ONLY) as cluster:
        container = {"name": "main", "image": "busybox"}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "annotations": {"sim.volcanopy.io/duration": "500ms"}},
            "spec": {"restartPolicy": "Never", "nodeName": "node-1", "containers": [container]},
        }
        await cluster.client.create(PODS, "default", body)
        reflector = Reflector(cluster.client, PODS)
        async with asyncio.timeout(60):
            async for _ in reflector.batches():
                if reflector.objects["default/p"]["status"]["phase"] == "Running":
                    break
            path = "/api/v1/namespaces/default/pods/p/log"
            followed = await cluster.client.get_raw(f"{path}?follow=true")
            assert followed == await cluster.client.get_raw(path)
        assert followed.decode().splitlines()[-1].startswith("simulated: ended with exit code 0")


async def test_nodes_may_be_those_of_another_cluster() -> None:
    dumped: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "far", "uid": "u", "resourceVersion": "7", "labels": {"rack": "a"}, "managedFields": []},
        "spec": {"providerID": "x://y", "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "96"}, "nodeInfo": {"kubeletVersion": "v1"}, "conditions": []},
    }
    async with LocalCluster(0, objects=[nodes.copy_of(dumped)], parts=CLIENT_ONLY) as cluster:
        node = await cluster.client.get(NODES, None, "far")
    assert (node["metadata"]["labels"], node["status"]["allocatable"]["cpu"]) == ({"rack": "a"}, "96")
    assert node["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            {"apiVersion": "v1", "kind": "Pot", "metadata": {"name": "x"}},
            "Pot x: the cluster does not serve kind Pot of v1",
        ),
        (
            {"apiVersion": "a.b/v1", "kind": "C", "metadata": {"name": "x"}},
            "C x: the cluster does not serve apiVersion a.b/v1",
        ),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}, "Pod x: .*spec.containers"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "dat": {}},
            'ConfigMap x: .*unknown field "dat"',
        ),
    ],
)
async def test_a_rejected_object_is_named_with_the_reason(body: Json, why: str) -> None:
    async with LocalCluster(0, parts=CLIENT_ONLY) as cluster:
        with pytest.raises(CreateError, match=why):
            await Creator(cluster.client).create([body])


async def test_namespaces_are_made_and_what_exists_is_changed() -> None:
    maps: Kind[Json] = Kind("", "v1", "ConfigMap", "configmaps", True, dict)
    async with LocalCluster(0, parts=CLIENT_ONLY) as cluster:
        creator = Creator(cluster.client)
        for value in ("1", "2"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "new"}}
            await creator.create([{**body, "data": {"key": value}}])
        assert (await cluster.client.get(maps, "new", "c"))["data"] == {"key": "2"}


async def test_controllers_use_only_the_api_of_the_embedded_server() -> None:
    """Two of them on one server: the second serves what the first has left."""
    async with LocalCluster(1, parts=CLIENT_ONLY) as cluster:
        async with Components(connection_to(cluster.server)) as services:
            await Creator(services.client).create([batch_job("one", 1, "1", duration="100ms")])
            await completed(services.client, "one")
        async with Components(connection_to(cluster.server)) as services:
            await Creator(services.client).create([batch_job("two", 1, "1", duration="100ms")])
            await completed(services.client, "two")
