"""Each example runs to its end, whatever is new in it."""

from collections.abc import Callable

import pytest

from tests.e2e.world import (
    CRON_JOBS,
    DURATION,
    EXAMPLES,
    FLOWS,
    JOBS,
    PODS,
    QUEUES,
    World,
    batch_job,
    condition,
    example,
    phase_of,
)
from volcanopy.kube.client.kinds import Json


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


ENDS: dict[str, dict[str, tuple[str, dict[str, int]]]] = {
    "04-mpi": {"mpi-hello": ("Completed", {"master": 1})},
    "05-pytorch": {"all-reduce": ("Completed", {"master": 1, "worker": 3})},
    "06-tensorflow": {"regression": ("Completed", {"chief": 1})},
    "07-ray": {"raysum": ("Completed", {"submit": 1})},
    "12-elastic": {"sweep": ("Completed", {})},
    "13-partitions": {"copies": ("Completed", {"shard": 6})},
    "14-user-limits": {name: ("Completed", {"survey": 2}) for name in ("north", "east", "south", "west")},
    "26-alternatives": {"train": ("Completed", {"main": 1})},
    "15-lending": {"scans": ("Completed", {"scan": 10}), "study": ("Completed", {"sample": 4})},
    "09-policies": {
        "unlucky": ("Failed", {}),
        "search": ("Completed", {}),
        "driven": ("Completed", {"driver": 1}),
        "misread": ("Terminated", {}),
    },
}
"""How the jobs of an example end, and how many pods of which task must have succeeded by then."""
CHECKS: dict[str, Callable[[Json], bool]] = {
    "sweep": lambda status: 16 <= status["succeeded"] < 32,  # complete when enough of its pods have succeeded
    "unlucky": lambda status: status["retryCount"] == 2,
    "misread": lambda status: not status.get("retryCount"),
}
"""What else holds for the status of a job."""


@pytest.mark.parametrize("name", ENDS)
async def test_an_example_ends_as_documented(cluster: World, name: str) -> None:
    await cluster.create(*example(name))
    for job, (phase, succeeded) in ENDS[name].items():
        status = (await cluster.job(job, phase))["status"]
        assert status["state"]["reason"]
        assert status["state"]["message"]
        assert CHECKS.get(job, bool)(status)
        counts = {task: count.get("phase", {}) for task, count in status["taskStatusCount"].items()}
        assert {task: counts[task].get("Succeeded", 0) for task in succeeded} == succeeded
    await cluster.all_of(PODS, lambda pods: all(pod["status"]["phase"] in {"Succeeded", "Failed"} for pod in pods))


async def test_a_flow_runs_jobs_in_dependency_order(cluster: World) -> None:
    await cluster.create(*example("10-flow"))
    (flow,) = await cluster.all_of(FLOWS, lambda flows: [phase_of(item) for item in flows] == ["Succeed"])
    jobs = {item["name"]: item for item in flow["status"]["jobStatusList"]}
    assert list(jobs) == ["fetch", "clean", "clean-more", "serve", "evaluate"]
    assert jobs["clean"]["startTimestamp"] >= jobs["fetch"]["endTimestamp"]
    assert jobs["evaluate"]["startTimestamp"] <= jobs["serve"]["endTimestamp"]
    pods = (await cluster.client.list(PODS, cluster.namespace)).items
    assert sum(pod["metadata"]["name"].startswith("pipeline-clean-more-") for pod in pods) == 4


async def test_a_cron_job_makes_jobs_one_after_another(cluster: World) -> None:
    bodies = example("11-cron")
    bodies[0]["spec"]["schedule"] = "@every 1s"
    await cluster.create(*bodies)
    (cron,) = await cluster.all_of(
        CRON_JOBS, lambda cron_jobs: bool((cron_jobs[0].get("status") or {}).get("lastSuccessfulTime"))
    )
    first = cron["status"]["lastScheduleTime"]
    await cluster.all_of(CRON_JOBS, lambda cron_jobs: cron_jobs[0]["status"]["lastScheduleTime"] > first)
    await cluster.client.delete(CRON_JOBS, cluster.namespace, "report", propagation="Background")
    await cluster.all_of(JOBS, lambda jobs: not jobs)


async def test_a_dependent_task_starts_when_the_others_are_ready(cluster: World) -> None:
    """The pods of each task are made after those that they wait for have become ready."""
    await cluster.create(*example("08-dependencies"))
    made: dict[str, str] = {}
    ready: dict[str, str] = {}

    def over(pods: list[Json]) -> bool:
        for pod in pods:
            name = pod["metadata"]["name"].removeprefix("survey-")
            made[name] = pod["metadata"]["creationTimestamp"]
            if condition(pod, "Ready").get("status") == "True":
                ready.setdefault(name, condition(pod, "Ready")["lastTransitionTime"])
        return "report-0" in made and "store-0" in ready

    await cluster.all_of(PODS, over)
    waiting = [name for name in made if name.startswith(("counter", "sampler"))]
    assert sorted(waiting) == ["counter-0", "counter-1", "counter-2", "sampler-0", "sampler-1"]
    assert all(made[name] >= ready["store-0"] for name in waiting)
    assert made["report-0"] >= max(made[name] for name in waiting)
    counts = (await cluster.job("survey", "Completed"))["status"]["taskStatusCount"]
    assert counts["report"]["phase"] == {"Succeeded": 1}


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
    await cluster.all_of(QUEUES, lambda result: allocated(result) | wanted == allocated(result))


def allocated(queues: list[Json]) -> dict[str, str]:
    """How many cpu each queue holds."""
    return {
        queue["metadata"]["name"]: str(((queue.get("status") or {}).get("allocated") or {}).get("cpu", 0))
        for queue in queues
    }
