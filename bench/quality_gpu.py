"""How well GPUs are placed: the share of all GPUs that is allocated when more is requested than the cluster has.

The protocol is that of the published comparisons on the openb trace: the pods of the trace arrive in random order, then
pods drawn from it, until 130 % of all GPUs are requested; none ends. Each is placed when it arrives, or never.

``python -m bench.quality_gpu FOLDER`` prints the table for the trace files (``openb_node_list_*.csv``,
``openb_pod_list_*.csv``) in a folder; without one, pods and nodes are generated. All pods wait in one cycle, in the order of
their arrival: one that does not fit is not tried again, so the placements are those of a cycle for each pod.
"""

import argparse
import csv
import random
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.model.plan import Bind, Plan
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, parse
from volcanopy_testing.notation import all_policies

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
TRACES = ("default", "multigpu50", "gpushare100", "cpu250", "gpuspec33")
LOAD = 1.3
"""The requested part of all GPUs."""
WHOLE = 1000
"""The parts of a GPU."""
_SHARING = "  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}\n"
_BINPACK = """\
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: binpack, deviceshare.ScheduleWeight: 1}
"""
_CHAIN = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
CONFIGURATIONS: Mapping[str, str] = {
    "default": DEFAULT.replace('"enqueue, allocate, backfill"', "allocate") + _SHARING,
    "fragmentation": _CHAIN + _SHARING + "  - name: fragmentation\n",
    "deviceshare": _CHAIN + _BINPACK,
    "volcano": DEFAULT.replace('"enqueue, allocate, backfill"', "allocate").replace("  - name: fragmentation\n", "")
    + _SHARING,
}
"""The configurations that are compared: without admission, which is not measured here."""


@dataclass(frozen=True)
class NodeShape:
    """A node: milli-cpu, MiB of memory, and GPUs of one model."""

    cpu: int
    memory: int
    gpus: int
    model: str = ""


@dataclass(frozen=True)
class PodShape:
    """A pod: milli-cpu, MiB of memory, the number of GPUs, the part of each, and the models that it accepts."""

    cpu: int
    memory: int
    gpus: int = 0
    part: int = 0
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The parts of GPUs that it requests."""
        return self.gpus * self.part


def read_nodes(path: Path) -> list[NodeShape]:
    """The nodes of a trace file with the columns cpu_milli, memory_mib, gpu and model."""
    with path.open() as file:
        return [
            NodeShape(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"] or "")
            for row in csv.DictReader(file)
        ]


def read_pods(path: Path) -> list[PodShape]:
    """The pods of a trace file with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if any, gpu_spec."""
    with path.open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["name"])
    return [_pod_shape(row) for row in rows]


def _pod_shape(row: Mapping[str, str]) -> PodShape:
    gpus = int(row["num_gpu"])
    part = int(row["gpu_milli"]) if gpus == 1 else WHOLE if gpus else 0
    models = tuple(name for name in (row.get("gpu_spec") or "").split("|") if name)
    return PodShape(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, part, models)


def generated_nodes(count: int, seed: int = 0) -> list[NodeShape]:
    """Nodes in the kinds of a production cluster: many with 8 GPUs, many with 2 GPUs and much cpu, few small ones."""
    kinds = (
        (NodeShape(96_000, 393_216, 8, "G2"), 46),
        (NodeShape(104_000, 524_288, 2, "T4"), 34),
        (NodeShape(16_000, 122_880, 2, "P100"), 10),
        (NodeShape(32_000, 131_072, 4, "V100"), 6),
        (NodeShape(128_000, 786_432, 8, "G3"), 4),
    )
    chooser = random.Random(seed)
    return chooser.choices([node for node, _ in kinds], [weight for _, weight in kinds], k=count)


def generated_pods(count: int, seed: int = 0) -> list[PodShape]:
    """Pods in the mix of a production cluster: an eighth without GPUs, half with one, a third with a part of one."""
    chooser = random.Random(seed)
    kinds = (
        (PodShape(12_000, 40_960), 13),
        (PodShape(11_400, 49_152, 1, WHOLE), 35),
        (PodShape(6_000, 24_576, 1, WHOLE), 13),
        (PodShape(8_000, 30_720, 1, 810), 13),
        (PodShape(4_000, 16_384, 1, 470), 10),
        (PodShape(3_000, 12_288, 1, 320), 6),
        (PodShape(6_000, 12_288, 1, 230), 6),
        (PodShape(2_000, 8_192, 1, 160), 2),
        (PodShape(88_000, 327_680, 8, WHOLE), 1),
        (PodShape(32_000, 131_072, 4, WHOLE), 1),
    )
    return chooser.choices([pod for pod, _ in kinds], [weight for _, weight in kinds], k=count)


def arrivals(pods: Sequence[PodShape], gpus: int, seed: int, load: float = LOAD) -> list[PodShape]:
    """The pods in random order, and as many drawn from them as it takes until ``load`` of the GPUs are requested."""
    chooser = random.Random(seed)
    order = list(pods)
    chooser.shuffle(order)
    target, requested = load * gpus * WHOLE, sum(pod.total for pod in order)
    while requested > target:
        requested -= order.pop(chooser.randrange(len(order))).total
    while True:
        pod = pods[chooser.randrange(len(pods))]
        if requested + pod.part > target:
            return order
        order.append(pod)
        requested += pod.total


def cluster(nodes: Iterable[NodeShape]) -> State:
    """The nodes with their GPUs as cards of 1,000 units of memory, and one queue."""
    state = State()
    state.upsert(core.Queue(metadata=core.Meta(name="default", uid="default")))
    for number, shape in enumerate(nodes):
        name = f"node-{number:05}"
        room: core.Quantities = {"cpu": f"{shape.cpu}m", "memory": f"{shape.memory}Mi", "pods": "1000"}
        annotations = {}
        if shape.gpus:
            room |= {names.VGPU_NUMBER: str(100 * shape.gpus), names.VGPU_MEMORY: str(WHOLE * shape.gpus)}
            cards = [f"{name}-{card},100,{WHOLE},{shape.model},true:" for card in range(shape.gpus)]
            annotations[names.VGPU_REGISTER] = "".join(cards)
        meta = core.Meta(name=name, uid=name, annotations=annotations)
        state.upsert(core.Node(metadata=meta, status=core.NodeStatus(allocatable=room)))
    return state


def add_pod(
    state: State,
    number: int,
    shape: PodShape,
    node: str = "",
    annotations: Mapping[str, str] | None = None,
    gated: bool = False,
) -> None:
    """A job of one pod that arrived as the ``number``-th: waiting, or running on a node with its annotations."""
    name, created = f"pod-{number:06}", MOMENT - timedelta(seconds=1) + timedelta(microseconds=10 * number)
    requests: core.Quantities = {"cpu": f"{shape.cpu}m", "memory": f"{shape.memory}Mi"}
    if shape.gpus:
        requests |= {names.VGPU_NUMBER: str(shape.gpus), names.VGPU_MEMORY: str(shape.part)}
    notes = {"scheduling.k8s.io/group-name": name, **(annotations or {})}
    if shape.models:
        notes[names.GPU_TYPE_USE] = ",".join(shape.models)
    meta = core.Meta(name=name, namespace="bench", uid=name, creation_timestamp=created)
    group = core.PodGroupStatus(phase="Running" if node else "Inqueue", running=1 if node else 0)
    state.upsert(core.PodGroup(metadata=meta, spec=core.PodGroupSpec(min_member=1, queue="default"), status=group))
    resources = core.ResourceRequirements(requests=requests, limits=requests)
    container = core.Container(name="main", resources=resources)
    gates = (core.SchedulingGate(name="bench/not-here"),) if gated else ()
    spec = core.PodSpec(node_name=node, scheduler_name="volcanopy", containers=(container,), scheduling_gates=gates)
    own = core.Meta(name=name, namespace="bench", uid=f"{name}-pod", creation_timestamp=created, annotations=notes)
    state.upsert(core.Pod(metadata=own, spec=spec, status=core.PodStatus(phase="Running" if node else "Pending")))


@dataclass(frozen=True)
class Result:
    """The allocated percentage of all GPUs, and the processor time of each pod in microseconds."""

    allocated: float
    cost: float


def place(nodes: Sequence[NodeShape], order: Sequence[PodShape], config: SchedulerConfig) -> tuple[Plan, float]:
    """Place pods in the order of their arrival; the plan, and the processor seconds that it took."""
    state = cluster(nodes)
    for number, shape in enumerate(order):
        add_pod(state, number, shape)
    snapshot = state.snapshot(MOMENT)
    start = time.process_time()
    plan = schedule(snapshot, config)
    return plan, time.process_time() - start


def measure(nodes: Sequence[NodeShape], pods: Sequence[PodShape], seed: int, configuration: str) -> Result:
    """One run of one configuration."""
    gpus = sum(node.gpus for node in nodes)
    order = arrivals(pods, gpus, seed)
    plan, seconds = place(nodes, order, parse(CONFIGURATIONS.get(configuration, configuration), all_policies()))
    placed = {bind.pod for bind in plan.of(Bind)}
    total = sum(shape.total for number, shape in enumerate(order) if f"bench/pod-{number:06}" in placed)
    return Result(100 * total / (gpus * WHOLE), 1e6 * seconds / len(order))


def _run(case: tuple[Sequence[NodeShape], Sequence[PodShape], int, str]) -> Result:
    return measure(*case)


def run() -> dict[str, float]:
    """The allocated percentage of 80 generated nodes with the default and with fragmentation alone, and what a pod costs."""
    nodes, pods = generated_nodes(80), generated_pods(500)
    results = {name: [measure(nodes, pods, seed, name) for seed in (1, 2)] for name in ("default", "deviceshare")}
    ours, fullest = results["default"], results["deviceshare"]
    return {
        "allocated_percentage": statistics.mean(each.allocated for each in ours),
        "ahead_of_fullest_card": statistics.mean(
            first.allocated - second.allocated for first, second in zip(ours, fullest, strict=True)
        ),
    }


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality_gpu", description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="folder with the trace files")
    parser.add_argument("--nodes", default="gpu_node", help="which openb_node_list_*.csv: gpu_node or all_node")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds, from 42 on")
    parser.add_argument("--traces", default=",".join(TRACES))
    parser.add_argument("--configurations", default=",".join(CONFIGURATIONS))
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args(arguments)
    with ProcessPoolExecutor(options.processes) as pool:
        for trace in options.traces.split(",") if options.folder else ("generated",):
            if options.folder:
                nodes = read_nodes(options.folder / f"openb_node_list_{options.nodes}.csv")
                pods = read_pods(options.folder / f"openb_pod_list_{trace}.csv")
            else:
                nodes, pods = generated_nodes(300), generated_pods(2000)
            for name in options.configurations.split(","):
                cases = [(nodes, pods, seed, name) for seed in range(42, 42 + options.seeds)]
                results = list(pool.map(_run, cases))
                each = [result.allocated for result in results]
                cost = statistics.median(result.cost for result in results)
                print(
                    f"{trace:12} {name:14} {statistics.mean(each):6.2f} % ({min(each):.2f} to {max(each):.2f}), "
                    f"{cost:.0f} us a pod",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
