"""The worlds of the corpus, each from its seed: five generators in turn.

``queue q note.groups=g1+g2`` gives the queue a required node group affinity, one group a preferred one: the notation has no
token for it, so :func:`objects` reads the annotation.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from volcanopy.api import core, names
from volcanopy.scheduler.cache.cluster_cache import Object
from volcanopy_testing import eviction_worlds, random_worlds
from volcanopy_testing.notation import world as read

CLASSES = tuple(f"class c{value} value={value}" for value in (1, 5, 9))
MEASURE = f"note.{names.MEASURE_PREFIX}"


def text(seed: int) -> str:
    """Return the world of a seed."""
    return GENERATORS[seed % len(GENERATORS)](Random(seed))


def objects(text: str) -> list[Object]:
    """Return the objects of a world."""
    return [_with_node_groups(obj) if isinstance(obj, core.Queue) else obj for obj in read(text)]


def _with_node_groups(queue: core.Queue) -> core.Queue:
    groups = queue.metadata.annotations.get("groups", "").split("+")
    if groups == [""]:
        return queue
    term = f"{'required' if len(groups) > 1 else 'preferred'}DuringSchedulingIgnoredDuringExecution"
    return replace(queue, spec=replace(queue.spec, affinity={"nodeGroupAffinity": {term: groups}}))


def _maybe(rng: Random, one_in: int, *tokens: str) -> list[str]:
    """Return one of the tokens with a probability of 1 to ``one_in``, else none."""
    return [rng.choice(tokens)] if not rng.randrange(one_in) else []


# General worlds with the annotations and labels that policies read


def annotated(rng: Random) -> str:
    """Return a general world whose jobs, nodes and queues have what time-, group- and data-related policies read."""
    lines = [_annotated_line(rng, line) for line in random_worlds.world(rng).splitlines()]
    lines += _maybe(
        rng, 2, "job choice phase=Pending alternative.gpu=cpu=1,gpu=1,time=10m alternative.cpu=cpu=2,time=2h"
    )
    return "\n".join(lines)


def _annotated_line(rng: Random, line: str) -> str:
    head, colon, tasks = line.partition(": ")
    tokens: list[str] = []
    match head.split()[:2]:
        case ["node", _]:
            tokens += _maybe(rng, 3, f"{names.NODE_GROUP}=g1", f"{names.NODE_GROUP}=g2") + _maybe(rng, 4, "gpu=2")
            tokens += _maybe(rng, 4, f"{MEASURE}cached.d=0.5", f"{MEASURE}power=300")
        case ["queue", name] if name != "root":
            tokens += _maybe(rng, 4, "note.groups=g1", "note.groups=g1+g2") + _maybe(rng, 5, "maxqueued=2")
            tokens += _maybe(rng, 4, "order=fair", "order=usage", "order=priority") if "fifo" not in head else []
        case ["job", _]:
            tokens += _job_tokens(rng)
            tasks = ", ".join(" ".join([part, *_pod_tokens(rng)]) for part in tasks.split(", "))
    return " ".join([head, *tokens]) + colon + tasks


def _job_tokens(rng: Random) -> list[str]:
    return [
        *_maybe(rng, 3, *(f"note.{names.MAX_RUNTIME}={time}" for time in ("10m", "2h", "30h"))),
        *_maybe(rng, 4, *(f"note.{names.RUNNING_ESTIMATE}={time}" for time in ("5m", "26h"))),
        *_maybe(rng, 6, *(f"note.{names.SLA_WAITING_TIME}={time}" for time in ("1m", "100h"))),
        *_maybe(rng, 6, *(f"note.{names.JDB_MAX_UNAVAILABLE}={number}" for number in ("1", "50%"))),
        *_maybe(rng, 6, *(f"note.{names.JDB_MIN_AVAILABLE}={number}" for number in ("1", "50%"))),
        *_maybe(rng, 5, f"note.{names.MOVABLE}=true"),
        *_maybe(rng, 6, f"note.{names.TASK_AFFINITY}=r0,r1", f"note.{names.TASK_ANTI_AFFINITY}=r0"),
        *_maybe(rng, 4, "admitted=60", "admitted=4000"),
    ]


def _pod_tokens(rng: Random) -> list[str]:
    return [
        *_maybe(rng, 8, f"label.{names.COOLDOWN_TIME}=30h"),
        *_maybe(rng, 8, f"note.{names.DATASETS}=d=5Gi"),
        *_maybe(rng, 8, f"note.{names.SCORING_TYPE}=LeastAllocated"),
    ]


# Networks


def network(rng: Random) -> str:
    """Return racks and halls with jobs that need nodes near each other, sub-groups, and running gangs that lost pods."""
    lines = list(CLASSES)
    free = {f"n{number}": rng.choice([2, 4, 4, 8]) for number in range(rng.randint(2, 6))}
    lines += [f"node {name} cpu={cpu}" for name, cpu in free.items()]
    racks: dict[int, list[str]] = {}
    for name in free:
        racks.setdefault(rng.randint(0, 3), []).append(name)
    racks.pop(0, None)
    lines += [f"hypernode rack-{number} tier=1 tiername=rack: {' '.join(nodes)}" for number, nodes in racks.items()]
    halls = [f"rack-{number}" for number in racks if rng.randint(0, 2)]
    lines += [f"hypernode hall tier=2: {' '.join(halls)}"] if halls else []
    lines += ["queue q0 weight=1", "queue q1 weight=2 deserved.cpu=6"]
    for number in range(rng.randint(1, 3)):
        size = rng.choice([1, 1, 2])
        nodes = [name for name in rng.choices(sorted(free), k=rng.randint(1, 5)) if free[name] >= size]
        for name in nodes:
            free[name] -= size
        if nodes:
            total = len(nodes) + rng.choice([0, 0, 1, 2])
            waiting = rng.randint(0, total - len(nodes))
            parts = [f"1 x cpu={size} on={name} label.p/p={rng.choice('ab')}" for name in nodes if free[name] >= 0]
            parts += [f"{waiting} x cpu={size} label.p/p=a"] if waiting else []
            lines.append(f"job r{number} min={total} phase=Running {_network_tokens(rng)}: {', '.join(parts)}")
    for number in range(rng.randint(1, 3)):
        parts = [
            f"{rng.randint(1, 3)} x cpu={rng.randint(1, 2)} role=r{role} label.p/p={'ab'[role]}"
            for role in range(rng.randint(1, 2))
        ]
        phase = rng.choice(["", "", "phase=Pending minres.cpu=2"])
        least = f"min={rng.randint(1, len(parts) * 2)}" if rng.randint(0, 1) else ""
        lines.append(
            " ".join(f"job w{number} {least} {phase} {_network_tokens(rng)}".split()) + f": {', '.join(parts)}"
        )
    return "\n".join(lines)


def _network_tokens(rng: Random) -> str:
    topology = rng.choice(["", "", "hard:1", "hard:1", "hard:2", "hard:rack", "soft"])
    tokens = [f"queue=q{rng.randint(0, 1)}", *([f"topology={topology}"] if topology else [])]
    if not rng.randint(0, 2):
        tokens += [f"split={rng.randint(1, 2)}", "split.by=p/p", f"split.min={rng.randint(0, 2)}"]
        tokens += _maybe(rng, 2, "split.topology=hard:1", "split.topology=soft")
    return " ".join([*tokens, *_maybe(rng, 2, "priority=c1", "priority=c5", "priority=c9")])


# Devices, volumes and cpus


def hardware(rng: Random) -> str:
    """Return nodes with shared and whole GPUs, claimed devices, volumes and NUMA nodes, partly in use."""
    lines = [*CLASSES, "queue q0 weight=1", "queue q1 weight=2 capability.cpu=12"]
    lines += ["deviceclass gpu driver=gpu.example.com", "storageclass local waits"]
    budget = 14
    for number in range(rng.randint(1, 5)):
        name, kind = f"n{number}", rng.choice(["vgpu", "vgpu", "memory", "devices", "plain", "numa"])
        zone = rng.choice(["zone=a", "zone=b", ""])
        lines.append(f"node {name} cpu={rng.choice([4, 8])} {zone} {_devices_of_node(rng, name, kind)}".strip())
        if kind == "numa":
            lines.append(f"numa {name} cpus=2x4 policy={rng.choice(['none', 'single-numa-node', 'best-effort'])}")
        if kind == "devices":
            lines.append(f"devices {name} count={rng.randint(1, 4)} model={rng.choice('ab')}")
        for pod in range(rng.randint(0, 2)):
            lines.append(_running_pod(rng, f"r{number}{pod}", name, kind))
            if kind == "devices" and not pod:
                lines[-1] += " template=c"
                lines.append(f"claim r{number}0-0-c class=gpu has={name}/0 users=r{number}0-0 owner=r{number}0-0")
    for number in range(rng.randint(1, 5)):
        count = rng.randint(1, min(4, budget))
        budget -= count
        lines += _waiting_job(rng, f"w{number}", count)
        if not budget:
            break
    return "\n".join(lines)


def _devices_of_node(rng: Random, name: str, kind: str) -> str:
    cards = rng.randint(1, 3)
    if kind == "vgpu":
        mode = rng.choice(["hami-core", "hami-core", "mig"])
        model, memory = ("NVIDIA-NVIDIA A100-SXM4-40GB", 40960) if mode == "mig" else ("T4", 100)
        register = "".join(f"{name}-{card},10,{memory},{model},true,{mode}:" for card in range(cards))
        amounts = (
            f"{names.VGPU_NUMBER}={10 * cards} {names.VGPU_MEMORY}={memory * cards} {names.VGPU_CORES}={100 * cards}"
        )
        return f"{amounts} note.{names.VGPU_REGISTER}='{register}'"
    if kind == "memory":
        return f"{names.GPU_MEMORY}={10 * cards} {names.GPU_NUMBER}={cards}"
    return f"gpu={cards}" if kind == "plain" else ""


def _running_pod(rng: Random, name: str, node: str, kind: str) -> str:
    least = rng.choice(["", "min=0", f"min=0 priority=c{rng.choice([1, 5])}"])
    head = " ".join(f"job {name} queue=q{rng.randint(0, 1)} {least} phase=Running".split())
    extra = ""
    if kind == "vgpu":
        memory = rng.choice([20, 60])
        extra = f"{names.VGPU_NUMBER}=1 {names.VGPU_MEMORY}={memory} note.{names.VGPU_IDS}='{node}-0,T4,{memory},0:;'"
    elif kind == "memory":
        extra = f"{names.GPU_MEMORY}={rng.choice([3, 6])} note.{names.GPU_INDEX}=0"
    elif kind == "plain":
        extra = rng.choice(["gpu=1", ""])
    return f"{head}: {' '.join(f'1 x cpu={rng.randint(1, 2)} on={node} {extra}'.split())}"


def _waiting_job(rng: Random, name: str, count: int) -> list[str]:
    """Return the lines of a job whose pods request one kind of device, volume or exclusive cpus."""
    head = " ".join(f"job {name} queue=q{rng.randint(0, 1)} {rng.choice(['', 'priority=c5', 'priority=c9'])}".split())
    more: list[str] = []
    match rng.choice(["vgpu", "vgpu", "memory", "number", "claim", "volume", "numa", "gpu", ""]):
        case "vgpu":
            cores = rng.choice(["", "", f" {names.VGPU_CORES}=40"])
            request = f"{names.VGPU_NUMBER}={rng.randint(1, 2)} {names.VGPU_MEMORY}={rng.choice([20, 50, 90])}{cores}"
        case "memory":
            request = f"{names.GPU_MEMORY}={rng.choice([2, 5, 9])}"
        case "number":
            request = f"{names.GPU_NUMBER}={rng.randint(1, 2)}"
        case "claim":
            request, want = "template=g", rng.choice(["", " count=2", " model=a", " count=2 match=model"])
            more = [f"claim {name}-{pod}-g class=gpu{want} owner={name}-{pod}" for pod in range(count)]
        case "volume":
            request = f"pvc={name}"
            more = [f"pvc {name} size=2Gi class=local{rng.choice(['', ' mode=ReadWriteOncePod'])}"]
            more += [f"pv v{name}{number} size={number + 2}Gi class=local on=n{number}" for number in range(2)]
        case "numa":
            policy = rng.choice(["single-numa-node", "best-effort", "restricted"])
            request = f"memory=1Gi guaranteed note.{names.NUMA_TOPOLOGY_POLICY}={policy}"
        case "gpu":
            request = f"gpu={rng.randint(1, 2)}"
        case _:
            request = ""
    least = rng.randint(1, count)
    return [f"{head} min={least}: {count} x cpu={rng.randint(1, 3)} {request}".strip(), *more]


GENERATORS: tuple[Callable[[Random], str], ...] = (
    random_worlds.world,
    eviction_worlds.world,
    annotated,
    network,
    hardware,
)
