"""How soon a service that starts again works, and what memory it takes: `python -m bench restart [--nodes 5000] [--jobs 500] [--pods 100]`.

On a real API server the product creates and binds the pods of so many jobs of Volcano's API. Then the scheduler ends in order, a job
of one pod is submitted, and the scheduler is started: what counts is the time from the start of the program until the pod is bound,
by the API server's audit log, and the processor time of the program until then. The same with the controller. Memory is what is
resident then, and the most that was since the program started.

`--running` writes the status of each bound pod, as kubelets do: a pod that runs is larger than one that is only bound. `--copies` is
faster: the product creates and binds the first job only, and this program writes the others as copies of it, while the services rest.

`--volcano` repeats that with Volcano's scheduler on the same objects, beside our controller, with the settings of its chart except that
requests are not limited; it needs Go, and VOLCANO_SOURCE with its source. All need the programs that `python -m hack.controlplane` builds.
"""

import argparse
import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import uvloop
import yaml

from bench.live.audit import added
from bench.live.bare_client import NAMESPACE, session
from bench.live.load import Cluster, cluster, cpu, quiet
from bench.live.services import USERS
from bench.pod_writes import copy_job, run_pods
from tests.controlplane.processes import free_port
from tests.volcano_e2e.building import Programs, programs
from volcanopy.api.bindings import VOLCANO

ROUNDS = 3
SECONDS = 3600.0
"""The longest time of each step."""
SETTLING = 300.0
"""The longest time in which all processes come to rest once the pods are there."""
REST = 20.0
"""Seconds after a bind in which a service comes to rest; its memory is read then."""
RESTARTED = ("scheduler", "controller")
FIRST_WRITE = {"scheduler": ("create", "podgroups"), "controller": ("create", "jobs")}
"""What is written for the waiting job before the service starts: it does the rest."""


class Writes:
    """The writes of pods and jobs in the audit log, from now on."""

    def __init__(self, of: Cluster) -> None:
        self._log, self._at, self._services = of.audit_log, of.audit_log.stat().st_size, of.services

    async def until(self, verb: str, resource: str, prefix: str, count: int = 1) -> float:
        """Wait for so many writes of objects with this prefix; when the last was answered, in seconds since the epoch."""
        async with asyncio.timeout(SECONDS):
            while True:
                entries, self._at = added(self._log, self._at)
                for entry in entries:
                    target = entry.get("objectRef") or {}
                    written = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
                    accepted = (entry.get("responseStatus") or {}).get("code", 0) < 400
                    if accepted and (entry["verb"], written) == (verb, resource):
                        count -= target.get("namespace") == NAMESPACE and target.get("name", "").startswith(prefix)
                    if not count:
                        return datetime.fromisoformat(entry["stageTimestamp"]).timestamp()
                self._services.check()
                await asyncio.sleep(0.1)


def memory(pid: int) -> tuple[float, float]:
    """Return the resident memory of a process now and at the most, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, most = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
    assert now
    assert most
    return int(now[1]) / 1024, int(most[1]) / 1024


async def restarts(busy: Cluster, name: str, start: Callable[[], None], label: str) -> dict[str, float]:
    """End and start a service, which has to start a job; the least seconds and processor seconds, and the most memory, of the rounds."""
    figures: list[tuple[float, float, float, float]] = []
    for number in range(ROUNDS):
        job = f"{label}-{name}{number}"
        if name in busy.services.pids:
            busy.services.end(name)
        writes = Writes(busy)
        await busy.client.submit(1, 1, prefix=job)
        await writes.until(*FIRST_WRITE[name], job)
        began = time.time()
        start()
        pid = busy.services.pids[name]
        bound = await writes.until("create", "pods/binding", job)
        spent = cpu({name: pid})[name]
        with contextlib.suppress(TimeoutError):  # Volcano's scheduler never rests
            await quiet({name: pid}, REST)
        figures.append((bound - began, spent, *memory(pid)))
        after = cpu({name: pid})[name] - spent
        print(
            f"  {job}: bound after {bound - began:.1f} s, {spent:.1f} s of processor time, {after:.1f} s after that; "
            f"{figures[-1][2]:.0f} MiB, {figures[-1][3]:.0f} at the most",
            file=sys.stderr,
        )
    seconds, cpu_seconds, mebibytes, most = zip(*figures, strict=True)
    return {
        f"{label}_{name}_seconds": min(seconds),
        f"{label}_{name}_cpu_seconds": min(cpu_seconds),
        f"{label}_{name}_mebibytes": max(mebibytes),
        f"{label}_{name}_most_mebibytes": max(most),
    }


async def fill(busy: Cluster, size: argparse.Namespace) -> dict[str, float]:
    """Fill the cluster; return the rate, and the memory of each process after that."""
    writes, created = Writes(busy), 1 if size.copies else size.jobs
    began = time.time()
    waiting = asyncio.create_task(writes.until("create", "pods/binding", "job-", created * size.pods))
    await busy.client.submit(created, size.pods)
    seconds = await waiting - began
    print(f"  {created * size.pods} pods bound after {seconds:.0f} s", file=sys.stderr)
    await quiet(busy.processes, SETTLING)
    if size.copies:
        await _copy(busy, size)
    if size.running:
        await run_pods(busy.client, size.jobs, size.pods)
    processes = busy.plane.pids() | busy.services.pids
    await quiet(processes, SETTLING)
    print(f"  {size.jobs * size.pods} pods after {time.time() - began:.0f} s", file=sys.stderr)
    figures = {"pods_per_second": created * size.pods / seconds}
    for name, pid in processes.items():
        now, most = memory(pid)
        figures |= {f"{name}_filled_mebibytes": now, f"{name}_filled_most_mebibytes": most}
        print(f"  {name}: {now:.0f} MiB, {most:.0f} at the most", file=sys.stderr)
    return figures


async def _copy(busy: Cluster, size: argparse.Namespace) -> None:
    """Write the other jobs, while controller and scheduler are not there."""
    for name in RESTARTED:
        busy.services.end(name)
    user = yaml.safe_load(busy.plane.kubeconfig_for(USERS["controller"]).read_text())["users"][0]["user"]
    async with session(busy.plane, VOLCANO, user["token"]) as client:
        await copy_job(client, size.jobs, size.nodes)
    for name in RESTARTED:
        busy.services.start(name)


async def measure(size: argparse.Namespace, volcano: Programs | None) -> dict[str, float]:
    """Return the figures of both services, and of Volcano's scheduler where its programs are given."""
    async with cluster(ours=True, nodes=size.nodes, binding=VOLCANO) as busy:
        figures = await fill(busy, size)
        for name in RESTARTED:
            figures |= await restarts(busy, name, partial(busy.services.start, name), "volcanopy")
        if volcano:
            await _define(volcano, busy)
            start = partial(busy.services.run, "scheduler", _command(volcano, busy))
            figures |= await restarts(busy, "scheduler", start, "volcano")
    return figures


async def _define(volcano: Programs, busy: Cluster) -> None:
    """Create the definitions of Volcano's chart that are not there, which its programs wait for."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    present = {each["metadata"]["name"] for each in json.loads(await busy.client.send("GET", path))["items"]}
    for file in sorted((volcano.chart / "crd" / "bases").glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        if definition["metadata"]["name"] not in present:
            await busy.client.send("POST", path, definition)


def _command(volcano: Programs, busy: Cluster) -> list[str]:
    """Return the command of Volcano's scheduler."""
    settings = {
        "kubeconfig": busy.plane.kubeconfig,
        "scheduler-conf": volcano.chart / "config" / "volcano-scheduler.conf",
        "leader-elect": "false",
        "kube-api-qps": 5000,
        "kube-api-burst": 5000,
        "v": 1,
        "healthz-address": f"127.0.0.1:{free_port()}",
        "listen-address": f"127.0.0.1:{free_port()}",
    }
    return [str(volcano.scheduler()), *(f"--{name}={value}" for name, value in settings.items())]


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the figures of a cluster of this size."""
    parser = argparse.ArgumentParser(prog="python -m bench restart", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--pods", type=int, default=100, help="of each job")
    parser.add_argument("--running", action="store_true", help="the pods run")
    parser.add_argument(
        "--copies", action="store_true", help="jobs but the first are copies, which are written already bound"
    )
    parser.add_argument("--volcano", action="store_true", help="Volcano's scheduler too; VOLCANO_SOURCE has its source")
    given = parser.parse_args(options)
    volcano = programs() if given.volcano else None
    return uvloop.run(measure(given, volcano))
