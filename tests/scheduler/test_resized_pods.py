"""In-place resize of running pods: the larger of spec and status counts until it is done; of an infeasible one the status."""

from typing import Any

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.api.builtin.resize import with_resized_requests
from volcanopy.kube.cache.followed_kinds import slim_pod
from volcanopy.scheduler.cache.bulk_load import BULK_SIZE
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy_testing.notation import NOW, world

INFEASIBLE = core.Condition(type="PodResizePending", status="True", reason="Infeasible")
DEFERRED = core.Condition(type="PodResizePending", status="True", reason="Deferred")


def pod(spec: str, actual: str = "", allocated: str = "", *conditions: core.Condition, name: str = "p") -> core.Pod:
    resources = core.ResourceRequirements(requests={"cpu": spec, "memory": "1Gi"})
    status: dict[str, Any] = {}
    if actual:
        status["resources"] = core.ResourceRequirements(requests={"cpu": actual, "memory": "1Gi"})
    if allocated:
        status["allocated_resources"] = {"cpu": allocated}
    return core.Pod(
        metadata=core.Meta(name=name, namespace="default", uid=name),
        spec=core.PodSpec(node_name="n1", containers=(core.Container(name="c", resources=resources),)),
        status=core.PodStatus(
            phase="Running",
            conditions=conditions,
            container_statuses=(core.ContainerStatus(name="c", **status),),
        ),
    )


CASES = [
    (pod("1"), 1000),
    (pod("1", "1", "1"), 1000),
    (pod("1", "3", "3"), 3000),
    (pod("1", "3", "1"), 3000),
    (pod("3", "1", "1"), 3000),
    (pod("3", "1", "1", DEFERRED), 3000),
    (pod("9", "1", "1", INFEASIBLE), 1000),
    (pod("9", "1", "2", INFEASIBLE), 2000),
    (pod("9", "", "", INFEASIBLE), 9000),
    (pod("500m", "0.6", ""), 600),
]


@pytest.mark.parametrize(("item", "expected"), CASES)
@pytest.mark.parametrize("slim", [False, True])
def test_the_amount_of_a_pod_that_is_resized(item: core.Pod, expected: int, slim: bool) -> None:
    state = State()
    for obj in world("node n1 cpu=4"):
        state.upsert(obj)
    state.upsert(slim_pod(item) if slim else item)
    assert state.snapshot(NOW).nodes.used["cpu"].tolist() == [expected]


def test_a_pod_that_is_not_resized_is_the_same_object() -> None:
    for item in (pod("1"), pod("1", "1", "1"), pod("1000m", "1")):
        assert with_resized_requests(item) is item


def test_the_amount_follows_the_resize_until_it_is_done() -> None:
    state, used = State(), list[int]()
    for obj in world("node n1 cpu=8"):
        state.upsert(obj)
    for item in (pod("4"), pod("2", "4", "4"), pod("2", "4", "2"), pod("2", "2", "2")):
        state.upsert(slim_pod(item))
        used += state.snapshot(NOW).nodes.used["cpu"].tolist()
    assert used == [4000, 4000, 4000, 2000]


def test_many_pods_at_once_count_as_one_by_one() -> None:
    pods = [pod("1", "3", "3", name=f"p{number}") for number in range(2 * BULK_SIZE)]
    state = State()
    for obj in world("node n1 cpu=800"):
        state.upsert(obj)
    state.load(pods)
    assert state.snapshot(NOW).nodes.used["cpu"].tolist() == [3000 * len(pods)]


def test_init_containers_are_resized_too() -> None:
    item = pod("1")
    sidecar = core.Container(
        name="s", restart_policy="Always", resources=core.ResourceRequirements(requests={"cpu": "1"})
    )
    status = core.ContainerStatus(name="s", resources=core.ResourceRequirements(requests={"cpu": "2"}))
    item = replace(
        item,
        spec=replace(item.spec, init_containers=(sidecar,)),
        status=replace(item.status, init_container_statuses=(status,)),
    )
    (container,) = with_resized_requests(item).spec.init_containers
    assert container.resources.requests == {"cpu": "2"}
