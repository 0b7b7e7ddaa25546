"""Whether anything grows for hours at a modest rate: ``python -m bench soak [--minutes 120] [--server embedded|real]``.

Two schedulers, two controllers and admission run as processes; gangs of one to twelve pods arrive, complete and are deleted again.
Every ten seconds resident memory, open files, threads, processor time and requests of each process are read, and the objects in the
cluster are counted. Printed is the mean of the second half and the slope of a line through it: the first half has the growth of caches
that fill. Events live an hour, and grow by 15 MiB until then: of a run of 75 minutes or more only what follows the first 62 counts.
The largest slopes
and the rules that the chaos judge finds broken have limits in bench/limits.toml. ``real`` needs what ``python -m hack.controlplane``
builds.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from chaos.gangs import SIZES, gang
from chaos.judge import following
from chaos.site import Site
from chaos.stage import StageSettings, embedded_server, site_of
from tests.controlplane.plane import ControlPlane
from volcanopy.api.crd import crds
from volcanopy.cli.logs import configure
from volcanopy.kube.client import raw_kinds
from volcanopy.kube.client.errors import KubeError
from volcanopy.kube.client.kubeconfig import load_connection

LOOK = 10.0
"""Seconds between two samples."""
RESTING = 62 * 60.0
"""Seconds after which as many Events expire as are created."""
KEPT = 20
"""Seconds for which a job exists after it has ended."""
LEVELS = (("memory", "MiB"), ("files", "files"), ("threads", "threads"), ("objects", "objects"))
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
Sample = dict[str, float]


@dataclass
class Soak:
    """Samples of each process by name, each with the seconds since the start."""

    began: float = field(default_factory=time.monotonic)
    samples: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))

    def look(self, pids: Mapping[str, int], requests: Mapping[str, int]) -> None:
        """Take a sample of each process that runs."""
        for name, pid in pids.items():
            with contextlib.suppress(OSError):
                sample = _of_process(pid) | {"at": time.monotonic() - self.began}
                if name in requests:
                    sample["requests"] = float(requests[name])
                self.samples[name].append(sample)

    def count(self, objects: int) -> None:
        """Take a sample of the number of objects in the cluster."""
        self.samples["cluster"].append({"objects": float(objects), "at": time.monotonic() - self.began})

    def figures(self) -> dict[str, float]:
        """Return mean and slope per hour of each measure at rest; of counters the rate and the change of the rate."""
        result: dict[str, float] = {}
        for name, samples in sorted(self.samples.items()):
            end = samples[-1]["at"]
            start = RESTING if end >= 1.2 * RESTING else end / 2
            late = [sample for sample in samples if sample["at"] >= start]
            hours = np.array([sample["at"] for sample in late]) / 3600
            for measure, unit in LEVELS:
                if measure in late[0]:
                    values = np.array([sample[measure] for sample in late])
                    result[f"{name}: {unit}, mean"] = float(values.mean())
                    slope = result[f"{name}: {unit} more per hour"] = float(np.polyfit(hours, values, 1)[0])
                    total = f"most {unit} more per hour"
                    result[total] = max(slope, result.get(total, slope))
            for measure, unit in (("cpu", "% of a core"), ("requests", "requests/s")):
                if measure in late[0]:
                    values = np.array([sample[measure] for sample in late])
                    rates = np.diff(values) / np.diff(hours) / 3600 * (100 if measure == "cpu" else 1)
                    result[f"{name}: {unit}, mean"] = float(rates.mean())
                    result[f"{name}: {unit} more per hour"] = float(np.polyfit(hours[1:], rates, 1)[0])
        return result


def _of_process(pid: int) -> Sample:
    """Return what a process uses now; raises OSError if it does not run."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
    return {
        "memory": int((folder / "statm").read_text().split()[1]) * PAGE / 2**20,
        "files": float(sum(1 for _ in (folder / "fd").iterdir())),
        "threads": float(fields[17]),
        "cpu": (int(fields[11]) + int(fields[12])) / TICKS,
    }


@contextlib.asynccontextmanager
async def _site(server: str, folder: Path) -> AsyncIterator[tuple[Site, dict[str, int]]]:
    """Run a cluster with the services; yield its site and the processes of the API server."""
    settings = StageSettings(run_services=True, nodes=6, folder=folder)
    async with AsyncExitStack() as stack:
        if server == "embedded":
            connection, process = await stack.enter_async_context(embedded_server(folder))
            pids = {"embedded server": process.pid or 0}
        else:
            plane = stack.enter_context(ControlPlane.start(crds=crds()))
            connection, process = load_connection(plane.kubeconfig, None), None
            pids = plane.pids()
        yield await stack.enter_async_context(site_of(connection, settings, process)), pids


async def _submit(site: Site, gap: float) -> None:
    """Submit a gang after each gap until cancelled; a job is deleted some time after it has ended."""
    rng, number = Random(1), 0
    while True:
        job = gang(f"soak-{number:05}", rng.choice(SIZES), rng)
        job["spec"]["ttlSecondsAfterFinished"] = KEPT
        with contextlib.suppress(KubeError):
            await site.client.create(raw_kinds.JOBS, site.namespace, job)
        number += 1
        await asyncio.sleep(gap)


async def _measured(server: str, seconds: float, gap: float) -> dict[str, float]:
    soak = Soak()
    with tempfile.TemporaryDirectory(prefix="volcanopy-soak-") as folder:
        async with _site(server, Path(folder)) as (site, pids), following(site.judge, site.access):
            names = [f"{service.name} {number}" for number, service in enumerate(site.services)]
            submitting = asyncio.create_task(_submit(site, gap))
            while time.monotonic() < soak.began + seconds:
                running = {name: each.pid for name, each in zip(names, site.services, strict=True) if each.pid}
                counts = {name: proxy.requests for name, proxy in zip(names, site.proxies, strict=True)}
                soak.look(pids | running, counts)
                soak.count(len(site.judge.jobs) + len(site.judge.groups) + len(site.judge.pods))
                await asyncio.sleep(LOOK)
            submitting.cancel()
            judge = site.judge
            await judge.until(lambda: not judge.unfinished(), 300)
            judge.finish()
            for fault in judge.faults:
                print(fault)
            totals = {
                "jobs completed": float(judge.ends["Completed"]),
                "pods": float(len(judge.made)),
                "broken rules": float(len(judge.faults)),
                "starts of services": float(sum(service.starts for service in site.services)),
            }
            return totals | soak.figures()


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the measures."""
    parser = argparse.ArgumentParser(prog="python -m bench soak")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--server", choices=("embedded", "real"), default="embedded")
    parser.add_argument("--gap", type=float, default=5.0, help="seconds between two jobs")
    parsed = parser.parse_args(list(options))
    configure(level=logging.ERROR)  # what our own simulated nodes do not reach is no news
    return asyncio.run(_measured(parsed.server, parsed.minutes * 60, parsed.gap))
