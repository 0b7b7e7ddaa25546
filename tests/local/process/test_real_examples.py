"""The examples for process nodes: their programs run for real, and their results are right."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.world import EXAMPLES, JOBS, phase_of
from tests.local.process.conftest import isolation_named
from volcanopy.cli.manifests import read
from volcanopy.kube.cache.watch import Reflector
from volcanopy.local.cluster import LocalCluster, Parts
from volcanopy.local.manifests import Creator
from volcanopy.local.process import machine
from volcanopy.local.process.kubelet import ProcessSettings


class Examples:
    """A cluster with two process nodes that runs examples."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    async def run(self, name: str, *jobs: str) -> None:
        """Create the objects of an example, and wait until its jobs are completed."""
        bodies = [manifest.body for manifest in read([str(EXAMPLES / name)])]
        await Creator(self.cluster.client).create(bodies)
        reflector = Reflector(self.cluster.client, JOBS)
        async with asyncio.timeout(60):
            async for _ in reflector.batches():
                phases = {job["metadata"]["name"]: phase_of(job) for job in reflector.objects.values()}
                assert "Failed" not in [phases.get(job) for job in jobs], phases
                if all(phases.get(job) == "Completed" for job in jobs):
                    return

    async def log(self, pod: str) -> str:
        """The log of a pod."""
        path = f"/api/v1/namespaces/default/pods/{pod}/log?container=main"
        return (await self.cluster.client.get_raw(path)).decode()


@pytest.fixture
async def examples(tmp_path: Path) -> AsyncIterator[Examples]:
    settings = ProcessSettings(tmp_path / "run", tmp_path / "claims", isolation_named("bubblewrap"))
    nodes = machine.manifests(2, 2, 4 << 30)
    async with LocalCluster(0, objects=nodes, parts=Parts(process=settings)) as cluster:
        yield Examples(cluster)


async def test_sums_a_sweep_an_array_and_a_flow_compute_their_results(examples: Examples) -> None:
    await examples.run("16-processes", "ring-sum", "sweep")
    assert [await examples.log(f"ring-sum-worker-{rank}") for rank in range(4)] == [
        f"rank {rank} of 4: sum of squares 30\n" for rank in range(4)
    ]
    assert await examples.log("sweep-collect-0") == "pi is about 3.141593\n"

    await examples.run("17-array", "primes")
    logs = [await examples.log(f"primes-index-{index}") for index in range(8)]
    counts = [303, 247, 233, 224, 222, 209, 214, 210]
    assert logs == [f"index {index}: {count} primes below {(index + 1) * 2000}\n" for index, count in enumerate(counts)]

    await examples.run("19-pipeline", "pipeline-generate", "pipeline-square", "pipeline-report")
    assert await examples.log("pipeline-report-main-0") == "sum of the squares up to 10: 385\n"
