"""What each process costs: `python -m hack.sizing`, the figures of docs/operations.md.

The embedded API server, the simulated kubelets, scheduler, controller and admission run as processes of their own, as in a
cluster. Gangs fill the nodes with pods that run for ever; then nothing happens; then short jobs come and go, one a second where the
machine keeps up. For each stage and process: processor time, and memory as the kernel counts it (proportional set size, of which shared
libraries are a part; the highest resident size so far).
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from volcanopy.client.manifests import CreateError, Creator
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import NotFound
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy_local.cluster import Components, Parts
from volcanopy_local.simulated import nodes

GANG = 20
AT_ONCE = 2
TRIES = 10
_TICK = os.sysconf("SC_CLK_TCK")
_MIB = 1024


def gang(name: str, pods: int, duration: str) -> dict[str, Any]:
    """A job of equal pods that start together."""
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["train", "--epochs", "100"],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    template = {
        "metadata": {"annotations": {"sim.volcanopy.io/duration": duration}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    task = {"name": "worker", "replicas": pods, "template": template}
    body = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "metadata": {"name": name}}
    return {**body, "spec": {"minAvailable": pods, "ttlSecondsAfterFinished": 1, "tasks": [task]}}


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a process, its current and its highest memory in MiB."""

    processor: float
    memory: float
    highest: float


def cost(pid: int) -> Cost:
    """Return the figures of a process from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    rolled = dict(_lines(Path(f"/proc/{pid}/smaps_rollup").read_text()))
    status = dict(_lines(Path(f"/proc/{pid}/status").read_text()))
    return Cost((int(fields[11]) + int(fields[12])) / _TICK, _mib(rolled["Pss"]), _mib(status["VmHWM"]))


def _lines(text: str) -> list[tuple[str, str]]:
    return [(name, rest.strip()) for name, colon, rest in (line.partition(":") for line in text.splitlines()) if colon]


def _mib(text: str) -> float:
    return int(text.split(maxsplit=1)[0]) / _MIB


class Stand:
    """The processes by name."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kubeconfig = folder, folder / "kubeconfig"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a process that logs to a file."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        self.processes[name] = process
        return process

    async def start_apiserver(self) -> None:
        """Start the API server and wait until it prints its URL."""
        process = self.start("apiserver", "embedded_apiserver", "--kubeconfig", str(self.kubeconfig))
        assert process.stdout is not None
        await asyncio.to_thread(process.stdout.readline)

    def start_services(self) -> None:
        """Start the services as the chart does, without leader election."""
        cluster = ["--kubeconfig", str(self.kubeconfig)]
        health = ["--bind-address", "127.0.0.1", "--health-port", "0"]
        self.start("scheduler", "volcanopy", "scheduler", *cluster, *health, "--no-leader-elect")
        self.start("controller", "volcanopy", "controller", *cluster, *health, "--no-leader-elect")
        self.start("admission", "volcanopy", "admission", *cluster, *health)

    async def cli(self, *arguments: str) -> str:
        """Return the output of a command. Raises RuntimeError if it fails."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "volcanopy", *arguments, "--kubeconfig", str(self.kubeconfig), stdout=subprocess.PIPE
        )
        output, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"volcanopy {' '.join(arguments)} ends with {process.returncode}")
        return output.decode()

    def costs(self) -> dict[str, Cost]:
        """Return the figures of each process, and of this one as the kubelets."""
        costs = {name: cost(process.pid) for name, process in self.processes.items()}
        return {**costs, "kubelets": cost(os.getpid())}

    def stop(self) -> None:
        """Stop all processes, the API server last."""
        for process in reversed(self.processes.values()):
            process.terminate()
            process.wait(timeout=60)


@contextlib.contextmanager
def stage(stand: Stand, name: str) -> Any:
    """Print what the block has cost each process."""
    before, began = stand.costs(), time.monotonic()
    yield
    took = time.monotonic() - began
    print(f"\n{name}: {took:.0f} s")
    print(f"  {'process':<12}{'cpu s':>9}{'of a core':>11}{'MiB':>8}{'most':>8}")
    for process, now in stand.costs().items():
        spent = now.processor - (before[process].processor if process in before else 0.0)
        print(f"  {process:<12}{spent:>9.1f}{spent / took:>11.1%}{now.memory:>8.0f}{now.highest:>8.0f}", flush=True)


async def make(creator: Creator, job: dict[str, Any]) -> None:
    """Submit a job. A machine that is too busy for a webhook to answer in time is asked again."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(CreateError):
            await creator.create([job])
            return
        await asyncio.sleep(1)
    await creator.create([job])


async def submit(creator: Creator, jobs: list[dict[str, Any]]) -> None:
    """Several at once."""
    waiting = iter(jobs)

    async def some() -> None:
        for job in waiting:
            await make(creator, job)

    await make(creator, next(waiting))
    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(some())


async def come_up(client: Client) -> None:
    """Wait until the scheduler has made its queue, and admission has registered itself."""
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    queue = "/apis/scheduling.volcanopy.io/v1beta1/queues/default"
    async with asyncio.timeout(300):
        while True:
            with contextlib.suppress(NotFound):
                await client.get_raw(queue)
                if json.loads(await client.get_raw(hooks))["items"]:
                    return
            await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def standing(folder: Path, count: int) -> AsyncIterator[tuple[Stand, Creator]]:
    """A cluster of so many nodes, with everything running."""
    stand = Stand(folder)
    try:
        await stand.start_apiserver()
        connection = load_connection(stand.kubeconfig)
        async with Client(connection) as client:
            creator = Creator(client)
            await creator.install_definitions()
            await creator.create(nodes.manifests(count, {"cpu": "16", "memory": "64Gi"}))
            async with Components(connection, Parts(scheduler=None, controller=None, admission=None)):
                stand.start_services()
                await come_up(client)
                yield stand, creator
    finally:
        stand.stop()


async def measure(count: int, pods: int, rest: float, folder: Path) -> None:
    """Fill, rest, and let jobs come and go."""
    async with standing(folder, count) as (stand, creator):
        await asyncio.sleep(rest / 2)
        with stage(stand, f"{count} nodes, no pods"):
            await asyncio.sleep(rest)
        jobs = [gang(f"gang-{number:04d}", GANG, "forever") for number in range(pods // GANG)]
        with stage(stand, f"{len(jobs)} gangs of {GANG} pods submitted, until all run"):
            await submit(creator, jobs)
            await stand.cli("job", "wait", "--all", "--for=running", "--timeout", "1h")
        jobs_now = json.loads(await stand.cli("job", "list", "-o", "json"))
        running = sum(job["status"].get("running", 0) for job in jobs_now["items"])
        with stage(stand, f"{running} pods run, nothing happens"):
            await asyncio.sleep(rest)
        with stage(stand, f"{running} pods run, {rest:.0f} gangs of {GANG} come, run for 5 s, and go"):
            for number in range(int(rest)):
                await make(creator, gang(f"short-{number:04d}", GANG, "5s"))
                await asyncio.sleep(1)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m hack.sizing", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rest", type=float, default=60.0, help="seconds that each quiet stage takes")
    parser.add_argument("--logs", type=Path, help="a folder for what the processes log")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.logs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        uvloop.run(measure(options.nodes, options.pods, options.rest, folder))


if __name__ == "__main__":
    main()
