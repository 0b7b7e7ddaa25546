"""Jobs with alternatives on simulated nodes: their pods request what was selected, and they complete."""

from tests.e2e.world import EXAMPLES, JOBS, PODS, World, example, phase_of
from volcanopy.api import names
from volcanopy.cli.manifests import read
from volcanopy.kube.client.kinds import Json
from volcanopy_local.cluster import LocalCluster
from volcanopy_local.simulated.nodes import copy_of

FOLDER = EXAMPLES / "26-alternatives"
OTHER: Json = {
    "apiVersion": names.BATCH_V1ALPHA1,
    "kind": "BatchJob",
    "metadata": {"name": "other", "namespace": "default"},
    "spec": {
        "runningEstimate": "1h",
        "tasks": [
            {
                "name": "main",
                "template": {
                    "metadata": {"annotations": {"sim.volcanopy.io/duration": "1h"}},
                    "spec": {
                        "containers": [
                            {"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
                        ]
                    },
                },
            }
        ],
    },
}


def limits(pods: list[Json], job: str) -> list[Json]:
    """The resources of the pods of a job."""
    own = [pod for pod in pods if pod["metadata"]["name"].startswith(f"{job}-")]
    return [pod["spec"]["containers"][0]["resources"] for pod in own]


async def test_a_free_gpu_is_used_and_cpus_while_another_job_uses_it() -> None:
    nodes = [copy_of(item.body) for item in read([str(FOLDER / "cluster")])]
    async with LocalCluster(0, objects=nodes) as local:
        world = World(local.components, "default", FOLDER)
        await world.create(*example("26-alternatives"))
        pods = await world.all_of(PODS, lambda pods: len(limits(pods, "train")) == 1)
        assert limits(pods, "train")[0]["limits"] == {"nvidia.com/gpu": "1"}
        jobs = await world.all_of(JOBS, lambda jobs: [phase_of(job) for job in jobs] == ["Completed"])
        assert jobs[0]["status"]["alternative"]["name"] == "gpu"

        await world.create(OTHER)
        await world.all_of(JOBS, lambda jobs: sorted(map(phase_of, jobs)) == ["Completed", "Running"])
        (second,) = example("26-alternatives")
        await world.create({**second, "metadata": {**second["metadata"], "name": "again"}})
        pods = await world.all_of(PODS, lambda pods: len(limits(pods, "again")) == 1)
        assert limits(pods, "again")[0]["requests"] == {"cpu": "2", "memory": "1Gi"}
        jobs = await world.all_of(
            JOBS, lambda jobs: sorted(map(phase_of, jobs)) == ["Completed", "Completed", "Running"]
        )
        (again,) = [job for job in jobs if job["metadata"]["name"] == "again"]
        assert again["status"]["alternative"]["name"] == "cpu"
        assert again["status"]["alternative"]["message"].startswith("gpu starts ")
