"""Pods beyond the minimum of a job are created as those before them get nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobcontroller.world import World, job, task
from tests.nightly import examples
from volcanopy.jobcontroller import pods

MOST_WAITING = 3


@pytest.fixture(autouse=True, scope="module")
def few_waiting_pods() -> Any:
    """So many wait, instead of hundreds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pods, "MOST_WAITING_PODS", MOST_WAITING)
        yield


def of_task(world: World, number: int) -> list[str]:
    """The pods of a task in the order of their indexes."""
    return sorted(
        (name for name in world.pods if name.startswith(f"job-t{number}-")), key=lambda name: (len(name), name)
    )


def waiting(world: World, number: int) -> list[str]:
    """Those without a node."""
    return [name for name in of_task(world, number) if "nodeName" not in world.pods[name]["spec"]]


@examples(60)
@given(data=st.data(), replicas=st.lists(st.integers(1, 20), min_size=1, max_size=3))
def test_the_minimum_of_a_job_exists_at_once_few_others_wait_and_at_last_all_have_run(
    data: st.DataObject, replicas: list[int]
) -> None:
    total = sum(replicas)
    minimum = data.draw(st.integers(1, total), label="minimum")
    tasks = [task(f"t{number}", count) for number, count in enumerate(replicas)]
    world = World(job(*tasks, minAvailable=minimum)).settle().admit().settle()
    assert sum(len(of_task(world, number)) for number in range(len(replicas))) >= minimum
    steps = 0
    while sum(len(waiting(world, number)) for number in range(len(replicas))):
        for number, count in enumerate(replicas):
            without_node = waiting(world, number)
            assert len(without_node) <= minimum + MOST_WAITING
            assert len(of_task(world, number)) >= min(minimum, count), "any task can supply the minimum"
            for name in without_node[: data.draw(st.integers(0 if steps < total else 1, 8), label="nodes")]:
                world.pods[name]["spec"]["nodeName"] = "n1"
                world.run(name)
        world.settle()
        steps += 1
    assert len(world.created) == total
    world.succeed(*world.pods).settle()
    assert (world.phase, world.status["succeeded"]) == ("Completed", total)


def test_a_pod_that_waits_again_after_an_eviction_counts_as_one_that_waits() -> None:
    world = World(job(task("t0", 20), minAvailable=1)).settle().admit().settle()
    first = of_task(world, 0)
    assert len(first) == 1 + MOST_WAITING
    world.pods[first[0]]["spec"]["nodeName"] = "n1"
    world.run(first[0]).settle()
    assert len(of_task(world, 0)) == 2 + MOST_WAITING
    world.set_phase("Failed", first[0])
    world.settle()
    assert len(waiting(world, 0)) <= 1 + MOST_WAITING
