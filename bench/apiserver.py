"""How fast the embedded API server is: `python -m bench.apiserver`.

The server runs in a process of its own, on one core where the machine lets us choose; this process is the client, on another.
Three watchers follow all pods throughout.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import uvloop

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "",
        "labels": {"app": "bench", "batch.volcanopy.io/job": "job-1", "batch.volcanopy.io/task": "worker"},
        "annotations": {"scheduling.k8s.io/group-name": "job-1", "batch.volcanopy.io/task-spec": "worker"},
    },
    "spec": {
        "schedulerName": "volcanopy",
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "command": ["sh", "-c", "sleep 10"],
                "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(8)],
                "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    },
}
PODS = "/api/v1/namespaces/default/pods"
JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}


def pin(pid: int, core: int) -> None:
    """Keep a process on one core, if there are several."""
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(pid, {sorted(os.sched_getaffinity(0))[core]})


@asynccontextmanager
async def serving(*options: str) -> AsyncIterator[tuple[str, int]]:
    """A server in a process of its own: its address and pid."""
    command = [sys.executable, "-m", "volcanopy.local.apiserver", *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    try:
        yield url, process.pid
    finally:
        process.terminate()
        await process.wait()


async def all_of(count: int, width: int, one: Callable[[int], Awaitable[None]]) -> float:
    """Do `one` for every number, `width` at a time; seconds taken."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await one(number)

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(width)))
    return time.perf_counter() - start


class Watcher:
    """Counts the events that arrive; `done` is set when all are there."""

    def __init__(self, expected: int) -> None:
        self.events = 0
        self.expected = expected
        self.done = asyncio.Event()

    async def follow(self, session: aiohttp.ClientSession, url: str, version: str) -> None:
        query = {"watch": "true", "resourceVersion": version}
        async with session.get(url + "/api/v1/pods", params=query) as response:
            async for chunk in response.content.iter_any():
                self.events += chunk.count(b"\n")
                if self.events >= self.expected:
                    self.done.set()


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(count: int, width: int, *options: str) -> dict[str, float]:
    """Rates per second of each kind of request, and seconds of a full list."""
    found: dict[str, float] = {}
    async with (
        serving(*options) as (url, pid),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):
        pin(pid, 0)
        pin(0, 1)
        watchers = [Watcher(4 * count) for _ in range(3)]
        follow = [asyncio.create_task(w.follow(session, url, "1")) for w in watchers]

        async def send(method: str, path: str, body: object, expected: int, headers: dict[str, str] = JSON) -> None:
            data = msgspec.json.encode(body) if body is not None else None
            async with session.request(method, url + path, data=data, headers=headers) as response:
                text = await response.read()
                if response.status != expected:
                    raise RuntimeError(f"{method} {path}: {response.status} {text[:300]!r}")

        async def create(number: int) -> None:
            await send("POST", PODS, {**POD, "metadata": {**POD["metadata"], "name": f"pod-{number:06d}"}}, 201)  # type: ignore[dict-item]

        async def bind(number: int) -> None:
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "target": {"kind": "Node", "name": f"node-{number % 100}"},
            }
            await send(
                "POST", f"{PODS}/pod-{number:06d}/binding", {**binding, "metadata": {"name": f"pod-{number:06d}"}}, 201
            )

        async def state(number: int) -> None:
            patch = {"status": {"phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z"}}
            await send("PATCH", f"{PODS}/pod-{number:06d}/status", patch, 200, MERGE)

        async def get(number: int) -> None:
            await send("GET", f"{PODS}/pod-{number:06d}", None, 200)

        async def delete(number: int) -> None:
            await send("DELETE", f"{PODS}/pod-{number:06d}", {"gracePeriodSeconds": 0}, 200)

        async def timed(name: str, one: Callable[[int], Awaitable[None]]) -> None:
            before = cpu_of(pid)
            seconds = await all_of(count, width, one)
            found[f"{name}/s"] = count / seconds
            found[f"{name} us of server cpu"] = (cpu_of(pid) - before) / count * 1e6

        await timed("create", create)
        await timed("bind", bind)
        await timed("status patch", state)
        await timed("get", get)
        best = 1e9
        for _ in range(3):
            start = time.perf_counter()
            async with session.get(url + "/api/v1/pods") as response:
                size = len(await response.read())
            best = min(best, time.perf_counter() - start)
        found["list s"], found["list MB"] = best, size / 1e6
        await timed("delete", delete)
        async with asyncio.timeout(60):
            await asyncio.gather(*(w.done.wait() for w in watchers))
        found["events seen by each watcher"] = float(min(w.events for w in watchers))
        for task in follow:
            task.cancel()
        await asyncio.gather(*follow, return_exceptions=True)
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=32, help="requests in flight")
    parser.add_argument("--persist", default="", help="a file to persist to")
    options = parser.parse_args()
    extra = ["--persist", options.persist] if options.persist else []
    for name, value in uvloop.run(measure(options.pods, options.width, *extra)).items():
        print(f"{name:32} {value:12,.2f}")


if __name__ == "__main__":
    main()
