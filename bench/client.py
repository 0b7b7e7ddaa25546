"""How fast the client is: `python -m bench.client`.

A trivial server (in a process of its own, on the other core where there is one) sends prepared bytes: a list of pods, a
watch of as many changes, and the same answer to every bind. What is measured is therefore us: wall time and the
processor time of this process.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from volcanopy.api.core import Pod
from volcanopy.kube.cache.watch import Change, Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.connection import Connection
from volcanopy.kube.client.kinds import Kind

PODS = Kind("", "v1", "Pod", "pods", True, Pod)
FIELDS: dict[str, Any] = {
    f"f:field{number}": {"f:inner": {}, "f:other": {f"f:deep{deep}": {} for deep in range(4)}} for number in range(12)
}


def pod(number: int, version: int) -> dict[str, Any]:
    """A pod as a real server shows it, of about 3.8 kB, a third of it managed fields."""
    name = f"job-{number // 100}-worker-{number % 100}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 7}",
            "uid": f"0f9a3c62-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "labels": {
                "app": "bench",
                "volcanopy.io/job-name": f"job-{number // 100}",
                "volcanopy.io/task-spec": "worker",
            },
            "annotations": {
                "scheduling.k8s.io/group-name": f"job-{number // 100}",
                "volcanopy.io/task-index": str(number),
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcanopy.io/v1alpha1",
                    "kind": "BatchJob",
                    "name": f"job-{number // 100}",
                    "uid": f"job-uid-{number // 100}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "volcanopy",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2030-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": FIELDS,
                }
            ],
        },
        "spec": {
            "schedulerName": "volcanopy",
            "restartPolicy": "OnFailure",
            "nodeName": f"node-{number % 1000}",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/team/trainer:1.2.3",
                    "command": ["python", "-m", "trainer"],
                    "env": [{"name": f"VARIABLE_{index}", "value": f"value-{index}"} for index in range(10)],
                    "resources": {
                        "requests": {"cpu": "500m", "memory": "512Mi"},
                        "limits": {"cpu": "1", "memory": "1Gi"},
                    },
                    "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
                }
            ],
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}],
        },
    }


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Prepared(asyncio.Protocol):
    """HTTP/1.1 just as far as our client needs it: looks at the request line, skips the rest, sends prepared bytes."""

    pods: list[bytes]
    events: bytes
    bound = compact({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        self.rest += data
        while (end := self.rest.find(b"\r\n\r\n")) >= 0:
            head, after = self.rest[:end], self.rest[end + 4 :]
            mark = head.lower().find(b"content-length: ")
            length = int(head[mark + 16 :].split(b"\r\n", 1)[0]) if mark >= 0 else 0
            if len(after) < length:
                return
            self.rest = after[length:]
            self.answer(head.split(b" ", 2)[1].decode())

    def answer(self, path: str) -> None:
        if "watch=true" in path:
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
            self.transport.write(self.events)
        elif "limit=" in path or path.endswith("/pods"):
            start = int(path.split("continue=")[1].split("&", maxsplit=1)[0]) if "continue=" in path else 0
            size = int(path.split("limit=")[1].split("&", maxsplit=1)[0]) if "limit=" in path else len(self.pods)
            onward = f',"continue":"{start + size}"' if start + size < len(self.pods) else ""
            head = f'{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"1000000"{onward}}},"items":['
            self.send(b"200 OK", head.encode() + b",".join(self.pods[start : start + size]) + b"]}")
        else:
            self.send(b"201 Created", self.bound)

    def send(self, status: bytes, body: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 "
            + status
            + b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )


async def serve(count: int) -> None:
    Prepared.pods = [compact(pod(number, number + 1)) for number in range(count)]
    Prepared.events = b"".join(
        b'{"type":"MODIFIED","object":' + compact(pod(number, 1_000_001 + number)) + b"}\n" for number in range(count)
    )
    server = await asyncio.get_running_loop().create_server(Prepared, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


@asynccontextmanager
async def serving(count: int) -> AsyncIterator[str]:
    """The trivial server in its own process."""
    command = [sys.executable, "-m", "bench.client", "--serve", "--pods", str(count)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    url = (await process.stdout.readline()).decode().strip()
    try:
        yield url
    finally:
        process.terminate()
        await process.wait()


async def timed(work: Callable[[], Awaitable[object]], rounds: int = 3) -> tuple[float, float]:
    """The best wall time and processor time of some rounds."""
    best: list[tuple[float, float]] = []
    for _ in range(rounds):
        wall, used = time.perf_counter(), time.process_time()
        await work()
        best.append((time.perf_counter() - wall, time.process_time() - used))
    return min(wall for wall, _ in best), min(used for _, used in best)


async def follow(client: Client, count: int) -> tuple[float, float, int]:
    """List, then take ``count`` events: wall and processor time of the events, and the batches they came in."""
    done = asyncio.Event()
    marks: list[tuple[float, float]] = []
    batches = seen = 0

    def sink(changes: list[Change[Pod]]) -> None:
        nonlocal batches, seen
        if not marks:
            marks.append((time.perf_counter(), time.process_time()))
            return
        batches += 1
        seen += len(changes)
        if seen >= count:
            marks.append((time.perf_counter(), time.process_time()))
            done.set()

    running = asyncio.create_task(Reflector(client, PODS).run(sink))
    await done.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    (wall, used), (wall_end, used_end) = marks
    return wall_end - wall, used_end - used, batches


async def measure(count: int, binds: int) -> None:
    async with serving(count) as url, Client(Connection(url)) as client:
        for page in (0, 2000, 500):

            async def list_all(page: int = page) -> None:
                assert len((await client.list(PODS, page=page)).items) == count

            wall, used = await timed(list_all)
            print(f"list {count} pods, pages of {page or count}: {wall:.3f} s, {used:.3f} cpu-s")
        wall, used, batches = min([await follow(client, count) for _ in range(3)], key=lambda run: run[1])
        rate = count / used
        print(
            f"watch {count} events: {wall:.3f} s, {used:.3f} cpu-s = {rate:,.0f} events per cpu-second, {batches} batches"
        )
        for parallel in (1, 16, 64):
            share = (binds if parallel > 1 else binds // 4) // parallel

            async def bind_some(share: int = share) -> None:
                for number in range(share):
                    await client.bind("team", f"p-{number}", "node-1", uid="0f9a3c62-0000-4000-8000-000000000001")

            async def bind_all(parallel: int = parallel, bind_some: Callable[[], Any] = bind_some) -> None:
                await asyncio.gather(*(bind_some() for _ in range(parallel)))

            wall, used = await timed(bind_all)
            done = share * parallel
            print(f"bind, {parallel} in flight: {done / wall:,.0f}/s, {used / done * 1e6:.0f} us of processor each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--binds", type=int, default=20_000)
    parser.add_argument("--serve", action="store_true", help="be the server (for this program's own use)")
    chosen = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[1 if chosen.serve else 0]})
    uvloop.run(serve(chosen.pods) if chosen.serve else measure(chosen.pods, chosen.binds))


if __name__ == "__main__":
    main()
