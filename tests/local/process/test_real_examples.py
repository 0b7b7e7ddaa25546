"""The examples for process nodes: their programs run for real, and their results are right."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from embedded_apiserver.streams.command_streams import CommandStreams, Pipe
from tests.e2e.world import EXAMPLES, JOBS, phase_of
from tests.local.process.conftest import RUNTIMES, ProcessCluster, is_running, runtime_named
from volcanopy.cli.manifests import read
from volcanopy.client.manifests import Creator
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.kinds import Json
from volcanopy_local.cluster import LocalCluster, Parts
from volcanopy_local.process import machine
from volcanopy_local.process.kubelet import ProcessSettings
from volcanopy_local.process.measurements import descendants


def mounts() -> str:
    """What is mounted on this machine."""
    return Path("/proc/self/mounts").read_text()


def listening() -> set[str]:
    """The sockets of this process that listen, by their numbers."""
    own = {os.readlink(path) for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink()}
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {fields[9] for fields in lines if fields[3] == "0A" and f"socket:[{fields[9]}]" in own}


class Examples:
    """A cluster with two process nodes that runs examples."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    async def create(self, bodies: list[Json], *jobs: str, seconds: float = 120.0) -> None:
        """Create objects, and wait until their jobs are completed."""
        await Creator(self.cluster.client).create(bodies)
        reflector = Reflector(self.cluster.client, JOBS)
        async with asyncio.timeout(seconds):
            async for _ in reflector.batches():
                phases = {job["metadata"]["name"]: phase_of(job) for job in reflector.objects.values()}
                assert "Failed" not in [phases.get(job) for job in jobs], phases
                if all(phases.get(job) == "Completed" for job in jobs):
                    return

    async def type(self, pod: Json, text: bytes, expected: bytes | None) -> None:
        """Connect with the terminal of a pod, type, and disconnect when it shows what is expected; None: when it ends."""
        kubelet = self.cluster.process_kubelet
        assert kubelet is not None
        stdin, shown, output = Pipe(), asyncio.Event(), bytearray()

        async def show(data: bytes) -> None:
            output.extend(data)
            if expected is not None and expected in output:
                shown.set()

        attached = asyncio.create_task(kubelet.attach(pod, "main", CommandStreams(stdin, show)))
        waiting = asyncio.create_task(shown.wait())
        await stdin.write(text)
        async with asyncio.timeout(60):
            await asyncio.wait({attached, waiting}, return_when=asyncio.FIRST_COMPLETED)
        for task in (attached, waiting):
            task.cancel()
        await asyncio.wait({attached, waiting})
        assert shown.is_set() == (expected is not None), output.decode()


@asynccontextmanager
async def cluster_with(
    folder: Path,
    cpus: int,
    isolation: str,
) -> AsyncIterator[Examples]:
    """A cluster with two process nodes, which leaves no programs, mounts and ports behind."""
    settings = ProcessSettings(folder / "run", folder / "claims", runtime_named(isolation))
    nodes = machine.manifests(2, cpus, 4 << 30)
    programs, ports = set(descendants(os.getpid())), listening()
    parts = Parts(process=settings)
    async with LocalCluster(0, objects=nodes, parts=parts) as cluster:
        yield Examples(cluster)
    assert set(descendants(os.getpid())) <= programs
    assert listening() <= ports
    assert str(folder) not in mounts()


@pytest.mark.parametrize("isolation", RUNTIMES)
async def test_a_session_keeps_its_variables_while_nobody_is_connected(open_folder: Path, isolation: str) -> None:
    async with cluster_with(open_folder, 2, isolation) as examples:
        await examples.create([manifest.body for manifest in read([str(EXAMPLES / "25-session")])])
        pod = await ProcessCluster(examples.cluster, open_folder).until("session-main-0", is_running)
        await examples.type(pod, b"x = 6 * 7; print('x is', x)\n", b"x is 42")
        await examples.type(pod, b"print(x + 1)\n", b"43")
        await examples.type(pod, b"exit()\n", None)
        await examples.create([], "session")
