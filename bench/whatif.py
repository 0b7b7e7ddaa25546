"""The what-if engine: why one job waits and its confirmed remedies, in clusters of two sizes.

Processor seconds from the objects of the cluster, as they were read, to the answer: the run of all waiting jobs, the run of
the job alone, and the search for remedies to its end.
"""

import time
from datetime import UTC, datetime
from itertools import count
from typing import TypeVar

import msgspec

from volcanopy.api import core
from volcanopy.scheduler.core import builtin
from volcanopy.scheduler.policy.config import default
from volcanopy.whatif.answer import Limits, answer
from volcanopy.whatif.cluster import Cluster
from volcanopy.whatif.engine import Budget, Engine
from volcanopy.whatif.starts import Start

Model = TypeVar("Model")
NOW = datetime(2030, 1, 2, tzinfo=UTC)
JOB = 100
"""Pods of a running job."""
WAITING = 20
"""Pods of each of the jobs that wait, each of which needs most of a node."""


def explained(nodes: int, pods: int, *, spread: bool = False) -> float:
    """Processor seconds of the answer about the last of ten waiting jobs, in a cluster whose nodes are full.

    ``spread``: each running job has its pods on different nodes, instead of on as few nodes as possible.
    """
    objects = _objects(nodes, pods, spread)
    begin = time.process_time()
    cluster = Cluster(objects)
    engine = Engine(cluster, default(builtin()), NOW)
    engine.settle()
    group = "default/waiting-9"
    answers = answer(engine, Limits(Budget(64), Budget(100_000), frozenset({group})))
    taken = time.process_time() - begin
    job = next((job for job in answers.jobs if job.target.group == group), None)
    assert job is not None
    assert job.start in {Start.AFTER, Start.NEVER}
    assert job.remedies
    assert job.searched
    return taken


def _objects(nodes: int, pods: int, spread: bool) -> list[core.Node | core.Queue | core.PodGroup | core.Pod]:
    each = pods // nodes
    places = (number % nodes if spread else number // each for number in count())
    objects: list[core.Node | core.Queue | core.PodGroup | core.Pod] = [
        _read(core.Queue, "default", "", status={"state": "Open"}),
        *(
            _read(
                core.Node,
                f"n{number}",
                "",
                status={"allocatable": {"cpu": str(each), "memory": "256Gi", "pods": "110"}},
            )
            for number in range(nodes)
        ),
    ]
    for job in range(pods // JOB):
        objects.append(_group(f"job-{job}", JOB, "Running", JOB))
        objects += [_pod(f"job-{job}-{member}", f"job-{job}", "1", f"n{next(places)}") for member in range(JOB)]
    for job in range(10):
        objects.append(_group(f"waiting-{job}", WAITING, "Inqueue"))
        objects += [_pod(f"waiting-{job}-{member}", f"waiting-{job}", str(each - 1)) for member in range(WAITING)]
    return objects


def _group(name: str, minimum: int, phase: str, running: int = 0) -> core.PodGroup:
    status = {"phase": phase, "running": running}
    return _read(core.PodGroup, name, "default", spec={"minMember": minimum}, status=status)


def _pod(name: str, group: str, cpu: str, node: str = "") -> core.Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    spec = {"schedulerName": "volcanopy", "containers": [container]} | ({"nodeName": node} if node else {})
    status = {"phase": "Running" if node else "Pending"}
    return _read(core.Pod, name, "default", {"scheduling.k8s.io/group-name": group}, spec=spec, status=status)


def _read(
    model: type[Model], name: str, namespace: str, annotations: dict[str, str] | None = None, **fields: object
) -> Model:
    metadata = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": "2030-01-01T00:00:00Z"}
    return msgspec.convert({"metadata": metadata | {"annotations": annotations or {}}, **fields}, model)


def run() -> dict[str, float]:
    """Measure both sizes, with packed and with spread jobs."""
    return {
        f"explain_{nodes}_nodes{'_spread' if spread else ''}": explained(nodes, pods, spread=spread)
        for nodes, pods in ((1000, 10_000), (5000, 150_000))
        for spread in (False, True)
    }
