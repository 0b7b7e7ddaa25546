"""Short programs on process nodes: `python -m bench process_pods [--pods 1000] [--nodes 4]`.

1. `volcanopy local up --persist` is started with process nodes.
2. Jobs with half of the pods run to their end: pods per second, and processor seconds per pod of the cluster with its programs.
3. Jobs with the other half are created; when half of their pods have succeeded, the cluster is killed (SIGKILL) and started again on the same file.
4. Every job must complete with every pod succeeded: a pod whose program was killed is restarted by its policy.

Measured from the creation of the first job to the last pod that has succeeded.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvloop

from volcanopy.kube.cache.watch import Reflector
from volcanopy.kube.client.api_client import Client
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection
from volcanopy.kube.client.raw_kinds import JOBS, PODS

PER_JOB = 50
"""Pods of a job; each requests 50m, so that 40 fit on two cpus."""


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Measure, and print what was lost. Raises RuntimeError if a pod or a job was."""
    parser = argparse.ArgumentParser(prog="python -m bench process_pods")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=4)
    given = parser.parse_args(options)
    with tempfile.TemporaryDirectory(prefix="volcanopy-bench-") as folder:
        return uvloop.run(_measure(Path(folder), given.nodes, max(given.pods // PER_JOB // 2, 1)))


async def _measure(folder: Path, nodes: int, jobs: int) -> dict[str, float]:
    with _cluster(folder, nodes) as cluster:
        async with Client(load_connection(folder / "config")) as client:
            cpu, began = _cpu_of(cluster.pid), time.monotonic()
            await _create(client, "whole", jobs)
            await _succeeded(client, "whole", jobs * PER_JOB)
            seconds, used = time.monotonic() - began, _cpu_of(cluster.pid) - cpu
            await _create(client, "killed", jobs)
            at_kill = await _succeeded(client, "killed", jobs * PER_JOB // 2)
        cluster.kill()
        cluster.wait()
    with _cluster(folder, nodes) as cluster:
        async with Client(load_connection(folder / "config")) as client:
            after = await _succeeded(client, "killed", 0)
            if after < at_kill:
                raise RuntimeError(f"{at_kill} pods had succeeded when the cluster was killed, {after} are left")
            pods = await _succeeded(client, "killed", jobs * PER_JOB)
            await _completed(client, 2 * jobs)
        cluster.send_signal(signal.SIGINT)
        cluster.wait()
    return {
        "pods": 2 * jobs * PER_JOB,
        "pods_per_second": jobs * PER_JOB / seconds,
        "cpu_ms_per_pod": used / (jobs * PER_JOB) * 1000,
        "succeeded_before_the_kill": at_kill,
        "lost": jobs * PER_JOB - pods,
        "load_of_the_machine": os.getloadavg()[0],
    }


@contextmanager
def _cluster(folder: Path, nodes: int) -> Iterator[subprocess.Popen[str]]:
    """A running cluster; it is killed if it has not ended at the end."""
    command = [sys.executable, "-m", "volcanopy", "local", "up", "--nodes", str(nodes)]
    command += ["--persist", str(folder / "cluster"), "--kubeconfig", str(folder / "config")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(f"  {line.rstrip()}", file=sys.stderr)
                if line.startswith("Web page"):
                    break
            else:
                raise RuntimeError("the cluster did not start")
            yield process
        finally:
            process.kill()


def _cpu_of(pid: int) -> float:
    """Processor seconds of a process and of those that it has started and waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


async def _create(client: Client, name: str, jobs: int) -> None:
    for number in range(jobs):
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", "echo done"],
            "resources": {"requests": {"cpu": "50m"}},
        }
        template = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
        task = {"name": "main", "replicas": PER_JOB, "minAvailable": 1, "template": template}
        spec = {"minAvailable": 1, "tasks": [task]}
        body = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {"name": f"{name}-{number}"},
            "spec": spec,
        }
        await client.create(JOBS, "default", body)


async def _succeeded(client: Client, name: str, count: int) -> int:
    """Wait until so many pods of these jobs have succeeded; return how many have."""
    reflector = Reflector(client, PODS, "default")
    async for _ in reflector.batches():
        pods = [pod for pod in reflector.objects.values() if pod["metadata"]["name"].startswith(f"{name}-")]
        done = len([pod for pod in pods if (pod.get("status") or {}).get("phase") == "Succeeded"])
        if done >= count:
            return done
    raise RuntimeError("the watch has ended")


async def _completed(client: Client, count: int) -> None:
    """Wait until all jobs are completed. Raises RuntimeError if one is missing or has another end."""
    reflector = Reflector(client, JOBS, "default")
    async for _ in reflector.batches():
        phases = [_phase(job) for job in reflector.objects.values()]
        if len(phases) != count or {"Failed", "Terminated", "Aborted"} & set(phases):
            raise RuntimeError(f"{count} jobs were created; these are their phases: {phases}")
        if all(phase == "Completed" for phase in phases):
            return


def _phase(job: Json) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))
