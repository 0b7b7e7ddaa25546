"""Pods that are no job's, from end to end: they get a group, wait for each other where they should, and run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.world import JOBS, POD_GROUPS, PODS, QUEUES, World, batch_job, condition
from volcanopy.api import names
from volcanopy.client.errors import CommandError
from volcanopy.client.explain.cluster_reads import job_or_group_of_pod
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.raw_kinds import EVENTS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "queues-and-groups.md"

CRON_JOBS: Kind[Json] = Kind("batch", "v1", "CronJob", "cronjobs", True, dict)
DEPLOYMENTS: Kind[Json] = Kind("apps", "v1", "Deployment", "deployments", True, dict)


def pod(name: str, cpu: str = "1", owner: Json | None = None, duration: str = "forever") -> Json:
    """A pod that names our scheduler."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    metadata: Json = {"name": name, "annotations": {"sim.volcanopy.io/duration": duration}, "labels": {"app": "x"}}
    spec = {"schedulerName": "volcanopy", "restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | ({"ownerReferences": [owner]} if owner else {}),
        "spec": spec,
    }


async def owner(cluster: World, **notes: str) -> Json:
    """A workload that no controller fills; the reference that its pods carry."""
    template = {"spec": pod("x")["spec"]}
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": template}}}
    manifest = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "set", "annotations": notes}}
    made = await cluster.client.create(CRON_JOBS, cluster.namespace, manifest | {"spec": spec})
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "set", "controller": True}
    return reference | {"uid": made["metadata"]["uid"]}


def phases(objects: list[Json]) -> list[str]:
    """The phases of pods or groups."""
    return [str((obj.get("status") or {}).get("phase", "")) for obj in objects]


async def test_a_bare_pod_completes_and_its_pod_group_is_deleted_with_it(cluster: World) -> None:
    await cluster.create(pod("lonely", duration="100ms"))
    await cluster.all_of(PODS, lambda pods: phases(pods) == ["Succeeded"])
    await cluster.all_of(POD_GROUPS, lambda groups: phases(groups) == ["Completed"])
    await cluster.client.delete(PODS, cluster.namespace, "lonely", grace=0)
    await cluster.all_of(POD_GROUPS, lambda groups: not groups, 60)


async def test_workload_pods_wait_for_their_minimum(cluster: World) -> None:
    """There is room for three pods of 5 cpu on three nodes of 8. Four must start at once: none does, until they need less."""
    reference = await owner(cluster, **{names.GROUP_MIN_MEMBER: "4"})
    await cluster.create(*(pod(f"p{number}", "5", reference) for number in range(4)))
    groups = await cluster.all_of(
        POD_GROUPS,
        lambda pod_groups: bool(pod_groups) and condition(pod_groups[0], "Unschedulable").get("status") == "True",
    )
    assert groups[0]["spec"]["minMember"] == 4
    pods = (await cluster.client.list(PODS, cluster.namespace)).items
    assert not any(pod["spec"].get("nodeName") for pod in pods)
    notes = {"metadata": {"annotations": {names.GROUP_MIN_MEMBER: "3"}}}
    await cluster.client.patch(CRON_JOBS, cluster.namespace, "set", notes)
    await cluster.client.delete(PODS, cluster.namespace, "p3", grace=0)
    await cluster.create(pod("p4", "5", reference))
    await cluster.all_of(PODS, lambda result: sorted(phases(result)) == ["Pending", "Running", "Running", "Running"])


async def test_a_queue_closes_after_its_last_pod_and_accepts_pods_when_reopened(cluster: World) -> None:
    queue = f"{cluster.namespace}-q"
    spec: Json = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": queue}, "spec": {}}
    early, late = (pod(name) for name in ("early", "late"))
    for item in (early, late):
        item["metadata"]["annotations"][names.POD_QUEUE_NAME] = queue
    await cluster.create(spec, early)
    await cluster.all_of(PODS, lambda pods: phases(pods) == ["Running"])
    await cluster.create(command("CloseQueue", queue))
    await cluster.all_of(QUEUES, lambda queues: state(queues, queue) == "Closing")
    await cluster.client.delete(PODS, cluster.namespace, "early", grace=0)
    await cluster.all_of(QUEUES, lambda queues: state(queues, queue) == "Closed", 60)
    await cluster.create(command("OpenQueue", queue))
    await cluster.all_of(QUEUES, lambda queues: state(queues, queue) == "Open")
    await cluster.create(late)
    await cluster.all_of(PODS, lambda pods: phases(pods) == ["Running"])
    await cluster.all_of(QUEUES, lambda queues: len(allocated_and_counts(queues, queue)) > 1)
    # Only an empty queue can be deleted.
    await cluster.client.delete(PODS, cluster.namespace, "late", grace=0)
    await cluster.all_of(QUEUES, lambda queues: not allocated_and_counts(queues, queue), 60)


def command(action: str, queue: str) -> Json:
    """A Command for a queue."""
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": queue, "uid": ""}
    kind = {"apiVersion": "bus.volcanopy.io/v1alpha1", "kind": "Command"}
    return kind | {"metadata": {"name": f"{action.lower()}-{queue}"}, "action": action, "target": target}


def allocated_and_counts(queues: list[Json], name: str) -> list[object]:
    """What a queue holds and what is in it."""
    status = next((q.get("status") or {} for q in queues if q["metadata"]["name"] == name), {})
    counts = [status.get(key, 0) for key in ("pending", "inqueue", "running", "unknown", "completed")]
    return [amount for amount in (*(status.get("allocated") or {}).values(), *counts) if amount not in {0, "0"}]


def state(queues: list[Json], name: str) -> str:
    """The state of a queue."""
    return next((str((q.get("status") or {}).get("state")) for q in queues if q["metadata"]["name"] == name), "")


@pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
async def test_a_deployment_runs_is_updated_and_scaled_to_zero(cluster: World) -> None:
    """Its controllers are those of Kubernetes, so this is for a real control plane."""
    blocks = guide()
    deployment = next(block for block in blocks if block["kind"] == "Deployment")
    await cluster.create(deployment)
    await cluster.all_of(PODS, lambda pods: phases(pods) == ["Running"] * 3)
    (group,) = await cluster.all_of(POD_GROUPS, lambda groups: phases(groups) == ["Running"])
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "default")
    template: Any = {"spec": {"priorityClassName": "system-cluster-critical"}}
    patch = {"spec": {"template": template, "strategy": {"type": "Recreate", "rollingUpdate": None}}}
    await cluster.client.patch(DEPLOYMENTS, cluster.namespace, "server", patch)
    first = group["metadata"]["uid"]
    (group,) = await cluster.all_of(
        POD_GROUPS,
        lambda groups: phases(groups) == ["Running"] and groups[0]["metadata"]["uid"] != first,
        60,
    )
    assert group["spec"]["priorityClassName"] == "system-cluster-critical"
    await cluster.client.patch(DEPLOYMENTS, cluster.namespace, "server", {"spec": {"replicas": 0}})
    await cluster.all_of(POD_GROUPS, lambda groups: not groups, 60)


def guide() -> list[Json]:
    """The manifests of the guide, in their order."""
    blocks = GUIDE.read_text().split("```yaml\n")[1:]
    return [item for block in blocks for item in yaml.safe_load_all(block.partition("```")[0])]


async def test_the_manifests_of_the_guide_have_the_documented_result(cluster: World) -> None:
    for manifest in guide():
        await cluster.create(manifest)
    for queue in ("school", "school-first-year"):
        await cluster.all_of(QUEUES, lambda queues, name=queue: state(queues, name) == "Closed")  # type: ignore[misc]
    await cluster.all_of(
        PODS, lambda pods: {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods}.get("once") == "Succeeded"
    )
    groups = (await cluster.client.list(POD_GROUPS, cluster.namespace)).items
    once = next(group for group in groups if group["metadata"]["ownerReferences"][0]["name"] == "once")
    assert once["metadata"]["annotations"][names.PREEMPTABLE] == "true"
    assert "sim.volcanopy.io/duration" not in once["metadata"]["annotations"]


async def test_a_job_has_only_the_pod_group_of_its_controller(cluster: World) -> None:
    await cluster.create(batch_job("own", 2, "1", duration="forever"))
    await cluster.job("own", "Running")
    groups = (await cluster.client.list(POD_GROUPS, cluster.namespace)).items
    assert [group["metadata"]["ownerReferences"][0]["kind"] for group in groups] == [JOBS.kind]


async def test_a_pod_whose_pod_group_does_not_exist_says_so(cluster: World) -> None:
    waiting = pod("p")
    waiting["metadata"]["annotations"][names.GROUP_NAME] = "nope"
    await cluster.create(waiting)
    missing = f'podgroup "{cluster.namespace}/nope" not found'

    def says_so(pods: list[Json]) -> bool:
        return [condition(each, "PodScheduled").get("message") for each in pods] == [missing]

    await cluster.all_of(PODS, says_so)
    await cluster.all_of(EVENTS, lambda events: [event["message"] for event in events] == [missing])
    with pytest.raises(CommandError, match='annotation names podgroup "nope", which is not found: create it'):
        await job_or_group_of_pod(cluster.client, cluster.namespace, "p")
