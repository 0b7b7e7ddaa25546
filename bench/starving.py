"""How long a job of one pod waits beside a client that misbehaves: ``python -m bench starving [--case NAME ...]``.

Each case has a new ``volcanopy local up`` with simulated nodes. While a process of its own does what the case names, one job of one pod
after the other is submitted in another namespace; measured are the most seconds until such a pod runs, and the highest resident size.
"""

import argparse
import asyncio
import contextlib
import itertools
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from bench.beside import PAUSE, embedded, job, seconds_until
from hack.sizing import Stand, cost
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kinds import Json, Kind
from volcanopy.kube.client.kubeconfig import load_connection

AT_ONCE = 32
"""Requests in flight of the client that writes."""
CLIENTS = 500
"""Connections of a client."""
NAMESPACE = "large"
TABLE = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n"


async def _create(client: Client, kind: Kind[Json], bodies: Sequence[Json]) -> None:
    """Create objects, many at the same time."""
    waiting = iter(bodies)

    async def some() -> None:
        for body in waiting:
            with contextlib.suppress(KubeError):  # it is stored already
                await client.create(kind, NAMESPACE, body, deadline=300)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(some())


def _tiny(name: str, pods: int = 1, **annotations: str) -> Json:
    """A job whose pods need next to nothing."""
    body = job(name, pods)
    template = body["spec"]["tasks"][0]["template"]
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
    template["spec"]["restartPolicy"] = "Never"
    template["metadata"] = {"annotations": {f"sim.volcanopy.io/{name}": text for name, text in annotations.items()}}
    return body


async def tiny_jobs(client: Client) -> None:
    """5,000 jobs of one pod."""
    await _create(client, raw_kinds.JOBS, [_tiny(f"tiny-{number}") for number in range(5_000)])


async def events(client: Client) -> None:
    """10,000 Events of objects of the client, again and again."""
    while True:
        bodies = []
        for _ in range(10_000):
            name = str(uuid.uuid4())
            about = {"kind": "Pod", "namespace": NAMESPACE, "name": name[:8]}
            bodies.append({"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m" * 1_000})
        await _create(client, raw_kinds.EVENTS, bodies)


async def claims(client: Client) -> None:
    """5,000 ResourceClaims that no device satisfies, and as many pods that wait for them."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "none.example.com"}}
    names = [f"claim-{number}" for number in range(5_000)]
    await _create(
        client,
        raw_kinds.DEVICE_CLAIMS,
        [{"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}} for name in names],
    )
    pods = []
    for name in names:
        body = _tiny(name)
        spec = body["spec"]["tasks"][0]["template"]["spec"]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        pods.append(body)
    await _create(client, raw_kinds.JOBS, pods)


async def restores(client: Client) -> None:
    """3,000 jobs, PodGroups and pods of a backup, whose owners have other uids now, deleted and created again."""
    while True:
        groups, pods = [], []
        for number in range(3_000):
            owner = {"apiVersion": "batch.volcanopy.io/v1alpha1", "kind": "BatchJob", "name": f"old-{number}"}
            metadata = {"name": f"old-{number}", "ownerReferences": [{**owner, "uid": str(uuid.uuid4())}]}
            kind = {"apiVersion": "scheduling.volcanopy.io/v1beta1", "kind": "PodGroup"}
            groups.append({**kind, "metadata": metadata, "spec": {"minMember": 1, "queue": "default"}})
            pod = _tiny("x")["spec"]["tasks"][0]["template"]["spec"] | {"schedulerName": "volcanopy"}
            annotations = {"scheduling.k8s.io/group-name": f"old-{number}"}
            pods.append({"metadata": {**metadata, "annotations": annotations}, "spec": pod})
        await _create(client, raw_kinds.POD_GROUPS, groups)
        await _create(client, raw_kinds.PODS, pods)


async def restarts(client: Client) -> None:
    """A job of 50 pods of which one fails at once, with 2,000 restarts."""
    body = _tiny("restarting", 50, **{"duration": "10ms", "exit-code": "1", "start-delay": "10ms"})
    body["spec"] |= {"maxRetry": 2_000, "policies": [{"event": "PodFailed", "action": "RestartJob"}]}
    await client.create(raw_kinds.JOBS, NAMESPACE, body)


def _watch(kind: str, header: str = "", query: str = "watch=true&resourceVersion=0") -> str:
    return f"GET /{kind}?{query} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n"


async def _connect(url: str, request: str) -> socket.socket:
    """Send a request; its answer is not read."""
    address = urlsplit(url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (address.hostname, address.port))
    await asyncio.get_running_loop().sock_sendall(connection, request.encode())
    return connection


async def _drain(connection: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(connection, 1 << 16):
        pass


async def _maps(client: Client) -> None:
    """Create 2,000 ConfigMaps of 3 kB."""
    bodies = [{"metadata": {"name": f"map-{number}"}, "data": {"key": "x" * 3_000}} for number in range(2_000)]
    await _create(client, raw_kinds.CONFIG_MAPS, bodies)


async def _changes(client: Client) -> None:
    """Change eight of the ConfigMaps without pause."""
    for number in itertools.count():
        async with asyncio.TaskGroup() as tasks:
            for name in range(8):
                patch = {"data": {"key": f"{number}" * 600}}
                tasks.create_task(client.patch(raw_kinds.CONFIG_MAPS, NAMESPACE, f"map-{name}", patch, deadline=300))


async def watches(client: Client, header: str = "") -> None:
    """500 watches of ConfigMaps, which change all the time, and as many of pods, all read."""
    url = client.connection.url
    await _maps(client)
    async with asyncio.TaskGroup() as tasks:
        for kind in ("api/v1/configmaps", "api/v1/pods"):
            for _ in range(CLIENTS):
                connection = await _connect(url, _watch(kind, header))
                tasks.create_task(_drain(connection))
        tasks.create_task(_changes(client))


async def tables(client: Client) -> None:
    """The same as tables, as ``kubectl get --watch`` requests them."""
    await watches(client, TABLE)


async def unread_watches(client: Client) -> None:
    """500 watches of ConfigMaps, which change all the time, whose client reads nothing."""
    await _maps(client)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(contextlib.closing(await _connect(client.connection.url, _watch("api/v1/configmaps"))))
        await _changes(client)


async def unread_lists(client: Client) -> None:
    """500 lists of 2,000 ConfigMaps of 3 kB at the same time, whose client reads nothing."""
    await _maps(client)
    kept = []
    while True:
        kept += [
            await _connect(client.connection.url, _watch("api/v1/configmaps", query="limit=0")) for _ in range(CLIENTS)
        ]
        await asyncio.sleep(5)


async def lists(client: Client) -> None:
    """500 clients that list 2,000 ConfigMaps of 3 kB all the time, in half as tables."""
    await _maps(client)

    async def some(number: int) -> None:
        request = _watch("api/v1/configmaps", TABLE if number % 2 else "", query="limit=500")
        request = request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
        while True:
            with contextlib.closing(await _connect(client.connection.url, request)) as connection:
                await _drain(connection)

    async with asyncio.TaskGroup() as tasks:
        for number in range(CLIENTS):
            tasks.create_task(some(number))


CASES: dict[str, Callable[[Client], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        tiny_jobs,
        events,
        claims,
        restores,
        restarts,
        watches,
        tables,
        unread_watches,
        unread_lists,
        lists,
    )
}


async def _misbehave(case: str, kubeconfig: Path) -> None:
    async with Client(load_connection(kubeconfig, None)) as client:
        await CASES[case](client)


async def _measured(case: str, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="volcanopy-starving-") as folder:
        stand = Stand(Path(folder))
        try:
            async with embedded(stand), Client(load_connection(stand.kubeconfig, None)) as client:
                for namespace in ("small", NAMESPACE):
                    body = await client.create(raw_kinds.NAMESPACES, None, {"metadata": {"name": namespace}})
                await seconds_until(client, "first")
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "bench.starving", case, str(stand.kubeconfig)
                )
                waits: list[float] = []
                try:
                    end = time.monotonic() + seconds
                    while time.monotonic() < end:
                        waits.append((await seconds_until(client, f"beside-{len(waits)}"))["running"])
                        await asyncio.sleep(PAUSE)
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
                last = await client.patch(raw_kinds.NAMESPACES, None, NAMESPACE, {"metadata": {"labels": {"end": ""}}})
                return {
                    "most seconds": max(waits),
                    "most MiB": cost(stand.processes["local up"].pid).highest,
                    "changes of objects": int(last["metadata"]["resourceVersion"])
                    - int(body["metadata"]["resourceVersion"]),
                }
        finally:
            stand.stop()


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the measures."""
    parser = argparse.ArgumentParser(prog="python -m bench starving", description=__doc__)
    parser.add_argument("--case", choices=tuple(CASES), action="append", help="only this case; repeatable")
    parser.add_argument("--seconds", type=float, default=45.0, help="of each case")
    given = parser.parse_args(list(options))
    measures: dict[str, float] = {"most seconds": 0, "most MiB": 0}
    for case in given.case or CASES:
        for name, value in asyncio.run(_measured(case, given.seconds)).items():
            measures[f"{case}: {name}"] = value
            if name in measures:
                measures[name] = max(measures[name], value)
    return measures


if __name__ == "__main__":
    asyncio.run(_misbehave(sys.argv[1], Path(sys.argv[2])))
