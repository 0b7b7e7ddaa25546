"""Shares of queues on a live embedded cluster: `python -m hack.liveshares --minutes 10`.

All services and simulated nodes run in this process. Three queues with weights 1:2:3 always have jobs waiting: gangs and single pods
that run for some seconds. Every second the allocated cpus are read from the status of the queues; at the end their shares, utilisation
and evictions are printed. `--large` gives the heaviest queue pods as large as a node; `--restart` ends and starts the scheduler half way.
"""

import argparse
import asyncio
import contextlib
import logging
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog
import uvloop

from volcanopy.api import quantity
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.metrics import registry
from volcanopy.scheduler.policy.config import DEFAULT
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler import scheduler_service
from volcanopy_local.cluster import LocalCluster, Parts

NODES, CPUS = 8, 8
WEIGHTS = {"a": 1, "b": 2, "c": 3}
BACKLOG = NODES * CPUS // 2
"""Cpus of the waiting jobs of each queue, at least."""
SETTLE = 60
"""Seconds that are not measured."""
SECONDS = (15, 45)
"""Shortest and longest run time of a pod."""


def batch_job(queue: str, number: int, dice: random.Random, large: bool) -> dict[str, Any]:
    """A job of one to four pods, or of one pod as large as a node."""
    pods, cpu = (1, str(CPUS)) if large else (dice.choice([1, 1, 2, 4]), dice.choice(["500m", "1", "2"]))
    template = {
        "metadata": {"annotations": {"sim.volcanopy.io/duration": f"{dice.randint(*SECONDS)}s"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox:1.37", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
    return {
        "apiVersion": "batch.volcanopy.io/v1alpha1",
        "kind": "BatchJob",
        "metadata": {"name": f"{queue}-{number}", "namespace": "default"},
        "spec": {
            "queue": queue,
            "minAvailable": pods,
            "ttlSecondsAfterFinished": 1,
            "tasks": [{"name": "worker", "replicas": pods, "template": template}],
        },
    }


class Load:
    """Keeps jobs waiting in each queue."""

    def __init__(self, client: Client, large: str) -> None:
        self._client, self._large = client, large
        self._dice = {queue: random.Random(queue) for queue in WEIGHTS}
        self.submitted: Counter[str] = Counter()

    async def fill(self) -> None:
        """Submit jobs until the waiting ones of each queue request ``BACKLOG`` cpus."""
        jobs = (await self._client.list(raw_kinds.JOBS)).items
        waiting: Counter[str] = Counter()
        for job in jobs:
            phase = ((job.get("status") or {}).get("state") or {}).get("phase", "Pending")
            if phase in {"Pending", "Inqueue", ""}:
                waiting[job["spec"]["queue"]] += _milli(job)
        new = []
        for queue, dice in self._dice.items():
            while waiting[queue] < 1000 * BACKLOG:
                job = batch_job(queue, self.submitted[queue], dice, queue == self._large)
                self.submitted[queue] += 1
                waiting[queue] += _milli(job)
                new.append(self._client.create(raw_kinds.JOBS, "default", job))
        await asyncio.gather(*new)


def _milli(job: dict[str, Any]) -> int:
    return sum(
        task["replicas"]
        * quantity.amount("cpu", task["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        for task in job["spec"]["tasks"]
    )


class Scheduler:
    """The scheduler of a cluster, which can be stopped and started again."""

    def __init__(self, cluster: LocalCluster, settings: SchedulerSettings) -> None:
        self._cluster, self._settings = cluster, settings
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        self._stop, ready = asyncio.Event(), asyncio.Event()
        connection = self._cluster.components.connection
        self._task = asyncio.create_task(scheduler_service.run(connection, self._settings, self._stop, ready))
        await asyncio.wait_for(ready.wait(), 30)

    async def stop(self) -> None:
        """Stop it."""
        self._stop.set()
        if self._task is not None:
            await self._task


async def measure(seconds: int, large: str, settings: SchedulerSettings, restart: bool) -> None:
    """Run the load and print the shares."""
    queues = [
        {
            "apiVersion": "scheduling.volcanopy.io/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": weight},
        }
        for name, weight in WEIGHTS.items()
    ]
    async with contextlib.AsyncExitStack() as stack:
        capacity, parts = {"cpu": str(CPUS)}, Parts(scheduler=None)
        cluster = await stack.enter_async_context(LocalCluster(NODES, capacity=capacity, objects=queues, parts=parts))
        scheduler = Scheduler(cluster, settings)
        await scheduler.start()
        stack.push_async_callback(scheduler.stop)
        load = Load(cluster.client, large)
        sums: Counter[str] = Counter()
        samples = 0
        begun = time.monotonic()
        while (elapsed := time.monotonic() - begun) < SETTLE + seconds:
            await load.fill()
            if elapsed >= SETTLE:
                samples += 1
                sums.update(await _allocated(cluster.client))
            if restart and elapsed >= SETTLE + seconds / 2:
                restart = False
                await scheduler.stop()
                await scheduler.start()
            await asyncio.sleep(1)
        _report(sums, samples, load)
        for queue in WEIGHTS:
            status = (await cluster.client.get(raw_kinds.QUEUES, None, queue)).get("status") or {}
            print(f"queue {queue}: credit {status.get('credit', {}).get('cpu', '0')} s of cpu")


async def _allocated(client: Client) -> dict[str, int]:
    """The allocated milli-cpus in the statuses of the queues."""
    queues = (await client.list(raw_kinds.QUEUES)).items
    return {
        queue["metadata"]["name"]: quantity.amount(
            "cpu", ((queue.get("status") or {}).get("allocated") or {}).get("cpu", "0")
        )
        for queue in queues
        if queue["metadata"]["name"] in WEIGHTS
    }


def _report(sums: Counter[str], samples: int, load: Load) -> None:
    total, weights = sums.total(), sum(WEIGHTS.values())
    shares = {queue: 100 * sums[queue] / total for queue in WEIGHTS}
    expected = {queue: 100 * weight / weights for queue, weight in WEIGHTS.items()}
    for name, parts in (("expected", expected), ("shares by Queue status", shares)):
        print(f"{name} " + " / ".join(f"{part:.1f}" for part in parts.values()))
    print(f"largest error {max(abs(shares[queue] - expected[queue]) for queue in WEIGHTS):.1f} points")
    print(f"utilisation {100 * total / (1000 * NODES * CPUS * max(samples, 1)):.1f} % in {samples} samples")
    print(f"processor time {time.process_time():.0f} s")
    print(f"jobs submitted {load.submitted.total()}, pods evicted {int(_evictions())}")


def _evictions() -> float:
    return sum(
        sample.value
        for family in registry.REGISTRY.collect()
        if family.name == "volcanopy_evictions"
        for sample in family.samples
        if sample.name.endswith("_total")
    )


@contextlib.contextmanager
def settings(reclaim: bool) -> Iterator[SchedulerSettings]:
    """Settings of the scheduler: the default configuration, optionally with reclaim."""
    if not reclaim:
        yield SchedulerSettings()
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scheduler.yaml"
        path.write_text(DEFAULT.replace("enqueue, allocate, backfill", "enqueue, allocate, reclaim, backfill"))
        yield SchedulerSettings(config=path)


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m hack.liveshares")
    parser.add_argument("--minutes", type=float, default=10, help="Measured time. Defaults to 10.")
    parser.add_argument("--large", action="store_true", help="Pods of a whole node in the heaviest queue.")
    parser.add_argument("--restart", action="store_true", help="The scheduler restarts half way.")
    parser.add_argument("--reclaim", action="store_true", help="Reclaim is configured.")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with settings(options.reclaim) as scheduler:
        uvloop.run(measure(int(60 * options.minutes), "c" if options.large else "", scheduler, options.restart))


if __name__ == "__main__":
    main()
