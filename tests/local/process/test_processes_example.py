"""The example for process nodes: its programs run for real and find each other by name."""

import asyncio
from pathlib import Path

from tests.e2e.world import EXAMPLES, JOBS, phase_of
from tests.local.process.conftest import isolation_named
from volcanopy.cli.manifests import read
from volcanopy.kube.cache.watch import Reflector
from volcanopy.local.cluster import LocalCluster, Parts
from volcanopy.local.manifests import Creator
from volcanopy.local.process import machine
from volcanopy.local.process.kubelet import ProcessSettings


async def test_the_programs_of_the_example_compute_together(tmp_path: Path) -> None:
    settings = ProcessSettings(tmp_path / "run", tmp_path / "claims", isolation_named("bubblewrap"))
    nodes = machine.manifests(2, 2, 4 << 30)
    async with LocalCluster(0, objects=nodes, parts=Parts(process=settings)) as cluster:
        bodies = [manifest.body for manifest in read([str(EXAMPLES / "16-processes")])]
        await Creator(cluster.client).create(bodies)
        jobs = Reflector(cluster.client, JOBS)
        async with asyncio.timeout(60):
            async for _ in jobs.batches():
                if {phase_of(job) for job in jobs.objects.values()} == {"Completed"} and len(jobs.objects) == 2:
                    break

        async def log(pod: str) -> str:
            path = f"/api/v1/namespaces/default/pods/{pod}/log?container=main"
            return (await cluster.client.get_raw(path)).decode()

        assert [await log(f"ring-sum-worker-{rank}") for rank in range(4)] == [
            f"rank {rank} of 4: sum of squares 30\n" for rank in range(4)
        ]
        assert await log("sweep-collect-0") == "pi is about 3.141593\n"
