"""How fast the embedded API server is: `python -m bench.apiserver`.

The server runs in a process of its own, on one core where the machine lets us choose; this process is the client, on another.
Three watchers follow all pods throughout. Processor time of the server is what counts: on a quiet core, its inverse is the
rate. A bare aiohttp handler is measured the same way between the slices, because the machine may be busy with other things.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Any

import msgspec
import uvloop

from bench.wire import address, drive, request

CONTAINER: dict[str, Any] = {
    "name": "main",
    "image": "busybox:1.36",
    "command": ["sh", "-c", "sleep 10"],
    "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)],
    "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}
SLICE = 500
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def pod(number: int) -> dict[str, object]:
    """A pod as the job controller makes it."""
    metadata = {
        "name": f"pod-{number:06d}",
        "labels": {"app": "bench", "batch.volcanopy.io/job": "job-1", "batch.volcanopy.io/task": "worker"},
        "annotations": {"scheduling.k8s.io/group-name": "job-1", "batch.volcanopy.io/task-spec": "worker"},
    }
    spec = {"schedulerName": "volcanopy", "restartPolicy": "Never", "containers": [CONTAINER]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def creates(count: int) -> list[bytes]:
    """Create requests of the pods."""
    return [request("POST", PODS, msgspec.json.encode(pod(number))) for number in range(count)]


def binds(count: int) -> list[bytes]:
    """Binding requests of each pod to one of 100 nodes."""
    requests = []
    for number in range(count):
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": f"pod-{number:06d}"},
            "target": {"kind": "Node", "name": f"node-{number % 100}"},
        }
        requests.append(request("POST", f"{PODS}/pod-{number:06d}/binding", msgspec.json.encode(binding)))
    return requests


def patches(count: int) -> list[bytes]:
    """Each pod runs now."""
    body = b'{"status":{"phase":"Running","podIP":"10.0.0.1","startTime":"2026-01-01T00:00:00Z"}}'
    return [request("PATCH", f"{PODS}/pod-{number:06d}/status", body, MERGE) for number in range(count)]


def gets(count: int) -> list[bytes]:
    """Each pod is read."""
    return [request("GET", f"{PODS}/pod-{number:06d}") for number in range(count)]


def deletes(count: int) -> list[bytes]:
    """Each pod goes at once."""
    body = b'{"gracePeriodSeconds":0}'
    return [request("DELETE", f"{PODS}/pod-{number:06d}", body) for number in range(count)]


def pin(pid: int, core: int) -> None:
    """Keep a process on one core, if there are several."""
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(pid, {sorted(os.sched_getaffinity(0))[core]})


@asynccontextmanager
async def serving(module: str, *options: str) -> AsyncIterator[tuple[str, int]]:
    """A server in a process of its own: its address and pid."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, *options, stdout=subprocess.PIPE)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    pin(process.pid, 0)
    try:
        yield url, process.pid
    finally:
        process.terminate()
        await process.wait()


class Watcher(asyncio.Protocol):
    """Counts the events that arrive; `done` is set when all are there."""

    def __init__(self, expected: int) -> None:
        self.events = 0
        self.expected = expected
        self.done = asyncio.Event()
        self._last = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(request("GET", "/api/v1/pods?watch=true&resourceVersion=1"))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        # Lines end so, wherever the stream is cut; the frames of the transfer encoding end otherwise.
        self.events += (self._last + data).count(b"}\n")
        self._last = data[-1:]
        if self.events >= self.expected:
            self.done.set()


def _same(watcher: Watcher) -> Watcher:
    return watcher


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


class Rates:
    """Requests of one kind, sent in slices; after each slice the same number goes to the handler that does nothing."""

    def __init__(self, servers: tuple[tuple[str, int], tuple[str, int]], width: int) -> None:
        self.servers = servers
        self.width = width
        self.bare = creates(SLICE)

    async def of(self, name: str, requests: Sequence[bytes], status: int) -> dict[str, float]:
        """Rate and processor time, and both beside those of the bare handler; the middle one of the slices."""
        slices = []
        for start in range(0, len(requests), SLICE):
            ours = await self._timed(0, requests[start : start + SLICE], status)
            slices.append((*ours, *await self._timed(1, self.bare, 201)))
        rates, costs, bare_rates, bare_costs = zip(*slices, strict=True)
        return {
            f"{name}_per_second": len(slices) / sum(1 / rate for rate in rates),
            f"{name}_per_second_at_best": max(rates),
            f"{name}_cpu_us": median(costs),
            f"{name}_cpu_us_at_best": min(costs),
            f"{name}_cpu_per_bare": median([cost / bare for cost, bare in zip(costs, bare_costs, strict=True)]),
            f"{name}_bare_per_second_at_best": max(bare_rates),
            f"{name}_bare_cpu_us_at_best": min(bare_costs),
        }

    async def _timed(self, server: int, requests: Sequence[bytes], status: int) -> tuple[float, float]:
        url, pid = self.servers[server]
        before = cpu_of(pid)
        seconds, _ = await drive(url, requests, status, self.width)
        return len(requests) / seconds, (cpu_of(pid) - before) / len(requests) * 1e6


async def measure(count: int, width: int, *options: str) -> dict[str, float]:
    """Return the figures of `run` for `count` pods and `width` requests in flight."""
    figures: dict[str, float] = {}
    loop = asyncio.get_running_loop()
    everywhere = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    pin(0, 1)
    async with serving("embedded_apiserver", *options) as ours, serving("bench.bare") as bare:
        url = ours[0]
        host, port = address(url)
        watchers = [Watcher(4 * count) for _ in range(3)]
        for watcher in watchers:
            await loop.create_connection(partial(_same, watcher), host, port)
        rates = Rates((ours, bare), width)
        cases = (("creates", creates, 201), ("binds", binds, 201), ("patches", patches, 200), ("gets", gets, 200))
        for name, make, status in cases:
            figures |= await rates.of(name, make(count), status)
        best = 1e9
        for _ in range(3):
            seconds, size = await drive(url, [request("GET", "/api/v1/pods")], 200, 1)
            best = min(best, seconds)
        figures["list_10000_seconds"], figures["list_megabytes"] = best * 10_000 / count, size / 1e6
        figures |= await rates.of("deletes", deletes(count), 200)
        async with asyncio.timeout(60):
            await asyncio.gather(*(watcher.done.wait() for watcher in watchers))
        figures["events_seen_by_each_watcher"] = float(min(watcher.events for watcher in watchers))
    if everywhere:
        os.sched_setaffinity(0, everywhere)
    return figures


def run(count: int = 10_000, width: int = 32, *settings: str) -> dict[str, float]:
    """Rates and processor time of each kind of request, three watchers attached.

    `creates_per_second` and its like are measured rates, on a machine that may be busy; `creates_cpu_us` is the server's processor
    time for one request, the work for its watchers included, and `creates_cpu_per_bare` the same as a multiple of what a bare
    aiohttp.web handler needs for a create. `at_best` is the best slice: as near to a quiet machine as we can see.
    """
    return uvloop.run(measure(count, width, *settings))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=32, help="requests in flight")
    parser.add_argument("--persist", default="", help="a file to persist to")
    options = parser.parse_args()
    extra = ["--persist", options.persist] if options.persist else []
    started = time.perf_counter()
    for name, value in run(options.pods, options.width, *extra).items():
        print(f"{name:32} {value:12,.3f}")
    print(f"{'seconds of this bench':32} {time.perf_counter() - started:12,.3f}")


if __name__ == "__main__":
    main()
