"""Each example runs to its end, whatever is new in it."""

import pytest

from tests.e2e.world import DURATION, EXAMPLES, JOBS, PODS, QUEUES, World, batch_job, example, phase_of
from volcanopy.kube.kinds import Json


def test_the_examples_are_numbered_and_have_a_line_in_the_readme() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    folders = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    assert folders[:3] == ["01-hello", "02-gang", "03-queues"]
    for folder in folders:
        assert f"({folder})" in readme


@pytest.mark.parametrize("name", ["01-hello", "02-gang", "03-queues"])
async def test_an_example_completes(cluster: World, name: str) -> None:
    bodies = example(name)
    await cluster.create(*bodies)
    count = sum(body["kind"] == "BatchJob" for body in bodies)
    await cluster.all_of(JOBS, lambda jobs: sum(phase_of(job) == "Completed" for job in jobs) == count)
    pods = (await cluster.client.list(PODS, cluster.namespace)).items
    assert len(pods) == sum(
        task["replicas"] for body in bodies if body["kind"] == "BatchJob" for task in body["spec"]["tasks"]
    )
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}


async def test_two_queues_share_a_full_cluster_by_their_weights(cluster: World) -> None:
    """When a full cluster falls free, the queue of weight 3 gets three times as much as that of weight 1."""
    await cluster.create(batch_job("before", 24, "1", duration="forever"))
    await cluster.job("before", "Running")
    queues, jobs = example("03-queues")[:2], example("03-queues")[2:]
    for task in (task for job in jobs for task in job["spec"]["tasks"]):
        task["replicas"] = 24
        task["template"]["metadata"]["annotations"][DURATION] = "forever"
    await cluster.create(*queues, *jobs)
    await cluster.all_of(PODS, lambda pods: len(pods) == 3 * 24)
    await cluster.client.delete(JOBS, cluster.namespace, "before", propagation="Background")
    wanted = {"research": "18", "teaching": "6"}
    await cluster.all_of(QUEUES, lambda found: held(found) | wanted == held(found))


def held(queues: list[Json]) -> dict[str, str]:
    """How many cpu each queue holds."""
    return {
        queue["metadata"]["name"]: str(((queue.get("status") or {}).get("allocated") or {}).get("cpu", 0))
        for queue in queues
    }
