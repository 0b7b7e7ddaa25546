"""The scheduler's cases: whole cycles on worlds of a size that clusters have.

Processor time of this process, default configuration, best of three.
"""

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from bench.client import FIELDS
from volcanopy.api import core
from volcanopy.kube import machine
from volcanopy.kube.cache.followed_kinds import NODES, POD_GROUPS, PODS, QUEUES
from volcanopy.kube.cache.watch import Change, ChangeType
from volcanopy.kube.client.decoding import read_page
from volcanopy.kube.client.kinds import Kind
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import builtin, schedule
from volcanopy.scheduler.model.plan import Bind, Evict, Explain, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policy.config import DEFAULT, SchedulerConfig, default, parse
from volcanopy.services.scheduler.state.store import Store
from volcanopy_testing import notation

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


def world(nodes: int) -> State:
    """Empty nodes of 64 cpu and 256Gi, and one queue."""
    state = State()
    state.upsert(core.Queue(metadata=core.Meta(name="default", uid="default")))
    room: core.Quantities = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    for number in range(nodes):
        name = f"node-{number:05}"
        meta = core.Meta(name=name, uid=name, labels={"kubernetes.io/hostname": name})
        state.upsert(core.Node(metadata=meta, status=core.NodeStatus(allocatable=room)))
    return state


def add_job(
    state: State,
    name: str,
    pods: int,
    cpu: str,
    memory: str,
    on: Sequence[str] = (),
    *,
    priority: str = "",
    least: int | None = None,
    queue: str = "default",
    affinity: core.Affinity | None = None,
) -> None:
    """A gang of equal pods, ``least`` of them its minimum; running, each on the node that ``on`` names, else waiting."""
    phase, running = ("Running", pods) if on else ("Inqueue", 0)
    meta = core.Meta(name=name, namespace="bench", uid=name, creation_timestamp=MOMENT)
    least = pods if least is None else least
    spec = core.PodGroupSpec(min_member=least, priority_class_name=priority, queue=queue)
    state.upsert(core.PodGroup(metadata=meta, spec=spec, status=core.PodGroupStatus(phase=phase, running=running)))
    for number in range(pods):
        state.upsert(pod(name, number, cpu, memory, on[number] if on else "", affinity))


def pod(job: str, number: int, cpu: str, memory: str, node: str, affinity: core.Affinity | None = None) -> core.Pod:
    """One pod of a job."""
    requests: core.Quantities = {"cpu": cpu, "memory": memory}
    return core.Pod(
        metadata=core.Meta(
            name=f"{job}-worker-{number}",
            namespace="bench",
            uid=f"{job}-{number}",
            creation_timestamp=MOMENT,
            labels={"app": job} if affinity else {},
            annotations={"scheduling.k8s.io/group-name": job, "volcanopy.io/task-spec": "worker"},
        ),
        spec=core.PodSpec(
            node_name=node,
            scheduler_name="volcanopy",
            affinity=affinity,
            containers=(core.Container(name="main", resources=core.ResourceRequirements(requests=requests)),),
        ),
        status=core.PodStatus(phase="Running" if node else "Pending"),
    )


EVICTING = parse(DEFAULT.replace("allocate, backfill", "allocate, reclaim, preempt, backfill"), builtin())
SHARING = parse(
    DEFAULT.replace("allocate, backfill", "allocate, preempt, reclaim, backfill").replace(
        "  - name: drf\n    enablePreemptable: false\n", "  - name: drf\n"
    ),
    builtin(),
)
"""With drf among the plugins that select victims."""


def timed(snapshot: Snapshot, rounds: int = 3, config: SchedulerConfig | None = None) -> tuple[float, Plan]:
    """Processor seconds of one cycle, and its plan."""
    config = config or default(builtin())
    best, plan = float("inf"), Plan()
    for _ in range(rounds):
        start = time.process_time()
        plan = schedule(snapshot, config)
        best = min(best, time.process_time() - start)
    return best, plan


def gangs_on_empty_nodes(nodes: int = 1000) -> float:
    """20 gangs of 500 pods."""
    state = world(nodes)
    for number in range(20):
        add_job(state, f"gang-{number}", 500, "2", "4Gi")
    seconds, plan = timed(state.snapshot(MOMENT))
    assert len(plan.of(Bind)) == 10_000
    return seconds


def gangs_that_preempt() -> float:
    """1,000 full nodes with 10,000 pods of low priority; 25 gangs of 20 pods of higher priority preempt them."""
    state = world(1000)
    add_priorities(state)
    fill(state, 1000, 100)
    for number in range(25):
        add_job(state, f"high-{number}", 20, "6", "8Gi", priority="high")
    config = parse(DEFAULT.replace("allocate, backfill", "allocate, preempt, backfill"), builtin())
    seconds, plan = timed(state.snapshot(MOMENT), config=config)
    assert len(plan.of(Evict)) == 500
    return seconds


def gangs_that_reclaim() -> float:
    """As many pods use all cpus, in five queues of one department; the gangs are in five queues of another."""
    state = world(1000)
    for name, parent in (("root", ""), ("a", "root"), ("b", "root")):
        state.upsert(core.Queue(metadata=core.Meta(name=name, uid=name), spec=core.QueueSpec(parent=parent)))
    for name in ("a", "b"):
        for number in range(5):
            leaf = core.Meta(name=f"{name}{number}", uid=f"{name}{number}")
            state.upsert(core.Queue(metadata=leaf, spec=core.QueueSpec(parent=name)))
    add_priorities(state)
    fill(state, 1000, 100, queues=[f"a{number}" for number in range(5)], cpu="6400m")
    for number in range(25):
        add_job(state, f"high-{number}", 20, "6400m", "8Gi", queue=f"b{number % 5}")
    seconds, plan = timed(state.snapshot(MOMENT), config=EVICTING)
    assert len(plan.of(Evict)) == 500
    return seconds


def gangs_that_may_evict_nothing() -> float:
    """500 full nodes; 100 gangs of 2 to 101 pods, of the same priority as the running pods: nothing may be evicted for them."""
    state = world(500)
    add_priorities(state)
    fill(state, 500, 50)
    for number in range(100):
        add_job(state, f"equal-{number}", 2 + number, "6", "8Gi", priority="low")
    seconds, plan = timed(state.snapshot(MOMENT), config=EVICTING)
    assert not plan.of(Evict)
    return seconds


def gangs_that_cannot_fit() -> float:
    """40 full nodes; 60 gangs of 41 to 45 pods of high priority, at most one of a gang on a node: evictions do not help them."""
    state = world(40)
    add_priorities(state)
    fill(state, 40, 4)
    for number in range(60):
        name = f"apart-{number}"
        term = core.PodAffinityTerm(
            topology_key="kubernetes.io/hostname", label_selector=core.LabelSelector(match_labels={"app": name})
        )
        apart = core.Affinity(pod_anti_affinity=core.PodAffinity(required=(term,)))
        add_job(state, name, 41 + number % 5, "6", "8Gi", priority="high", affinity=apart)
    seconds, plan = timed(state.snapshot(MOMENT), config=EVICTING)
    assert not plan.of(Evict)
    return seconds


def gangs_that_drf_protects(cycles: int = 10) -> float:
    """8 full nodes; 40 gangs of 36 different shapes wait, and each cycle one more arrives: no job has more than they request."""
    state = world(8)
    for number in range(32):
        on = [f"node-{(number + each) % 8:05}" for each in range(8)]
        add_job(state, f"running-{number}", 8, "2", "4Gi", on)
    seconds = 0.0
    for number in range(40 + cycles):
        add_job(
            state,
            f"waiting-{number}",
            2 + number % 7,
            f"{1 + (number * 5 + 4) % 6}",
            f"{1 + (number * 7 + 35) % 36 // 6}Gi",
        )
        if number >= 40:
            spent, plan = timed(state.snapshot(MOMENT), 1, SHARING)
            seconds += spent
            assert not plan.of(Evict)
    return seconds


def jobs_that_wait_for_admission(jobs: int = 5000) -> float:
    """1,000 full nodes, and jobs of 1 to 25 pods in four weighted queues, most of them not admitted: one cycle."""
    state = world(1000)
    queues = [f"queue-{weight}" for weight in (1, 2, 3, 4)]
    for weight, name in enumerate(queues, 1):
        state.upsert(core.Queue(metadata=core.Meta(name=name, uid=name), spec=core.QueueSpec(weight=weight)))
    fill(state, 1000, 100, cpu="6400m", queues=queues)
    for number in range(jobs):
        size = 1 + number % 25
        minimum: core.Quantities = {"cpu": str(2 * size), "memory": f"{4 * size}Gi", "pods": str(size)}
        spec = core.PodGroupSpec(min_member=size, queue=queues[number % 4], min_resources=minimum)
        name = f"waiting-{number}"
        meta = core.Meta(name=name, namespace="bench", uid=name, creation_timestamp=MOMENT)
        state.upsert(core.PodGroup(metadata=meta, spec=spec, status=core.PodGroupStatus(phase="Pending")))
    seconds, plan = timed(state.snapshot(MOMENT))
    assert len(plan.of(Explain)) > jobs * 3 // 4
    return seconds


def queues_of_two_levels(queues: int) -> Snapshot:
    """200 empty nodes; so many queues below two parents, each with four jobs, of which most are admitted one after the other."""
    state = world(200)
    state.upsert(core.Queue(metadata=core.Meta(name="root", uid="root")))
    for name, parent in (("a", "root"), ("b", "root"), *((f"q{number}", "ab"[number % 2]) for number in range(queues))):
        state.upsert(core.Queue(metadata=core.Meta(name=name, uid=name), spec=core.QueueSpec(parent=parent)))
    minimum: core.Quantities = {"cpu": "1", "memory": "4Gi", "pods": "1"}
    for number in range(4 * queues):
        meta = core.Meta(name=f"j{number}", namespace="bench", uid=f"j{number}", creation_timestamp=MOMENT)
        spec = core.PodGroupSpec(min_member=1, queue=f"q{number % queues}", min_resources=minimum)
        state.upsert(core.PodGroup(metadata=meta, spec=spec, status=core.PodGroupStatus(phase="Pending")))
    return state.snapshot(MOMENT)


def growth_with_queues(rounds: int = 5) -> tuple[float, float]:
    """Processor seconds of 2,000 queues, and the exponent with which these take longer than 250.

    The least of runs that alternate: two runs of which one is in a busy second would differ by more than the limit allows.
    """
    few, many = queues_of_two_levels(250), queues_of_two_levels(2000)
    seconds = [(timed(few, 8)[0], timed(many, 1)[0]) for _ in range(rounds)]
    of_few, of_many = map(min, zip(*seconds, strict=True))
    return of_many, math.log(of_many / of_few, 8)


def add_priorities(state: State) -> None:
    """The priority classes of the cases with evictions."""
    for name, value in (("low", 1), ("high", 1000)):
        state.upsert(core.PriorityClass(metadata=core.Meta(name=name), value=value))


def fill(state: State, nodes: int, jobs: int, queues: Sequence[str] = ("default",), cpu: str = "6") -> None:
    """Running jobs of low priority of 100 pods each, whose minimum is one."""
    for number in range(jobs):
        on = [f"node-{(number * 100 + k) % nodes:05}" for k in range(100)]
        queue = queues[number % len(queues)]
        add_job(state, f"low-{number}", 100, cpu, "8Gi", on, priority="low", least=1, queue=queue)


def listed(kind: str, objects: Sequence[msgspec.Struct], more: dict[str, object] | None = None) -> bytes:
    """Return the bytes of a list as an API server sends it; ``more`` is added to its objects and not read."""
    whole = [{**msgspec.to_builtins(body), "unread": more} if more else msgspec.to_builtins(body) for body in objects]
    return msgspec.json.encode({"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": whole})


def first_plan() -> tuple[State, float]:
    """5,000 nodes, 1,500 jobs and their 150,000 running pods, from the bytes of the lists to the first plan.

    Pods are of about 3 kB each, managed fields included. All of it is one cold run: a restart is.
    """
    made = world(5000)
    nodes = [node for node in made.nodes.plain["objects"] if node is not None]
    groups, pods = [], []
    for number in range(1500):
        name = f"running-{number}"
        meta = core.Meta(name=name, namespace="bench", uid=name, creation_timestamp=MOMENT)
        status = core.PodGroupStatus(phase="Running", running=100)
        groups.append(core.PodGroup(metadata=meta, spec=core.PodGroupSpec(min_member=100), status=status))
        pods += [pod(name, each, "1", "2Gi", f"node-{(number * 100 + each) % 5000:05}") for each in range(100)]
    waiting = pod("running-0", 100, "1", "2Gi", "")
    pages: list[tuple[Kind[Any], bytes]] = [
        (QUEUES, listed("Queue", [made.queues["default"]])),
        (NODES, listed("Node", nodes)),
        (POD_GROUPS, listed("PodGroup", groups)),
    ]
    pages += [(PODS, listed("Pod", [*pods[at : at + 10_000]], FIELDS)) for at in range(0, len(pods), 10_000)]
    pages.append((PODS, listed("Pod", [waiting])))
    del made, nodes, groups, pods
    store = Store()
    start = time.process_time()
    for kind, body in pages:
        page = read_page(kind, body, [])
        store.take([Change(ChangeType.ADDED, body) for body in page.items or ()])
    plan = schedule(store.snapshot(MOMENT), default(builtin()))
    seconds = time.process_time() - start
    assert len(plan.of(Bind)) == 1
    return store.state, seconds


def single_change(state: State) -> float:
    """One pod among many changed: a snapshot and a cycle, the quietest of five."""
    config, registry = default(builtin()), builtin()
    schedule(state.snapshot(MOMENT), config, registry)  # computes what depends on the nodes only
    changed = float("inf")
    for number in range(5):
        state.upsert(pod("running-0", 0, "1", "2Gi", f"node-{number + 1:05}"))
        start = time.process_time()
        schedule(state.snapshot(MOMENT), config, registry)
        changed = min(changed, time.process_time() - start)
    return changed


def singles_of_many_shapes(state: State, jobs: int = 10_000, shapes: int = 200) -> float:
    """Jobs of one pod each, each of another shape than the one before, on nodes that hold many pods already."""
    for number in range(jobs):
        kind = number % shapes
        add_job(state, f"single-{number}", 1, f"{100 + kind % 20 * 100}m", f"{256 * (1 + kind // 20)}Mi")
    seconds, plan = timed(state.snapshot(MOMENT))
    assert len(plan.of(Bind)) >= jobs
    return seconds


def pods_with_claimed_gpus(nodes: int = 500, waiting: int = 250) -> float:
    """Nodes of eight GPUs, of which pods have half by claims made from a template; pods with claims of their own arrive."""
    lines = ["deviceclass gpu.nvidia.com driver=gpu.nvidia.com"]
    for node in range(nodes):
        lines += [f"node n{node} cpu=64 memory=512Gi", f"devices n{node} count=8 driver=gpu.nvidia.com"]
        for card in range(4):
            name = f"r{node}x{card}"
            lines.append(f"job {name}: 1 x cpu={2 + card} memory=16Gi on=n{node} template=one")
            kept = f"has=n{node}/{card} users={name}-0 owner={name}-0"
            lines.append(f"claim {name}-0-one class=gpu.nvidia.com driver=gpu.nvidia.com {kept}")
    for number in range(waiting):
        name, count = f"w{number}", (1, 1, 2, 4)[number % 4]
        lines.append(f"job {name}: 1 x cpu={2 + number % 3} memory={8 + number % 5}Gi template=g{count}")
        lines.append(f"claim {name}-0-g{count} class=gpu.nvidia.com count={count} owner={name}-0")
    seconds, plan = timed(notation.snapshot("\n".join(lines)))
    assert len(plan.of(Bind)) == waiting
    return seconds


def run() -> dict[str, float]:
    """All cases, in processor seconds; one is a ratio and one an exponent."""
    machine.freeze_garbage_collector()  # as in a running scheduler: else the last cases would pay for the objects of all
    small, large = gangs_on_empty_nodes(1000), gangs_on_empty_nodes(2000)
    preempting, reclaiming = gangs_that_preempt(), gangs_that_reclaim()
    protected, infeasible = gangs_that_may_evict_nothing(), gangs_that_cannot_fit()
    fruitless = gangs_that_drf_protects()
    queues, exponent = growth_with_queues()
    state, first = first_plan()
    return {
        "gangs_on_empty_nodes": small,
        "twice_the_nodes": large / small,
        "gangs_that_preempt": preempting,
        "gangs_that_reclaim": reclaiming,
        "gangs_that_may_evict_nothing": protected,
        "gangs_that_cannot_fit": infeasible,
        "gangs_that_drf_protects": fruitless,
        "jobs_that_wait_for_admission": jobs_that_wait_for_admission(),
        "jobs_that_wait_20000": jobs_that_wait_for_admission(20_000),
        "queues_2000": queues,
        "queues_exponent": exponent,
        "pods_with_claimed_gpus": pods_with_claimed_gpus(),
        "first_plan_after_a_restart": first,
        "one_change_among_150000": single_change(state),
        "singles_of_200_shapes": singles_of_many_shapes(state),
    }
