"""How near to the API server's own speed pods are created and bound: `python -m bench live [--shape 10x500 ...] [--tenth]`.

For each shape (JOBSxPODS), one after the other: a bare client creates as many pods and binds them, watching; the same in two phases (all
created, then all bound), for shapes of one job; and volcanopy does it with BatchJobs of whole gangs, through admission,
controller and scheduler. Each on a fresh kube-apiserver with etcd, with nodes for all pods and no kubelets.

What is compared is **processor time for each pod, of all processes together** (API server, etcd, ours, or the bare client),
from the first create to the last bind: it stays the same on a busy machine, rates do not; the memory that the API server
allocates even more so. Requests are counted from the API
server's audit log, by user, verb and resource. It needs the programs that `python -m hack.controlplane` builds.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import uvloop

from bench.live.bare_client import SECONDS
from bench.live.load import CLIENT_LOADS, OUR_LOADS, Load, Run, measured
from bench.live.peers import peer
from bench.live.plot import bars
from bench.live.table import document, table, typical
from hack.gobuild import BuildError

SHAPES = ("10x500", "1x2000", "100x20", "500x20", "20x500", "1x10000", "2000x5", "10000x1")
PEERS = tuple(load for load in Load if load not in CLIENT_LOADS | OUR_LOADS)
IN_CI = ("10x50", "200x1")
"""Small enough for a machine of two cores that does other things as well."""


def shape(text: str, *, tenth: bool = False) -> tuple[int, int]:
    """Return jobs and pods of each job; of a tenth of the jobs, or of the pods of a single job."""
    jobs, pods = map(int, text.split("x"))
    if not tenth:
        return jobs, pods
    return (jobs // 10, pods) if jobs >= 10 else (jobs, pods // 10)


async def measure(
    shapes: Sequence[tuple[int, int]],
    peers: Sequence[Load] = (),
    seconds: float = SECONDS,
    *,
    without_gangs: bool = False,
    same_writes: bool = False,
) -> AsyncIterator[Run]:
    """Yield the runs of each shape: the bare client's before ours, then those of the peers. One that fails is left out."""
    for jobs, pods in shapes:
        own = [Load.BARE, Load.TWO_PHASES, Load.OURS] if jobs == 1 else [Load.BARE, Load.OURS]
        more = [*([Load.WITHOUT_GANGS] if without_gangs else ()), *([Load.SAME_WRITES] if same_writes else ())]
        for load in [*own, *more]:
            yield _shown(await measured(load, jobs, pods))
        for load in peers:
            try:
                yield _shown(await measured(load, jobs, pods, peer(load), seconds))
            except (RuntimeError, TimeoutError) as error:
                print(f"  {jobs}x{pods} {load.value}: {error or 'it did not start'}", file=sys.stderr)


def _shown(run: Run) -> Run:
    print(f"  {run}", file=sys.stderr)
    print(f"    {summary(run.requests)}", file=sys.stderr)
    return run


def summary(requests: Counter[str]) -> str:
    """Return the requests as text, the most frequent first."""
    return ", ".join(f"{count} {request}" for request, count in requests.most_common())


def figures(runs: Sequence[Run]) -> dict[str, float]:
    """Return processor time and rate for each run, ratios to the bare client, and the writes of ours."""
    result: dict[str, float] = {"load_of_the_machine": os.getloadavg()[0]}
    bare: dict[tuple[str, Load], Run] = {(run.shape, run.load): run for run in runs}
    for run in runs:
        name = f"{run.shape}_{run.load.value}"
        result |= {f"{name}_cpu_ms_per_pod": run.cpu_per_pod, f"{name}_pods_per_second": run.pods_per_second}
        result[f"{name}_apiserver_kib_per_pod"] = run.allocated_per_pod
        result |= {f"{name}_{part}_cpu_ms_per_pod": spent for part, spent in run.parts_per_pod.items()}
        if run.load is Load.OURS:
            ceiling = bare[run.shape, Load.BARE]
            result[f"{run.shape}_cpu_per_bare"] = run.cpu_per_pod / ceiling.cpu_per_pod
            result[f"{run.shape}_apiserver_kib_per_bare"] = run.allocated_per_pod / ceiling.allocated_per_pod
            result[f"{run.shape}_rate_per_bare"] = run.pods_per_second / ceiling.pods_per_second
            result[f"{run.shape}_writes_per_pod"] = run.requests.total() / run.pods
            if (alone := bare.get((run.shape, Load.WITHOUT_GANGS))) is not None:
                result[f"{run.shape}_cpu_per_pods_without_gangs"] = run.cpu_per_pod / alone.cpu_per_pod
            if (same := bare.get((run.shape, Load.SAME_WRITES))) is not None:
                result[f"{run.shape}_cpu_per_same_writes"] = run.cpu_per_pod / same.cpu_per_pod
                result[f"{run.shape}_rate_per_same_writes"] = run.pods_per_second / same.pods_per_second
            if (two := bare.get((run.shape, Load.TWO_PHASES))) is not None:
                result[f"{run.shape}_rate_per_two_phases"] = run.pods_per_second / two.pods_per_second
    return result


def add_peers(parser: argparse.ArgumentParser) -> None:
    """Add the option that names other systems."""
    parser.add_argument(
        "--peer", action="append", choices=[load.value for load in PEERS], default=[], help="beside ours"
    )


def given_peers(parser: argparse.ArgumentParser, given: argparse.Namespace) -> list[Load]:
    """Return the systems that are named, once their programs are there; ends the program if they cannot be built."""
    loads = [Load(name) for name in given.peer]
    for load in loads:
        try:
            peer(load)
        except BuildError as error:
            parser.error(str(error))
    return loads


def run(options: Sequence[str] = ()) -> dict[str, float]:
    """Return the figures of the shapes that are given; without any, of those of a tenth that CI measures."""
    parser = argparse.ArgumentParser(prog="python -m bench live", description=__doc__)
    parser.add_argument("--shape", action="append", metavar="JOBSxPODS", help=f"by default {' and '.join(IN_CI)}")
    parser.add_argument("--all", action="store_true", help=f"the shapes {', '.join(SHAPES)}")
    parser.add_argument("--tenth", action="store_true", help="a tenth of each shape")
    add_peers(parser)
    parser.add_argument("--without-gangs", action="store_true", help="the same jobs with pods that start alone, too")
    parser.add_argument(
        "--same-writes", action="store_true", help="the bare client with volcanopy's writes for jobs, too"
    )
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="by default 1")
    limit = "of a run of a peer; by default %(default)s"
    parser.add_argument("--limit", type=float, default=SECONDS, metavar="SECONDS", help=limit)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write all runs as JSON, after each of them")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw processor time for each pod as SVG")
    chosen = parser.parse_args(options)
    peers = given_peers(parser, chosen)
    texts = SHAPES if chosen.all else chosen.shape or IN_CI
    shapes = [shape(text, tenth=chosen.tenth) for text in texts] * chosen.rounds
    runs: list[Run] = []

    async def collect() -> None:
        more = {"without_gangs": chosen.without_gangs, "same_writes": chosen.same_writes}
        async for each in measure(shapes, peers, chosen.limit, **more):
            runs.append(each)
            if chosen.output:
                chosen.output.write_text(json.dumps(document(runs), indent=1))

    uvloop.run(collect())
    if peers:
        print(table(runs))
    if chosen.plot:
        chosen.plot.write_text(bars(typical(runs)))
    return figures(typical(runs))
