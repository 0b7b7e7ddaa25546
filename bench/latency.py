"""How long a job of one pod waits on an idle cluster: `python -m bench latency [--jobs 100]`.

One job after the other, on a real API server with 1,000 nodes, through admission, controller and scheduler. A job's time is that
from the request that creates it until its pod is bound, by the timestamps of the API server's audit log; so are its stages:
each ends with the arrival of the write that it is named after. It needs the programs that `python -m hack.controlplane` builds.
`--peer NAME` measures another system after ours, as `python -m bench live` does; kube-scheduler gets a pod instead of a job.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import uvloop

from bench.live import add_peers, given_peers
from bench.live.audit import added
from bench.live.bare_client import NAMESPACE, SECONDS
from bench.live.load import Load, cluster
from bench.live.peers import peer

STAGES = ("create batchjobs", "create pods", "create podgroups", "create pods/binding")
_OF_PODS = ("create pods", STAGES[-1])
_VOLCANO, _KUEUE = ("create jobs", *_OF_PODS), ("create jobs", STAGES[-1])
STAGES_OF_PEERS: dict[Load, Sequence[str]] = {
    Load.KUBE_SCHEDULER: _OF_PODS,
    Load.VOLCANO: _VOLCANO,
    Load.VOLCANO_TUNED: _VOLCANO,
    Load.KUEUE: _KUEUE,
    Load.KUEUE_TUNED: _KUEUE,
}
"""The log does not have the names of pods that kube-controller-manager creates, since the API server generates them."""
PREFIX = "one"
PAUSE = 0.5
"""Seconds between the end of a job and the next one: what follows a bind, such as statuses, is not measured."""


class Lives:
    """When each write of a stage arrived, and when the pod was bound, by job, in seconds."""

    def __init__(self, log: Path, stages: Sequence[str] = STAGES) -> None:
        self._log, self._at, self._stages = log, log.stat().st_size, stages
        self.arrivals: dict[str, dict[str, float]] = {}
        self.bound: dict[str, float] = {}

    def read(self) -> None:
        """Take the lines that were added."""
        entries, self._at = added(self._log, self._at)
        for entry in entries:
            self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        target = entry.get("objectRef") or {}
        name = target.get("name", "")
        if target.get("namespace") != NAMESPACE or (entry.get("responseStatus") or {}).get("code", 0) >= 400:
            return
        if not name.startswith(PREFIX):
            return  # admission tries whether the job's pod would be accepted
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        job = "-".join(name.split("-")[:2])
        stage = f"{entry['verb']} {resource}"
        if stage in self._stages:
            arrival = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
            self.arrivals.setdefault(job, {}).setdefault(stage, arrival)
        if stage == STAGES[-1]:
            self.bound[job] = datetime.fromisoformat(entry["stageTimestamp"]).timestamp()


async def measure(jobs: int, load: Load) -> dict[str, float]:
    """Return percentiles of the whole and medians of the stages, in milliseconds."""
    stages = STAGES_OF_PEERS.get(load, STAGES)
    other = None if load is Load.OURS else peer(load)
    async with cluster(ours=other is None, peer=other) as idle:
        submit = partial(other.submit, idle.client) if other else idle.client.submit
        lives = Lives(idle.audit_log, stages)
        for number in range(jobs):
            name = f"{PREFIX}{number}-0"
            await submit(1, 1, prefix=f"{PREFIX}{number}")
            async with asyncio.timeout(SECONDS):
                while name not in lives.bound:
                    await asyncio.sleep(0.1)
                    lives.read()
            await asyncio.sleep(PAUSE)
    whole = sorted((lives.bound[name] - times[stages[0]]) * 1000 for name, times in lives.arrivals.items())
    prefix = f"{load.value}_" if other else ""
    percentiles = {"p50_ms": statistics.median(whole), "p99_ms": whole[int(len(whole) * 0.99)], "worst_ms": whole[-1]}
    for before, after in pairwise(stages):
        between = [(times[after] - times[before]) * 1000 for times in lives.arrivals.values() if after in times]
        line = f"until {after}: {statistics.median(between):.1f} ms, at most {max(between):.1f} ms"
        print(f"  {load.value}: {line}", file=sys.stderr)
    return {f"{prefix}{name}": value for name, value in percentiles.items()}


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the figures of so many jobs."""
    parser = argparse.ArgumentParser(prog="python -m bench latency", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100, metavar="N")
    add_peers(parser)
    given = parser.parse_args(options)
    figures: dict[str, float] = {}
    for load in (Load.OURS, *given_peers(parser, given)):
        figures |= uvloop.run(measure(given.jobs, load))
    return figures
