"""Random clusters with labels, taints, affinity and spread terms, and their form for the reference implementation."""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from hypothesis import strategies as st

from tests.scheduler.reference.node_filters import Placed, World
from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.ledger.cluster import Cluster
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.snapshot import NONE
from volcanopy.scheduler.model.task_status import Status

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
HOSTNAME = "kubernetes.io/hostname"
TOPOLOGIES = ("zone", "rack", HOSTNAME)
APPS = ("a", "b")
MIB = 1024 * 1024

quantities = st.sampled_from(["0", "100m", "1", "3", "7"])
memories = st.sampled_from(["0", "100Mi", "1Gi", "3Gi", "7Gi"])
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
requirements = st.one_of(
    st.builds(
        core.Requirement,
        key=st.sampled_from(["zone", "rack", "size"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.sampled_from([("1",), ("2",), ("1", "3"), ("unknown",)]),
    ),
    st.builds(
        core.Requirement, key=st.sampled_from(["zone", "gone"]), operator=st.sampled_from(["Exists", "DoesNotExist"])
    ),
    st.builds(
        core.Requirement,
        key=st.just("size"),
        operator=st.sampled_from(["Gt", "Lt"]),
        values=st.sampled_from([("1",), ("2",)]),
    ),
)
fields = st.builds(
    core.Requirement,
    key=st.just("metadata.name"),
    operator=st.sampled_from(["In", "NotIn"]),
    values=st.sampled_from([("n0",), ("n2",), ("nobody",)]),
)
node_terms = st.builds(
    core.NodeSelectorTerm,
    match_expressions=st.lists(requirements, max_size=2).map(tuple),
    match_fields=st.lists(fields, max_size=1).map(tuple),
)
node_affinities = st.builds(
    core.NodeAffinity,
    required=st.none() | st.builds(core.NodeSelector, node_selector_terms=st.lists(node_terms, max_size=2).map(tuple)),
    preferred=st.lists(
        st.builds(core.PreferredNodeTerm, weight=st.integers(1, 100), preference=node_terms), max_size=2
    ).map(tuple),
)
_BY_APP = [core.LabelSelector(match_labels={"app": app}) for app in APPS]
_BY_ANY_APP = core.LabelSelector(match_expressions=(core.Requirement(key="app", operator="Exists"),))
label_selectors = st.sampled_from([*_BY_APP, *_BY_APP, _BY_ANY_APP, _BY_ANY_APP, core.LabelSelector(), None])
label_keys = st.sampled_from([(), (), (), (), ("version",), ("nothing",)])
pod_terms = st.builds(
    core.PodAffinityTerm,
    topology_key=st.sampled_from(TOPOLOGIES),
    label_selector=label_selectors,
    namespaces=st.sampled_from([(), (), (), (), ("x",), ("x", "y")]),
    namespace_selector=st.sampled_from(
        [None, None, None, core.LabelSelector(), core.LabelSelector(match_labels={"team": "t"})]
    ),
    match_label_keys=label_keys,
    mismatch_label_keys=label_keys,
)
pod_affinities = st.builds(
    core.PodAffinity,
    required=st.lists(pod_terms, max_size=2).map(tuple),
    preferred=st.lists(
        st.builds(core.WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=pod_terms), max_size=2
    ).map(tuple),
)
constraints = st.builds(
    core.TopologySpreadConstraint,
    max_skew=st.sampled_from([1, 1, 1, 2, 3]),
    topology_key=st.sampled_from(TOPOLOGIES),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=label_selectors,
    min_domains=st.sampled_from([None, None, 2, 5]),
    node_affinity_policy=st.sampled_from(["Honor", "Ignore"]),
    node_taints_policy=st.sampled_from(["Honor", "Ignore"]),
    match_label_keys=label_keys,
)
tolerations = st.one_of(
    st.just(core.Toleration(operator="Exists")),
    st.builds(
        core.Toleration,
        key=st.sampled_from(["t", "u", "node.kubernetes.io/unschedulable"]),
        operator=st.sampled_from(["Exists", "Equal"]),
        value=st.sampled_from(["", "1"]),
        effect=st.just("") | effects,
    ),
)
host_ports = st.builds(
    core.ContainerPort,
    host_port=st.sampled_from([0, 80, 81]),
    host_ip=st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    protocol=st.sampled_from(["TCP", "UDP"]),
)
images = st.sampled_from(["busybox", "host:5000/tool", "tool:v1"])


@st.composite
def nodes(draw: st.DrawFn, name: str) -> core.Node:
    labels = {key: draw(st.sampled_from(["1", "2", "3"])) for key in ("zone", "rack") if draw(st.integers(0, 4))}
    if draw(st.integers(0, 9)):
        labels[HOSTNAME] = name
    if draw(st.booleans()):
        labels["size"] = draw(st.sampled_from(["1", "2", "10", "-1", "big"]))
    taint = st.builds(core.Taint, key=st.sampled_from(["t", "u"]), effect=effects, value=st.sampled_from(["", "1"]))
    room: core.Quantities = {"cpu": draw(quantities), "memory": draw(memories), "pods": "10"}
    if draw(st.integers(0, 2)) == 0:
        room["nvidia.com/gpu"] = draw(st.sampled_from(["1", "4", "8"]))
    known = st.builds(
        core.Image,
        names=st.sampled_from([("busybox:latest",), ("host:5000/tool:latest", "tool:v1")]),
        size_bytes=st.sampled_from([1 * MIB, 100 * MIB, 3000 * MIB]),
    )
    return core.Node(
        metadata=core.Meta(name=name, labels=labels),
        spec=core.NodeSpec(
            unschedulable=draw(st.integers(0, 5)) == 0,
            taints=tuple(draw(st.lists(taint, max_size=2))) if draw(st.integers(0, 2)) == 0 else (),
        ),
        status=core.NodeStatus(
            allocatable=room, images=tuple(draw(st.lists(known, max_size=2))) if draw(st.booleans()) else ()
        ),
    )


def _sometimes(draw: st.DrawFn, strategy: st.SearchStrategy[object], one_in: int) -> object:
    return draw(strategy) if draw(st.integers(1, one_in)) == 1 else None


@st.composite
def specs(draw: st.DrawFn) -> core.PodSpec:
    affinity = core.Affinity(
        node_affinity=_sometimes(draw, node_affinities, 3),  # type: ignore[arg-type]
        pod_affinity=_sometimes(draw, pod_affinities, 3),  # type: ignore[arg-type]
        pod_anti_affinity=_sometimes(draw, pod_affinities, 3),  # type: ignore[arg-type]
    )
    requests: core.Quantities = {}
    if draw(st.booleans()):
        requests["cpu"] = draw(quantities)
    if draw(st.booleans()):
        requests["memory"] = draw(memories)
    if draw(st.integers(0, 4)) == 0:
        requests["nvidia.com/gpu"] = "1"
    container = core.Container(
        name="main",
        image=draw(images),
        resources=core.ResourceRequirements(requests=requests),
        ports=tuple(draw(st.lists(host_ports, max_size=1))),
    )
    return core.PodSpec(
        scheduler_name="volcanopy",
        node_selector={"zone": "1"} if draw(st.integers(0, 5)) == 0 else {},
        affinity=affinity,
        tolerations=tuple(draw(st.lists(tolerations, max_size=2))),
        topology_spread_constraints=tuple(draw(st.lists(constraints, max_size=2))) if draw(st.booleans()) else (),
        containers=(container,),
    )


@dataclass
class RandomCluster:
    """A session over a random cluster, with one pending task to evaluate."""

    ledger: Ledger
    cluster: Cluster
    task_row: int
    pending: list[int]

    def reference_world(self) -> World:
        """Return the cluster for the reference implementation."""
        snapshot, ledger = self.ledger.snapshot, self.ledger
        placed = []
        for row in sorted(snapshot.task_rows.values()):
            status, node = Status(int(ledger.status[row])), int(ledger.node[row])
            evicted = status == Status.RELEASING and snapshot.tasks.status[row] != Status.RELEASING
            if node == NONE or evicted or status in {Status.SUCCEEDED, Status.FAILED, Status.PENDING}:
                continue
            placed.append(Placed(snapshot.tasks.pods[row], snapshot.nodes.names[node], status == Status.RELEASING))
        return World(snapshot.nodes.traits.objects, tuple(placed), snapshot.namespaces)


@st.composite
def open_nodes(draw: st.DrawFn, name: str) -> core.Node:
    """A node with few taints and missing labels."""
    labels = {"zone": draw(st.sampled_from(["1", "2"])), "rack": draw(st.sampled_from(["1", "2", "3"])), HOSTNAME: name}
    if draw(st.integers(0, 9)) == 0:
        del labels["rack"]
    return core.Node(
        metadata=core.Meta(name=name, labels=labels),
        spec=core.NodeSpec(taints=(core.Taint(key="t", effect="NoSchedule"),) if draw(st.integers(0, 4)) == 0 else ()),
        status=core.NodeStatus(allocatable={"cpu": "8", "memory": "8Gi", "pods": "10"}),
    )


@st.composite
def specs_with_pod_terms(draw: st.DrawFn) -> core.PodSpec:
    """A pod with terms about other pods."""
    spreads = draw(st.booleans())
    affinity = core.Affinity(
        pod_affinity=_sometimes(draw, pod_affinities, 4),  # type: ignore[arg-type]
        pod_anti_affinity=_sometimes(draw, pod_affinities, 3),  # type: ignore[arg-type]
    )
    return core.PodSpec(
        scheduler_name="volcanopy",
        affinity=affinity,
        node_selector={"rack": "1"} if draw(st.integers(0, 5)) == 0 else {},
        topology_spread_constraints=tuple(draw(st.lists(constraints, min_size=1, max_size=2))) if spreads else (),
        containers=(core.Container(name="main"),),
    )


@st.composite
def random_clusters(draw: st.DrawFn) -> RandomCluster:
    """Up to five nodes and eight pods; a few of the pods share a spec. Half of them are about pods alone."""
    sociable = draw(st.booleans())
    names = [f"n{number}" for number in range(draw(st.integers(1, 5)))]
    state = State()
    for name in names:
        state.upsert(draw(open_nodes(name) if sociable else nodes(name)))
    state.upsert(core.Namespace(metadata=core.Meta(name="y", labels={"team": "t"})))
    kinds = draw(st.lists(specs_with_pod_terms() if sociable else specs(), min_size=1, max_size=3))
    if sociable:
        kinds.append(core.PodSpec(scheduler_name="volcanopy", containers=(core.Container(name="main"),)))
    for number in range(draw(st.integers(4 if sociable else 1, 8))):
        state.upsert(_pod(draw, number, draw(st.sampled_from(kinds)), names))
    snapshot = state.snapshot(NOW)
    ledger = Ledger(snapshot)
    pending = [row for row in sorted(snapshot.task_rows.values()) if ledger.status[row] == Status.PENDING]
    return RandomCluster(ledger, Cluster(ledger), snapshot.task_rows["x/task"], pending)


def _pod(draw: st.DrawFn, number: int, spec: core.PodSpec, names: list[str]) -> core.Pod:
    phase = (
        "task"
        if number == 0
        else draw(st.sampled_from(["Pending", "Running", "Running", "leaving", "Succeeded", "Unknown"]))
    )
    placed = phase not in {"task", "Pending"}
    labels = {"app": draw(st.sampled_from(APPS))} if draw(st.integers(0, 5)) else {}
    if draw(st.booleans()):
        labels["version"] = draw(st.sampled_from(["1", "2"]))
    return core.Pod(
        metadata=core.Meta(
            name="task" if number == 0 else f"p{number}",
            namespace="x" if number == 0 else draw(st.sampled_from(["x", "x", "y"])),
            labels=labels,
            annotations={"scheduling.k8s.io/group-name": "group"},
            deletion_timestamp=NOW if phase == "leaving" else None,
        ),
        spec=msgspec.structs.replace(spec, node_name=draw(st.sampled_from(names))) if placed else spec,
        status=core.PodStatus(phase={"task": "Pending", "leaving": "Running"}.get(phase, phase)),
    )
