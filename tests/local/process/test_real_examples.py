"""The examples for process nodes: their programs run for real, and their results are right."""

import asyncio
import importlib.util
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.world import EXAMPLES, JOBS, phase_of
from tests.local.process.conftest import runtime_named
from volcanopy.cli.manifests import read
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.kinds import Json
from volcanopy.local.cluster import LocalCluster, Parts
from volcanopy.local.manifests import Creator
from volcanopy.local.process import machine
from volcanopy.local.process.kubelet import ProcessSettings
from volcanopy.local.process.measurements import descendants
from volcanopy.services.process.settings import SchedulerSettings


def mounts() -> str:
    """What is mounted on this machine."""
    return Path("/proc/self/mounts").read_text()


class Examples:
    """A cluster with two process nodes that runs examples."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    async def run(self, name: str, *jobs: str) -> None:
        """Create the objects of an example, and wait until its jobs are completed."""
        await self.create([manifest.body for manifest in read([str(EXAMPLES / name)])], *jobs)

    async def create(self, bodies: list[Json], *jobs: str) -> None:
        """Create objects, and wait until their jobs are completed."""
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


@asynccontextmanager
async def cluster_with(folder: Path, cpus: int, config: Path | None = None) -> AsyncIterator[Examples]:
    """A cluster with two process nodes, which leaves neither programs nor mounts behind."""
    settings = ProcessSettings(folder / "run", folder / "claims", runtime_named("bubblewrap"))
    nodes = machine.manifests(2, cpus, 4 << 30)
    programs = set(descendants(os.getpid()))
    parts = Parts(process=settings, scheduler=SchedulerSettings(config=config))
    async with LocalCluster(0, objects=nodes, parts=parts) as cluster:
        yield Examples(cluster)
    assert set(descendants(os.getpid())) <= programs
    assert str(folder) not in mounts()


@pytest.fixture
async def examples(tmp_path: Path) -> AsyncIterator[Examples]:
    async with cluster_with(tmp_path, 2) as examples:
        yield examples


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


async def test_a_preempted_pod_continues_at_its_checkpoint(tmp_path: Path) -> None:
    async with cluster_with(tmp_path, 2, EXAMPLES / "21-checkpoint" / "scheduler.conf") as examples:
        await examples.run("21-checkpoint/flow.yaml", "shared-train", "shared-urgent")
        logs = [await examples.log(f"shared-train-main-{index}") for index in range(2)]
        assert [log.splitlines()[-1] for log in logs] == ["100 steps add up to 5050"] * 2
        (resumed,) = (log.splitlines()[0] for log in logs if log.startswith("resumed"))
        assert 1 <= int(resumed.removeprefix("resumed at step ")) < 100


@pytest.mark.skipif(
    not shutil.which("mpirun") or not shutil.which("sshd", path="/usr/sbin"), reason="no OpenMPI, OpenSSH"
)
async def test_an_mpi_program_starts_on_its_workers_over_ssh(examples: Examples) -> None:
    await examples.run("18-mpi-processes", "mpi-pi")
    lines = [line for line in (await examples.log("mpi-pi-master-0")).splitlines() if line.startswith("rank")]
    hosts = ["mpi-pi-worker-0", "mpi-pi-worker-0", "mpi-pi-worker-1", "mpi-pi-worker-1"]
    assert sorted(lines) == [f"rank {rank} of 4 on {host}: pi is about 3.141593" for rank, host in enumerate(hosts)]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch")
async def test_pytorch_adds_up_ranks_with_gloo(examples: Examples) -> None:
    (body,) = (manifest.body for manifest in read([str(EXAMPLES / "05-pytorch")]))
    for task in body["spec"]["tasks"]:
        (container,) = task["template"]["spec"]["containers"]
        container["name"], container["resources"] = "main", {"requests": {"cpu": "100m"}}
        container["command"][0] = sys.executable
    await examples.create([body], "all-reduce")
    assert await examples.log("all-reduce-master-0") == "rank 0 of 4: the ranks add up to 6\n"
