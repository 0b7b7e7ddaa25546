"""What a job asks the scheduler for."""

from typing import Any

import msgspec
import pytest

from tests.jobcontroller.world import World, job, task
from volcanopy.api import names
from volcanopy.api.batch import BatchJob
from volcanopy.api.core import PodGroup
from volcanopy.jobcontroller.job_podgroup import changes, min_resources, pod_group_spec, pod_usage


def read(*tasks: Any, **spec: Any) -> BatchJob:
    """A job."""
    return BatchJob.read(job(*tasks, **spec))


@pytest.mark.parametrize(
    ("member", "master", "worker", "cpu"), [(3, 1, 1, 200), (3, 1, None, 250), (2, 1, 1, 150), (2, None, 1, 100)]
)
def test_min_resources_count_the_pods_of_highest_priority(
    member: int, master: int | None, worker: int | None, cpu: int
) -> None:
    first = task("master", 2, cpu="50m", **({"minAvailable": master} if master else {}))
    first["template"]["spec"]["priorityClassName"] = "high"
    second = task("worker", 2, cpu="100m", **({"minAvailable": worker} if worker else {}))
    spec = read(second, first, minAvailable=member).spec
    assert min_resources(spec.tasks, member, {"high": 10})["cpu"] == cpu


def test_the_composed_example() -> None:
    ps, worker = task("ps"), task("gpu-worker", 2)
    ps["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 1}}
    worker["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 1, "nvidia.com/gpu": 1}}
    manifest = job(
        ps,
        worker,
        name="tf",
        queue="q1",
        minAvailable=3,
        labels={"team": "a"},
        annotations={"volcanopy.io/preemptable": "true"},
    )
    made = World(manifest).settle().pod_group
    assert made is not None
    assert made["metadata"]["name"] == "tf-u1"
    assert made["metadata"]["labels"] == {"team": "a", "volcanopy.io/job-name": "tf"}
    assert made["metadata"]["annotations"] == {"volcanopy.io/preemptable": "true", "volcanopy.io/job-version": "0"}
    assert made["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch.volcanopy.io/v1alpha1",
            "kind": "BatchJob",
            "name": "tf",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert made["spec"] == {
        "minMember": 3,
        "minTaskMember": {"ps": 1, "gpu-worker": 2},
        "queue": "q1",
        "minResources": {
            "count/pods": "3",
            "cpu": "3",
            "limits.cpu": "3",
            "nvidia.com/gpu": "2",
            "pods": "3",
            "requests.cpu": "3",
            "requests.nvidia.com/gpu": "2",
        },
    }


def test_partitions_are_sub_groups() -> None:
    policy = {
        "totalPartitions": 3,
        "partitionSize": 2,
        "minPartitions": 2,
        "networkTopology": {"highestTierAllowed": 1},
    }
    spec = pod_group_spec(read(parted := task(replicas=6, partitionPolicy=policy)), read(parted).spec.tasks, {})
    assert spec["minTaskMember"] == {"a": 4}
    assert spec["subGroupPolicy"] == [
        {
            "name": "a",
            "subGroupSize": 2,
            "minSubGroups": 2,
            "labelSelector": {"matchLabels": {"volcanopy.io/task-spec": "a"}},
            "matchLabelKeys": ["volcanopy.io/partition-id"],
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
    ]


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "2"}}}]}, 3000),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [{}], "initContainers": [{"resources": {"requests": {"cpu": "3"}}}]}, 3000),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    {"resources": {"requests": {"cpu": "2"}}},
                ],
            },
            3000,
        ),
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}], "overhead": {"cpu": "100m"}}, 1100),
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}], "resources": {"requests": {"cpu": "5"}}}, 5000),
    ],
)
def test_a_pod_counts_with_its_peak_requests(spec: dict[str, Any], cpu: int) -> None:
    assert pod_usage(spec)["cpu"] == cpu


def test_the_group_is_marked_while_the_server_rejects_pods() -> None:
    world = World(job(task(replicas=2))).settle().admit()
    world.trouble = 'pods "job-a-0" is forbidden: exceeded quota: compute'
    world.step()
    assert world.pod_group is not None
    assert world.pod_group["metadata"]["annotations"][names.PODS_REJECTED] == "true"
    world.trouble = ""
    world.settle()
    assert names.PODS_REJECTED not in world.pod_group["metadata"]["annotations"]


def test_an_equal_group_is_not_updated_for_another_quantity_format() -> None:
    desired = pod_group_spec(read(task(replicas=2, cpu="1500m")), read(task(replicas=2, cpu="1500m")).spec.tasks, {})
    result = desired | {"minResources": desired["minResources"] | {"cpu": "3000m", "requests.cpu": 3}}
    assert changes(desired, msgspec.convert({"metadata": {}, "spec": result}, PodGroup)) == {}


def test_outdated_fields_are_removed_by_name() -> None:
    before = pod_group_spec(read(task("a"), task("b")), read(task("a"), task("b")).spec.tasks, {})
    after = pod_group_spec(read(task("a")), read(task("a")).spec.tasks, {})
    patch = changes(after, msgspec.convert({"metadata": {}, "spec": before}, PodGroup))
    assert patch["spec"]["minTaskMember"] == {"b": None, "a": 1}
