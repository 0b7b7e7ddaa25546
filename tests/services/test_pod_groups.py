"""PodGroups for pods that are no job's, on an API server: made once, followed, given up, and left alone where they should be."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.services.service_cluster import Cluster, controller
from volcanopy.api import names
from volcanopy.kube.cache.followed_kinds import POD_GROUPS, PODS
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.api_view import ApiViews
from volcanopy.kube.client.errors import Invalid
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.writes.event_writer import EventRecorder
from volcanopy.services.controllers import pod_groups
from volcanopy.services.controllers.group_worker import WORKLOAD_PODS
from volcanopy.services.controllers.pod_groups import GroupController
from volcanopy.services.controllers.queues import QueueController
from volcanopy.services.controllers.workqueue import WorkQueue

DAEMON_SETS: Kind[Json] = Kind("apps", "v1", "DaemonSet", "daemonsets", True, dict)
REPLICA_SETS: Kind[Json] = Kind("apps", "v1", "ReplicaSet", "replicasets", True, dict)
KUBERNETES_JOBS: Kind[Json] = Kind("batch", "v1", "Job", "jobs", True, dict)

BURST = {"embedded": 1000, "real": 200}


def pod(name: str, owner: Json | None = None, notes: Json | None = None, **spec: Any) -> Json:
    """A pod that names our scheduler."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    metadata: Json = {"name": name, "annotations": notes or {}, "labels": {"app": "x"}}
    if owner:
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "volcanopy", "containers": [container], **spec},
    }


async def workload(cluster: Cluster, kind: Kind[Json], name: str, **notes: str) -> Json:
    """Make a workload, without replicas where it counts them; the reference that its pods carry."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod(name)["spec"]}
    spec: Json = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    if kind is REPLICA_SETS:
        spec["replicas"] = 0
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "annotations": notes}}
    made = await cluster.client.create(kind, cluster.namespace, manifest | {"spec": spec})
    uid = made["metadata"]["uid"]
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid, "controller": True}


async def create(cluster: Cluster, *pods: Json) -> None:
    """Create pods, many at a time."""
    pending = iter(pods)

    async def some() -> None:
        for item in pending:
            await cluster.client.create(PODS.raw, cluster.namespace, item)

    await asyncio.gather(*(some() for _ in range(32)))


def group_of(obj: Json) -> str:
    """The PodGroup that a pod names."""
    return str((obj["metadata"].get("annotations") or {}).get(names.GROUP_NAME, ""))


def named(pods: Iterable[Json]) -> set[str]:
    """The PodGroups that pods name."""
    return {group_of(pod) for pod in pods}


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> Counter[str]:
    """Counts what the controller writes in the test's namespace: PodGroups made, PodGroups changed, and each pod patched, by name."""
    counts: Counter[str] = Counter()
    create, patch = Client.create, Client.patch

    async def counted_create(self: Client, kind: Kind[Any], namespace: str, *args: Any, **more: Any) -> Any:
        counts["groups made"] += kind is POD_GROUPS and namespace == cluster.namespace
        return await create(self, kind, namespace, *args, **more)

    async def counted_patch(self: Client, kind: Kind[Any], namespace: str, name: str, *args: Any, **more: Any) -> Any:
        if namespace == cluster.namespace:
            counts["groups changed"] += kind is POD_GROUPS
            counts[name] += kind is WORKLOAD_PODS
        return await patch(self, kind, namespace, name, *args, **more)

    monkeypatch.setattr(Client, "create", counted_create)
    monkeypatch.setattr(Client, "patch", counted_patch)
    return counts


async def test_a_burst_of_pods_causes_one_group_and_one_patch_per_pod(
    cluster: Cluster, writes: Counter[str], request: pytest.FixtureRequest
) -> None:
    """Whatever kind the owner is of: this one is read, not watched."""
    cluster.plays = False
    burst = BURST[request.node.callspec.params["cluster"]]
    async with controller(cluster):
        owner = await workload(cluster, DAEMON_SETS, "burst", **{names.GROUP_MIN_MEMBER: "10"})
        await create(cluster, *(pod(f"p{number:04}", owner) for number in range(burst)))
        group = f"podgroup-{owner['uid']}"
        await cluster.until(lambda: len(cluster.pods) == burst and named(cluster.pods.values()) == {group}, 60)
    assert writes["groups made"] == 1
    assert writes["groups changed"] == 0
    assert {count for name, count in writes.items() if name.startswith("p")} == {1}
    spec = (await cluster.group("burst"))["spec"]
    assert (spec["minMember"], spec["minResources"]["cpu"]) == (10, "10")
    assert "queue" not in spec


@pytest.mark.parametrize(("completions", "member"), [(None, 4), (9, 4), (3, 3)])
async def test_the_pods_of_a_job_that_run_at_once_are_a_gang_if_it_asks_for_that(
    cluster: Cluster, completions: int | None, member: int
) -> None:
    cluster.plays = False
    job: Json = {"parallelism": 4, "suspend": True, "template": {"spec": pod("x")["spec"] | {"restartPolicy": "Never"}}}
    job |= {} if completions is None else {"completions": completions}
    notes = {names.GROUP_MIN_MEMBER: "all"}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sweep", "annotations": notes}, "spec": job}
    async with controller(cluster):
        made = await cluster.client.create(KUBERNETES_JOBS, cluster.namespace, body)
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "sweep", "uid": made["metadata"]["uid"]}
        await create(cluster, pod("sweep-0", reference | {"controller": True}))
        await cluster.until(lambda: "sweep" in cluster.groups)
    assert cluster.groups["sweep"]["spec"]["minMember"] == member


async def test_pods_with_their_own_group_or_another_scheduler_are_ignored(cluster: Cluster) -> None:
    cluster.plays = False
    async with controller(cluster):
        await create(
            cluster,
            pod("own", notes={names.GROUP_NAME: "mine"}),
            pod("other", schedulerName="default-scheduler"),
            pod("bare", notes={names.POD_QUEUE_NAME: "research"}),
        )
        await cluster.until(lambda: "bare" in cluster.groups and group_of(cluster.pods["bare"]) != "")
    assert cluster.groups.keys() == {"bare"}
    assert cluster.groups["bare"]["spec"]["queue"] == "research"
    assert group_of(cluster.pods["bare"]) == f"podgroup-{cluster.pods['bare']['metadata']['uid']}"
    assert group_of(cluster.pods["own"]) == "mine"
    assert group_of(cluster.pods["other"]) == ""


async def test_a_running_pod_that_somebody_else_has_bound_joins_a_group_of_its_queue(cluster: Cluster) -> None:
    """Without admission a pod may name its node: what it uses counts in its queue nevertheless."""
    cluster.plays = False
    await create(cluster, pod("bound", notes={names.POD_QUEUE_NAME: "research"}, nodeName="node-1"))
    running = {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}
    await cluster.client.patch_status(PODS.raw, cluster.namespace, "bound", running)
    async with controller(cluster):
        await cluster.until(lambda: "bound" in cluster.groups and group_of(cluster.pods["bound"]) != "")
    group = cluster.groups["bound"]
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (1, "research")
    assert group_of(cluster.pods["bound"]) == group["metadata"]["name"]


async def test_the_group_of_a_pod_is_recreated_while_the_pod_exists_and_deleted_with_it(cluster: Cluster) -> None:
    cluster.plays = False
    async with controller(cluster):
        await create(cluster, pod("bare"))
        await cluster.until(lambda: "bare" in cluster.groups and group_of(cluster.pods["bare"]) != "")
        first = cluster.groups["bare"]["metadata"]
        await cluster.client.delete(POD_GROUPS, cluster.namespace, first["name"])
        await cluster.until(
            lambda: [group["metadata"]["uid"] for group in cluster.groups.values()] not in ([], [first["uid"]])
        )
        await cluster.set_pod("bare", "Succeeded")
        await cluster.client.delete(PODS, cluster.namespace, "bare", grace=0)
        await cluster.until(lambda: not cluster.groups and not cluster.pods, 60)


async def test_a_cached_workload_is_reread_when_it_may_be_outdated(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second pod comes while the first answer is still good; what has changed meanwhile is found out all the same."""
    monkeypatch.setattr(pod_groups, "GOOD_FOR", 0.5)
    cluster.plays = False
    async with controller(cluster):
        owner = await workload(cluster, DAEMON_SETS, "set")
        await create(cluster, pod("p0", owner))
        await cluster.until(lambda: "set" in cluster.groups)
        notes = {"metadata": {"annotations": {names.GROUP_MIN_MEMBER: "2"}}}
        await cluster.client.patch(DAEMON_SETS, cluster.namespace, "set", notes)
        await create(cluster, pod("p1", owner))
        await cluster.until(lambda: cluster.groups["set"]["spec"]["minMember"] == 2)


async def job_sweep(cluster: Cluster, pods: int) -> Json:
    """Create a Job of Kubernetes whose pods are one gang and are left to the test; return it as the owner of its pods."""
    template = {"spec": pod("p")["spec"] | {"restartPolicy": "Never"}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    spec |= {"suspend": True, "managedBy": "example.com/other"}
    metadata = {"name": "sweep", "annotations": {names.GROUP_MIN_MEMBER: "all"}}
    owner = {"apiVersion": "batch/v1", "kind": "Job"}
    made = await cluster.client.create(KUBERNETES_JOBS, cluster.namespace, owner | {"metadata": metadata, "spec": spec})
    return owner | {"name": "sweep", "uid": made["metadata"]["uid"], "controller": True}


async def test_the_gang_of_a_job_that_runs_fewer_pods_is_smaller_once_a_pod_is_deleted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_groups, "GOOD_FOR", 0.0)
    cluster.plays = False
    async with controller(cluster):
        owner = await job_sweep(cluster, 2)
        await create(cluster, *(pod(f"sweep-{number}", owner) for number in range(2)))
        await cluster.until(lambda: "sweep" in cluster.groups and len(cluster.pods) == 2)
        await cluster.until(lambda: all(map(group_of, cluster.pods.values())))
        assert cluster.groups["sweep"]["spec"]["minMember"] == 2
        await cluster.client.patch(KUBERNETES_JOBS, cluster.namespace, "sweep", {"spec": {"parallelism": 1}})
        await cluster.client.delete(PODS.raw, cluster.namespace, "sweep-1", grace=0)
        await cluster.until(lambda: cluster.groups["sweep"]["spec"]["minMember"] == 1, 10)


async def test_succeeded_pods_of_a_job_that_are_gone_do_not_count_for_the_gang_of_the_others(cluster: Cluster) -> None:
    """Their node was removed, for example, before the last pod was evicted and created again."""
    cluster.plays = False
    async with controller(cluster):
        owner = await job_sweep(cluster, 4)
        await cluster.client.patch_status(KUBERNETES_JOBS, cluster.namespace, "sweep", {"status": {"succeeded": 3}})
        await create(cluster, pod("sweep-3", owner))
        assert (await cluster.group("sweep"))["spec"]["minMember"] == 1


async def test_rejected_writes_are_retried_and_immediately_when_a_queue_opens(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rejection of a PodGroup for a closed queue, as admission sends it."""
    cluster.plays = False
    create_anything, tried = Client.create, asyncio.Event()
    opened: list[str] = []

    async def refuse(self: Client, kind: Kind[Any], namespace: str | None, body: Any, **more: Any) -> Any:
        if kind is not POD_GROUPS or opened:
            return await create_anything(self, kind, namespace, body, **more)
        tried.set()
        raise Invalid(422, "Invalid", "queue 'q' is Closed")

    def long_pause(self: WorkQueue, key: str, *_: Any) -> float:
        self.add(key, 3600.0)
        return 3600.0

    monkeypatch.setattr(Client, "create", refuse)
    monkeypatch.setattr(WorkQueue, "failed", long_pause)
    client = cluster.client
    async with EventRecorder(client, "test") as recorder:
        groups = GroupController(client, recorder)
        queues = QueueController(ApiViews(client), recorder, groups.queue_opened)
        running = [asyncio.create_task(entry.run()) for entry in groups.followed()]
        running.append(asyncio.create_task(groups.work()))
        await create(cluster, pod("late"))
        await asyncio.wait_for(tried.wait(), 60)
        opened.append("q")
        for version, state in (("1", "Closed"), ("2", "Open")):
            metadata = {"name": "q", "uid": "q", "resourceVersion": version}
            queues.event("MODIFIED", {"kind": "Queue", "metadata": metadata, "status": {"state": state}})
        await cluster.until(lambda: "late" in cluster.groups)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class ReplicaSet:
    """A ReplicaSet whose pods are there: a real control plane makes them, on the embedded server we do."""

    def __init__(self, cluster: Cluster, real: bool) -> None:
        self.cluster, self._real = cluster, real
        self._owner: Json = {}

    async def scale(self, replicas: int) -> None:
        """Have so many pods."""
        cluster = self.cluster
        self._owner = self._owner or await workload(cluster, REPLICA_SETS, "web")
        await cluster.client.patch(REPLICA_SETS, cluster.namespace, "web", {"spec": {"replicas": replicas}})
        if not self._real:
            have = sorted(cluster.pods)
            await create(cluster, *(pod(f"web-{number}", self._owner) for number in range(len(have), replicas)))
            for name in have[replicas:]:
                await cluster.client.delete(PODS, cluster.namespace, name, grace=0)
        await cluster.until(lambda: len(cluster.pods) == replicas)

    async def annotate(self, **notes: str | None) -> None:
        """Change its annotations."""
        patch = {"metadata": {"annotations": notes}}
        await self.cluster.client.patch(REPLICA_SETS, self.cluster.namespace, "web", patch)

    @property
    def group(self) -> Json:
        """Its PodGroup, empty if there is none."""
        return self.cluster.groups.get("web", {})

    def joined(self) -> bool:
        """Whether all of its pods have its group."""
        return bool(self.group) and named(self.cluster.pods.values()) == {self.group["metadata"]["name"]}


async def test_workload_changes_take_effect_and_without_replicas_the_group_is_deleted(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    cluster.plays = False
    web = ReplicaSet(cluster, real=request.node.callspec.params["cluster"] == "real")
    async with controller(cluster):
        await web.scale(3)
        await cluster.until(web.joined)
        await web.annotate(**{names.GROUP_MIN_MEMBER: "2", names.PREEMPTABLE: "true"})
        await cluster.until(lambda: web.group["spec"]["minMember"] == 2)
        assert web.group["metadata"]["annotations"][names.PREEMPTABLE] == "true"
    await web.annotate(**{names.GROUP_MIN_MEMBER: "3", names.PREEMPTABLE: None})
    async with controller(cluster):
        await cluster.until(lambda: web.group["spec"]["minMember"] == 3)
        assert names.PREEMPTABLE not in web.group["metadata"].get("annotations", {})
        await web.scale(0)
        await cluster.until(lambda: not web.group)
        await web.scale(1)
        await cluster.until(web.joined)
    await web.scale(0)
    async with controller(cluster):
        await cluster.until(lambda: not web.group)
