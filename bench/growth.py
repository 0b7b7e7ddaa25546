"""How the cost of a cycle grows with the cluster, for pods that are placed one by one and for gangs in a network topology.

Each family is a world that grows by doubling; the exponent is that of a power of the size between the smallest and the
largest world, and the cost of a pod is that in the largest.
"""

import math
from collections.abc import Callable

from msgspec.structs import replace

from bench.scheduler import MOMENT, pod, timed, world
from volcanopy.api import core
from volcanopy.kube import machine
from volcanopy.scheduler.model.plan import Bind
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, parse
from volcanopy_testing import notation

SIZES = (200, 400, 800)
GPUS = {"volcano.sh/gpu-memory": "80000", "volcano.sh/gpu-number": "8"}
SHARING = DEFAULT + "  - name: deviceshare\n    arguments:\n      deviceshare.GPUSharingEnable: true\n"


def required(name: str) -> dict[str, object]:
    """Required anti-affinity to pods of the same gang on one node."""
    term = core.PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=_of(name))
    return {"affinity": core.Affinity(pod_anti_affinity=core.PodAffinity(required=(term,)))}


def spread(name: str) -> dict[str, object]:
    """Pods of the same gang spread over the nodes."""
    constraint = core.TopologySpreadConstraint(
        max_skew=1,
        topology_key="kubernetes.io/hostname",
        when_unsatisfiable="DoNotSchedule",
        label_selector=_of(name),
    )
    return {"topology_spread_constraints": (constraint,)}


def _of(name: str) -> core.LabelSelector:
    return core.LabelSelector(match_labels={"app": name})


def gangs(nodes: int, fields: Callable[[str], dict[str, object]]) -> Snapshot:
    """Ten gangs, each of half as many pods as there are nodes."""
    state = world(nodes)
    for number in range(10):
        name = f"gang-{number}"
        meta = core.Meta(name=name, namespace="bench", uid=name, creation_timestamp=MOMENT)
        spec = core.PodGroupSpec(min_member=nodes // 2, queue="default")
        state.upsert(core.PodGroup(metadata=meta, spec=spec, status=core.PodGroupStatus(phase="Inqueue")))
        for index in range(nodes // 2):
            plain = pod(name, index, "1", "1Gi", "")
            meta = replace(plain.metadata, labels={"app": name})
            state.upsert(replace(plain, metadata=meta, spec=replace(plain.spec, **fields(name))))
    return state.snapshot(MOMENT)


def shared_gpus(nodes: int) -> Snapshot:
    """Gangs whose pods each take an eighth of a GPU, four pods for each node."""
    room = " ".join(f"{name}={amount}" for name, amount in GPUS.items())
    lines = [f"node n{number} cpu=64 memory=256Gi {room}" for number in range(nodes // 4)]
    share = "cpu=1 volcano.sh/gpu-memory=1250"
    return notation.snapshot("\n".join([*lines, *(f"job j{number}: {nodes // 10} x {share}" for number in range(10))]))


def topology(nodes: int) -> Snapshot:
    """Racks of 16 nodes, and gangs that need more than a rack: none starts."""
    lines = [f"node n{number} cpu=64 memory=256Gi" for number in range(nodes)]
    for rack in range(nodes // 16):
        members = " ".join(f"n{number}" for number in range(16 * rack, 16 * rack + 16))
        lines.append(f"hypernode r{rack} tier=1: {members}")
    return notation.snapshot(
        "\n".join([*lines, *(f"job j{number} topology=hard:1: 160 x cpu=8" for number in range(5))])
    )


def family(
    worlds: Callable[[int], Snapshot], pods: Callable[[int], int], config: SchedulerConfig | None
) -> tuple[float, float]:
    """The exponent of the growth, and the milliseconds of processor time for each pod in the largest world."""
    seconds = []
    for size in SIZES:
        taken, plan = timed(worlds(size), config=config)
        assert len(plan.of(Bind)) in {0, pods(size)}
        seconds.append(taken)
    exponent = math.log(seconds[-1] / seconds[0]) / math.log(SIZES[-1] / SIZES[0])
    return exponent, 1000 * seconds[-1] / pods(SIZES[-1])


def run() -> dict[str, float]:
    """All families."""
    machine.freeze_garbage_collector()  # as in a running scheduler
    sharing = parse(SHARING, notation.all_policies())
    families = {
        "anti_affinity": family(lambda size: gangs(size, required), lambda size: 5 * size, None),
        "spreading": family(lambda size: gangs(size, spread), lambda size: 5 * size, None),
        "shared_gpus": family(shared_gpus, lambda size: size, sharing),
        "hard_topology": family(topology, lambda _: 800, None),
    }
    measures = {f"{name}_exponent": exponent for name, (exponent, _) in families.items()}
    return measures | {f"{name}_ms_per_pod": cost for name, (_, cost) in families.items()}
