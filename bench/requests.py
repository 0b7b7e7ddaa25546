"""How much we ask of the API server: `python -m bench.requests`.

One job of 5,000 pods, and 500 jobs of 10 pods, each through their whole lives on the embedded cluster, with simulated nodes.
Scheduler and controller have connections of their own, so that their requests are counted apart from those of kubelets and
of this bench. What is compared with a limit is a number of requests for each pod, all of its life together: creating and
binding it, and its share in the statuses of its job, PodGroup and queue and in events. Watches are counted too.
"""

import argparse
import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
import uvloop

from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.request_counts import RequestKey
from volcanopy.services.controllers import controller_service
from volcanopy.services.controllers.jobs import JobControllerSettings
from volcanopy.services.process.settings import SchedulerSettings
from volcanopy.services.scheduler import scheduler_service
from volcanopy_local.cluster import LocalCluster, Parts, connection_to

JOBS: Kind[Json] = Kind("batch.volcanopy.io", "v1alpha1", "BatchJob", "batchjobs", True, dict)
NODES = 100
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}
ENDED = {"Completed", "Failed", "Terminated", "Aborted"}


def job(name: str, replicas: int, duration: str) -> Json:
    """A job of equal pods."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    notes = {"sim.volcanopy.io/duration": duration}
    template = {"metadata": {"annotations": notes}, "spec": {"containers": [container]}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": [{"name": "task", "replicas": replicas, "template": template}]},
    }


class Ends:
    """Sees which jobs have come to their end."""

    def __init__(self) -> None:
        self.phases: dict[str, str] = {}
        self.changed = asyncio.Event()

    def see(self, changes: Sequence[Change[Json]]) -> None:
        """Jobs have changed."""
        for change in changes:
            phase = change.object.get("status", {}).get("state", {}).get("phase", "")
            self.phases[change.object["metadata"]["name"]] = phase
        self.changed.set()

    async def come(self, count: int, seconds: float) -> None:
        """Wait until so many jobs have ended. Raises TimeoutError, and AssertionError if a job has not completed."""
        async with asyncio.timeout(seconds):
            while sum(phase in ENDED for phase in self.phases.values()) < count:
                self.changed.clear()
                await self.changed.wait()
        ended = Counter(self.phases.values())
        if ended["Completed"] < count:
            raise AssertionError(f"not all jobs ended well: {dict(ended)}")


@asynccontextmanager
async def services(*parts: tuple[Any, Connection, Any]) -> AsyncIterator[None]:
    """Run services; at the end they finish delayed writes, which are counted."""
    stops, tasks = [], []
    for run, connection, settings in parts:
        stop, ready = asyncio.Event(), asyncio.Event()
        tasks.append(asyncio.create_task(run(connection, settings, stop, ready)))
        stops.append(stop)
        await ready.wait()
    try:
        yield
    finally:
        for stop in stops:
            stop.set()
        await asyncio.gather(*tasks)


async def lives(jobs: int, replicas: int, duration: str) -> tuple[Counter[RequestKey], Counter[RequestKey], float]:
    """Return the requests of scheduler and controller for jobs from start to end, and the seconds."""
    alone = Parts(scheduler=None, controller=None, admission=None)
    async with LocalCluster(NODES, capacity=ROOM, parts=alone) as cluster:
        for_scheduler, for_controller = connection_to(cluster.server), connection_to(cluster.server)
        async with (
            Client(connection_to(cluster.server)) as client,
            services(
                (scheduler_service.run, for_scheduler, SchedulerSettings()),
                (controller_service.run, for_controller, JobControllerSettings()),
            ),
        ):
            ends = Ends()
            following = asyncio.create_task(Reflector(client, JOBS).run(ends.see))
            began = time.monotonic()
            width = asyncio.Semaphore(16)

            async def submit(number: int) -> None:
                async with width:
                    await client.create(JOBS, "default", job(f"job-{number}", replicas, duration))

            await asyncio.gather(*map(submit, range(jobs)))
            await ends.come(jobs, 600)
            seconds = time.monotonic() - began
            following.cancel()
        return for_scheduler.request_counts.counts, for_controller.request_counts.counts, seconds


async def measure() -> dict[str, float]:
    """Return the figures of `run`."""
    figures: dict[str, float] = {}
    for name, jobs, replicas, duration in (("large_job", 1, 5000, "10s"), ("small_jobs", 500, 10, "5s")):
        by_scheduler, by_controller, seconds = await lives(jobs, replicas, duration)
        pods = jobs * replicas
        for side, counts in (("scheduler", by_scheduler), ("controller", by_controller)):
            print(f"  {name}: {side}: {summary(counts)}", file=sys.stderr)
            figures[f"{name}_{side}_requests_per_pod"] = counts.total() / pods
        figures[f"{name}_requests_per_pod"] = (by_scheduler.total() + by_controller.total()) / pods
        figures[f"{name}_seconds"] = seconds
    return figures


def summary(counts: Counter[RequestKey]) -> str:
    """Return the counts as text, the most frequent first."""
    return ", ".join(f"{number} {request.verb} {request.resource}" for request, number in counts.most_common())


def run() -> dict[str, float]:
    """Requests of scheduler and controller for each pod, over its whole life, for one large job and for many small ones."""
    logging.disable(logging.INFO)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        return uvloop.run(measure())
    finally:
        logging.disable(logging.NOTSET)
        structlog.reset_defaults()


def main() -> None:
    """Print the figures."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, value in run().items():
        print(f"{name:40} {value:10.3f}")


if __name__ == "__main__":
    main()
