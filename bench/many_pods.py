"""Memory beside one job of 100,000 running pods: ``python -m bench many_pods [--pods 100000] [--seconds 200]``.

Measured are the highest resident sizes of ``volcanopy local up`` with 1,000 simulated nodes, and of a controller and an embedded API
server of their own. Such a job takes half an hour to start: here the file of a persistent cluster in which a few pods of a job run is
multiplied, and the processes start with it.
"""

import argparse
import asyncio
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.beside import job
from hack.sizing import Stand, cost
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kubeconfig import load_connection

NODES = 1_000
FEW = 100
"""Pods that are started, and of which one is multiplied."""
Record = list[Any]


async def _local_up(stand: Stand, file: Path) -> int:
    """Start ``volcanopy local up`` with a file; return its pid once it is ready."""
    options = ("--simulate", str(NODES), "--persist", str(file), "--kubeconfig", str(stand.kubeconfig))
    process = stand.start("local up", "volcanopy", "local", "up", *options)
    output = process.stdout
    assert output is not None
    await asyncio.to_thread(lambda: next(line for line in output if line.startswith(b"Web page")))
    return process.pid


async def _started(folder: Path) -> Path:
    """Return the file of a cluster in which the job runs with few pods."""
    stand, file = Stand(folder), folder / "few"
    try:
        await _local_up(stand, file)
        manifest = job("large", FEW)
        manifest["spec"]["minAvailable"] = FEW  # it runs when all of them do
        template = manifest["spec"]["tasks"][0]["template"]
        template["metadata"] = {"annotations": {"sim.volcanopy.io/duration": "forever"}}
        template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
        async with Client(load_connection(stand.kubeconfig, None)) as client:
            await client.create(raw_kinds.JOBS, "default", manifest)
        await stand.cli("job", "wait", "large", "--for=running")
    finally:
        stand.stop()
    return file


def _records(file: Path) -> list[Record]:
    """Return the last record of each object."""
    last: dict[tuple[str, str, str], Record] = {}
    for line in file.read_bytes().splitlines()[1:]:
        record: Record = msgspec.json.decode(line.rpartition(b"\t")[0])
        if record[0] == "+":
            metadata = record[3]["metadata"]
            last[record[2], metadata.get("namespace", ""), metadata["name"]] = record
        else:
            last.pop(tuple(record[2]), None)
    return list(last.values())


def _multiplied(value: Any, pods: int) -> Any:
    """Return a status with the number of all pods in place of that of the few."""
    if isinstance(value, dict):
        return {key: _multiplied(item, pods) for key, item in value.items()}
    return pods if value == FEW else value


def _multiply(file: Path, target: Path, pods: int) -> None:
    """Write a file in which one of the pods exists very many times, spread over the nodes."""
    records = _records(file)
    version = max(record[1] for record in records)
    lines = [b'["=",%d,2]' % version]
    pod = next(record[3] for record in records if record[2] == "pods")
    nodes = [record[3]["metadata"]["name"] for record in records if record[2] == "nodes"]
    for record in records:
        body = record[3]
        if record[2].startswith("batchjobs."):
            body["spec"]["tasks"][0]["replicas"] = pods
        if record[2].startswith(("batchjobs.", "podgroups.")):
            body["status"] = _multiplied(body["status"], pods)
        if record[2] != "pods":
            lines.append(msgspec.json.encode(record))
    text, name = msgspec.json.encode(pod).decode(), pod["metadata"]["name"]
    index = name.rpartition("-")[2]
    for number in range(pods):
        version += 1
        body = text.replace(pod["metadata"]["uid"], str(uuid.UUID(int=number + 1)))
        body = body.replace(f'"{name}"', f'"large-worker-{number}"').replace(
            f'-index":"{index}"', f'-index":"{number}"'
        )
        body = body.replace(f'"{pod["spec"]["nodeName"]}"', f'"{nodes[number % len(nodes)]}"')
        body = body.replace(
            f'"resourceVersion":"{pod["metadata"]["resourceVersion"]}"', f'"resourceVersion":"{version}"'
        )
        lines.append(b'["+",%d,"pods",%b]' % (version, body.encode()))
    with target.open("wb") as written:
        written.writelines(b"%b\t%08x\n" % (line, zlib.crc32(line)) for line in lines)


async def _measured(folder: Path, pods: int, seconds: float) -> dict[str, float]:
    few, many = await _started(folder), folder / "many"
    _multiply(few, many, pods)
    measures: dict[str, float] = {}
    together = Stand(folder)
    try:
        pid = await _local_up(together, Path(shutil.copy(many, folder / "together")))
        await asyncio.sleep(seconds)
        measures["local up: MiB"] = cost(pid).highest
    finally:
        together.stop()
    apart = Stand(folder)
    apart.kubeconfig = folder / "apart.kubeconfig"
    try:
        server = apart.start(
            "API server", "embedded_apiserver", "--persist", str(many), "--kubeconfig", str(apart.kubeconfig)
        )
        assert server.stdout is not None
        await asyncio.to_thread(server.stdout.readline)
        cluster = ("--kubeconfig", str(apart.kubeconfig), "--no-leader-elect")
        apart.start(
            "controller", "volcanopy", "controller", *cluster, "--bind-address", "127.0.0.1", "--health-port", "0"
        )
        await asyncio.sleep(seconds / 2)
        for name, process in apart.processes.items():
            measures[f"{name}: MiB"] = cost(process.pid).highest
    finally:
        apart.stop()
    return measures


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the measures."""
    parser = argparse.ArgumentParser(prog="python -m bench many_pods", description=__doc__)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=200.0, help="after the start of the cluster")
    given = parser.parse_args(list(options))
    with tempfile.TemporaryDirectory(prefix="volcanopy-many-pods-") as folder:
        return asyncio.run(_measured(Path(folder), given.pods, given.seconds))
