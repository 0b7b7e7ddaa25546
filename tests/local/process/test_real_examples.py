"""The examples for process nodes: their programs run for real, and their results are right."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from embedded_apiserver.streams.command_streams import CommandStreams, Pipe
from tests.e2e.world import EXAMPLES, JOBS, phase_of
from tests.local.process.conftest import RUNTIMES, ProcessCluster, is_running, runtime_named
from volcanopy.cli.manifests import read
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.kinds import Json
from volcanopy.local.cluster import LocalCluster, Parts
from volcanopy.local.process import machine
from volcanopy.local.process.container_spec import DEFAULT_PATH
from volcanopy.local.process.kubelet import ProcessSettings
from volcanopy.local.process.measurements import descendants
from volcanopy.operations.manifests import Creator


def mounts() -> str:
    """What is mounted on this machine."""
    return Path("/proc/self/mounts").read_text()


def listening() -> set[str]:
    """The sockets of this process that listen, by their numbers."""
    own = {os.readlink(path) for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink()}
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {fields[9] for fields in lines if fields[3] == "0A" and f"socket:[{fields[9]}]" in own}


def search_path_with(module: str) -> str:
    """Where a `python3` is that has this module: beside that of the tests, or on the PATH. Skips the test without one."""
    program = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    for python in (sys.executable, shutil.which("python3")):
        if python and subprocess.run([python, "-c", program], check=False).returncode == 0:
            return f"{Path(python).parent}:{DEFAULT_PATH}"
    pytest.skip(f"no {module}")


class Examples:
    """A cluster with two process nodes that runs examples."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    async def create(self, bodies: list[Json], *jobs: str, seconds: float = 60) -> None:
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

    async def log(self, pod: str) -> str:
        """The log of a pod."""
        path = f"/api/v1/namespaces/default/pods/{pod}/log?container=main"
        return (await self.cluster.client.get_raw(path)).decode()


@asynccontextmanager
async def cluster_with(
    folder: Path,
    cpus: int,
    search_path: str = DEFAULT_PATH,
    isolation: str = "namespaces",
) -> AsyncIterator[Examples]:
    """A cluster with two process nodes, which leaves no programs, mounts and ports behind."""
    runtime = replace(runtime_named(isolation), search_path=search_path)
    settings = ProcessSettings(folder / "run", folder / "claims", runtime)
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
    async with cluster_with(open_folder, 2, isolation=isolation) as examples:
        await examples.create([manifest.body for manifest in read([str(EXAMPLES / "25-session")])])
        pod = await ProcessCluster(examples.cluster, open_folder).until("session-main-0", is_running)
        await examples.type(pod, b"x = 6 * 7; print('x is', x)\n", b"x is 42")
        await examples.type(pod, b"print(x + 1)\n", b"43")
        await examples.type(pod, b"exit()\n", None)
        await examples.create([], "session")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "job", "module", "logs"),
    [
        (
            "22-ddp",
            "ddp",
            "torch",
            {f"ddp-{pod}": "y = 3.000 x -1.000" for pod in ("master-0", "worker-0", "worker-1")},
        ),
        (
            "23-ray-processes",
            "ray-squares",
            "ray",
            {"ray-squares-head-0": "squares on ray-squares-worker-0, ray-squares-worker-1: 285"},
        ),
        (
            "24-spark",
            "spark-primes",
            "pyspark",
            {"spark-primes-driver-0": "two executors: 2262 primes below 20000"},
        ),
    ],
    ids=["PyTorch", "Ray", "Spark"],
)
async def test_a_framework_computes_with_several_processes(
    open_folder: Path, name: str, job: str, module: str, logs: dict[str, str]
) -> None:
    if module == "pyspark" and shutil.which("java") is None:
        pytest.skip("no Java")
    async with cluster_with(open_folder, 2, search_path=search_path_with(module)) as examples:
        bodies = [manifest.body for manifest in read([str(EXAMPLES / name)])]
        await examples.create(bodies, job, seconds=580)
        for pod, line in logs.items():
            assert line in (await examples.log(pod)).splitlines()[-1]
