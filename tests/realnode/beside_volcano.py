"""Times of gangs on real kubelets, of volcanopy and of Volcano on the same cluster.

`VOLCANO_SOURCE=folder python -m tests.realnode.beside_volcano` on a cluster without the product (`python -m hack.realnode up`)
installs both charts, each with its defaults and for its own API, and submits gangs of small pods in turn to one and to the
other. For each it prints when all pods existed, were bound and had started, and when the job was completed, in seconds after
the job was created.
"""

import asyncio
import itertools
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hack.gobuild import BuildError
from hack.realnode import images, product
from hack.realnode.cluster import Cluster
from hack.realnode.images import File, ImageConfig
from hack.realnode.shell import CommandError
from tests.realnode.cluster_client import Json, container
from tests.volcano_e2e.building import Programs, programs
from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Kind
from volcanopy.kube.client.kubeconfig import read_kubeconfig
from volcanopy.kube.client.raw_kinds import PODS

NAMESPACE, VOLCANO_NAMESPACE = "gangs", "volcano-system"
SIZES, ROUNDS, LONGEST = (4, 16, 48), 3, 300.0
RUN = "5"
"""Seconds that a pod runs."""
STEPS = ("created", "bound", "started", "completed")
TAG = "measured"
NUMBERS = itertools.count(1)
"""The numbers of the gangs."""


@dataclass(frozen=True)
class System:
    """A system, by its kind of jobs."""

    name: str
    kind: Kind[Json]
    scheduler: str

    def job(self, name: str, pods: int) -> Json:
        """Return a gang of this many pods."""
        spec = {"restartPolicy": "Never", "containers": [container("sleep", RUN)]}
        task = {"name": "t", "replicas": pods, "template": {"spec": spec}}
        return {
            "apiVersion": f"{self.kind.group}/{self.kind.version}",
            "kind": self.kind.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"minAvailable": pods, "schedulerName": self.scheduler, "queue": "default", "tasks": [task]},
        }


SYSTEMS = (
    System("volcanopy", Kind("batch.volcanopy.io", "v1alpha1", "BatchJob", "batchjobs", True, dict), "volcanopy"),
    System("Volcano", Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", True, dict), "volcano"),
)


@dataclass
class Times:
    """When each step of a job was reached by all of its pods, in seconds after the job was created."""

    pods: int
    begin: float
    reached: dict[str, float] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)

    def observe_pods(self, pods: Iterable[Json]) -> None:
        """Record the steps that the pods have reached."""
        seen = list(pods)
        self.started |= {
            pod["metadata"]["name"] for pod in seen if pod.get("status", {}).get("phase") in {"Running", "Succeeded"}
        }
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in seen)
        for step, count in zip(STEPS, (len(seen), bound, len(self.started)), strict=False):
            if count == self.pods:
                self._record(step)

    def observe_job(self, jobs: Iterable[Json]) -> None:
        """Record the completion."""
        if any(job.get("status", {}).get("state", {}).get("phase") == "Completed" for job in jobs):
            self._record("completed")

    def _record(self, step: str) -> None:
        self.reached.setdefault(step, time.monotonic() - self.begin)


@asynccontextmanager
async def followed(
    reflector: Reflector[Json], observe: Callable[[Iterable[Json]], None], changed: asyncio.Event
) -> AsyncIterator[None]:
    """Call a function with all objects whenever one changes, and set the event."""

    async def follow() -> None:
        async with aclosing(reflector.batches()) as batches:
            async for _ in batches:
                observe(reflector.objects.values())
                changed.set()

    task = asyncio.create_task(follow())
    await reflector.synced.wait()
    try:
        yield
    finally:
        task.cancel()


async def measure(client: Client, system: System, pods: int) -> dict[str, float]:
    """Submit a gang, and return the times of its steps; it is deleted with its pods.

    Each has a name of its own: Volcano's controllers may miss the pods of a job whose name another one had.
    """
    name = f"gang-{next(NUMBERS)}"
    times, changed = Times(pods, time.monotonic()), asyncio.Event()
    jobs, group = Reflector(client, system.kind, NAMESPACE), Reflector(client, PODS, NAMESPACE)

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            changed.clear()
            await changed.wait()

    async with (
        followed(group, times.observe_pods, changed),
        followed(jobs, times.observe_job, changed),
        asyncio.timeout(LONGEST),
    ):
        times.begin = time.monotonic()
        await client.create(system.kind, NAMESPACE, system.job(name, pods))
        await until(lambda: "completed" in times.reached)
        await client.delete(system.kind, NAMESPACE, name)
        await until(lambda: not group.objects and not jobs.objects)
    return times.reached


async def measure_all(cluster: Cluster) -> None:
    """Measure both systems in turn, and print each run and a table of all."""
    runs: dict[tuple[int, str], list[dict[str, float]]] = {}
    async with Client(read_kubeconfig((cluster.kubeconfig,))) as client:
        for system in SYSTEMS:
            await measure(client, system, SIZES[0])  # images and caches
        for number in range(ROUNDS):
            for pods in SIZES:
                for system in SYSTEMS if number % 2 == 0 else SYSTEMS[::-1]:
                    reached = await measure(client, system, pods)
                    runs.setdefault((pods, system.name), []).append(reached)
                    print(pods, system.name, *(f"{step} {reached[step]:.2f}" for step in STEPS), flush=True)
    print(f"\n| gang | system | {' | '.join(STEPS)} |\n|---|---|{'---|' * len(STEPS)}")
    for (pods, name), results in sorted(runs.items()):
        print(f"| {pods} | {name} | {' | '.join(_range([run[step] for run in results]) for step in STEPS)} |")


def _range(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})"


def volcano_images(built: Programs, folder: Path) -> list[Path]:
    """Write the images of Volcano's chart. The one of its webhooks has openssl and kubectl, as Volcano's. Raises BuildError."""
    openssl, kubectl = (Path(shutil.which(name) or "/nonexistent").resolve() for name in ("openssl", "kubectl"))
    script = built.source / "installer/dockerfile/webhook-manager/gen-admission-secret.sh"
    tools = {
        "bin/openssl": File(openssl.read_bytes(), 0o755),
        "bin/kubectl": File(kubectl.read_bytes(), 0o755),
        "etc/ssl/openssl.cnf": File(Path("/etc/ssl/openssl.cnf").read_bytes()),
        "usr/lib/ssl/openssl.cnf": File(target="/etc/ssl/openssl.cnf"),
        script.name: File(script.read_bytes(), 0o755),
        **images.libraries_of(openssl),
    }
    parts = (built.scheduler(), built.controllers(), built.webhooks())
    return [
        images.image_with_busybox(
            folder / f"{program.name}.tar",
            ImageConfig((f"docker.io/volcanosh/{program.name}:{TAG}",), (f"/{program.name}",)),
            {program.name: File(program.read_bytes(), 0o755), **(tools if program == parts[-1] else {})},
        )
        for program in parts
    ]


def install(cluster: Cluster, built: Programs, folder: Path) -> None:
    """Install both charts. Raises CommandError."""
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump({"basic": {"image_tag_version": TAG, "image_pull_policy": "IfNotPresent"}}))
    cluster.load([images.product_image(), *volcano_images(built, folder)])
    product.deploy(cluster, "api=volcanopy")
    place = (f"--namespace={VOLCANO_NAMESPACE}", "--create-namespace", "--wait", f"--timeout={product.TIMEOUT}")
    product.run_helm(cluster, "install", "volcano", str(built.chart), *place, f"--values={values}")
    cluster.kubectl("create", "namespace", NAMESPACE)


def main() -> int:
    """Install both and measure."""
    cluster, folder = Cluster(), Path(tempfile.mkdtemp(prefix="beside-volcano-"))
    try:
        install(cluster, programs(), folder)
        asyncio.run(measure_all(cluster))
    except (BuildError, CommandError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
