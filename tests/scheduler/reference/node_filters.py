"""Reference implementation of the filters and scores of kube-scheduler, one node and one pod at a time.

Nothing is shared with the vectorised code. The rules are written over plain lists, for clarity instead of speed.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.scheduler.reference import node_rules as rules
from volcanopy.api import core


@dataclass(frozen=True)
class Placed:
    """A pod on a node. ``leaving``: it is terminating."""

    pod: core.Pod
    node: str
    leaving: bool = False


@dataclass(frozen=True)
class World:
    """All nodes, the pods that are on them, and the namespaces."""

    nodes: tuple[core.Node, ...]
    placed: tuple[Placed, ...] = ()
    namespaces: Mapping[str, core.Namespace] = field(default_factory=dict)

    def node(self, name: str) -> core.Node | None:
        """The node of this name."""
        return next((node for node in self.nodes if node.metadata.name == name), None)

    def on(self, *names: str) -> list[core.Pod]:
        """The pods on these nodes, terminating ones included."""
        return [placed_pod.pod for placed_pod in self.placed if placed_pod.node in names]

    def staying_on(self, name: str) -> list[core.Pod]:
        """The pods on a node that are not terminating."""
        return [placed_pod.pod for placed_pod in self.placed if placed_pod.node == name and not placed_pod.leaving]

    def domain(self, node: core.Node, key: str) -> list[core.Pod]:
        """The pods in the node's topology domain; none if the node is in none."""
        value = node.metadata.labels.get(key)
        if value is None:
            return []
        return self.on(*(item.metadata.name for item in self.nodes if item.metadata.labels.get(key) == value))


@dataclass(frozen=True)
class Amounts:
    """Cpu, memory and GPUs: allocatable or allocated on a node, or requested by a pod."""

    cpu: int = 0
    memory: int = 0
    gpus: int = 0


# Filters


def refusal(pod: core.Pod, node: core.Node, world: World) -> str:
    """Return the first reason why the pod cannot run on the node; empty if it can."""
    taint = rules.untolerated(pod, node)
    constraints = [
        topology_spread_constraint
        for topology_spread_constraint in pod.spec.topology_spread_constraints
        if topology_spread_constraint.when_unsatisfiable == "DoNotSchedule"
    ]
    if node.spec.unschedulable and not rules.tolerated(
        pod, core.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    ):
        return "node(s) were unschedulable"
    if not rules.node_affinity(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    if any(constraint.topology_key not in node.metadata.labels for constraint in constraints):
        return "node(s) didn't match pod topology spread constraints (missing required label)"
    if not _is_near(pod, node, world):
        return "node(s) didn't match pod affinity rules"
    if any(rules.ports_conflict(pod, other) for other in world.on(node.metadata.name)):
        return "node(s) didn't have free ports for the requested pod ports"
    if any(
        rules.term_matches(term, pod, other, world.namespaces)
        for term in rules.anti_affinity(pod)
        for other in world.domain(node, term.topology_key)
    ):
        return "node(s) didn't match pod anti-affinity rules"
    if any(
        rules.term_matches(term, other.pod, pod, world.namespaces)
        and _shares_domain(world.node(other.node), node, term.topology_key)
        for other in world.placed
        for term in rules.anti_affinity(other.pod)
    ):
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    if any(_skew(constraint, constraints, pod, node, world) > constraint.max_skew for constraint in constraints):
        return "node(s) didn't match pod topology spread constraints"
    return ""


def _is_near(pod: core.Pod, node: core.Node, world: World) -> bool:
    terms = rules.affinity(pod)

    def suits(other: core.Pod) -> bool:
        return all(rules.term_matches(term, pod, other, world.namespaces) for term in terms)

    if any(term.topology_key not in node.metadata.labels for term in terms):
        return False
    if all(any(suits(other) for other in world.domain(node, term.topology_key)) for term in terms):
        return True
    alone = not any(
        suits(other) for one in world.nodes for term in terms for other in world.domain(one, term.topology_key)
    )
    return alone and suits(pod)


def _shares_domain(one: core.Node | None, other: core.Node, key: str) -> bool:
    return one is not None and key in one.metadata.labels and one.metadata.labels[key] == other.metadata.labels.get(key)


def _counted(
    constraint: core.TopologySpreadConstraint,
    all_of_them: Sequence[core.TopologySpreadConstraint],
    pod: core.Pod,
    world: World,
) -> dict[str, int]:
    """The matching pods in each domain of the nodes that count."""
    result: dict[str, int] = {}
    for node in world.nodes:
        if any(item.topology_key not in node.metadata.labels for item in all_of_them):
            continue
        if constraint.node_affinity_policy == "Honor" and not rules.node_affinity(pod, node):
            continue
        if constraint.node_taints_policy == "Honor" and rules.untolerated(pod, node) is not None:
            continue
        value = node.metadata.labels[constraint.topology_key]
        result[value] = result.get(value, 0) + rules.count_spread(constraint, pod, world.staying_on(node.metadata.name))
    return result


def _skew(
    constraint: core.TopologySpreadConstraint,
    all_of_them: Sequence[core.TopologySpreadConstraint],
    pod: core.Pod,
    node: core.Node,
    world: World,
) -> int:
    result = _counted(constraint, all_of_them, pod, world)
    least = min(result.values()) if result and len(result) >= (constraint.min_domains or 1) else 0
    itself = int(rules.spread_matches(constraint, pod, pod))
    return result.get(node.metadata.labels[constraint.topology_key], 0) + itself - least


# Scores


def least_allocated(requested: Amounts, room: Amounts) -> int:
    """0 to 100: the free part. ``requested`` includes the pod, with defaults for what it does not request."""
    scores = [
        0 if used > total else (total - used) * 100 // total
        for used, total in ((requested.cpu, room.cpu), (requested.memory, room.memory))
        if total
    ]
    return sum(50 * score for score in scores) // (50 * len(scores)) if scores else 0


def most_allocated(requested: Amounts, room: Amounts) -> int:
    """0 to 100: the used part."""
    scores = [
        min(used, total) * 100 // total
        for used, total in ((requested.cpu, room.cpu), (requested.memory, room.memory))
        if total
    ]
    return sum(scores) // len(scores) if scores else 0


def balanced_allocation(before: Amounts, pod: Amounts, room: Amounts) -> int | None:
    """50 to 100: whether the pod evens out how far the resources are used; None if it requests none of them."""
    if not (pod.cpu or pod.memory or pod.gpus):
        return None

    def evenness(used: Amounts) -> int:
        pairs = [(used.cpu, room.cpu), (used.memory, room.memory)] + ([(used.gpus, room.gpus)] if pod.gpus else [])
        fractions = [min(1.0, part / total) for part, total in pairs if total]
        if len(fractions) == 2:
            deviation = abs((fractions[0] - fractions[1]) / 2)
        elif len(fractions) > 2:
            mean = sum(fractions) / len(fractions)
            deviation = math.sqrt(sum((fraction - mean) * (fraction - mean) for fraction in fractions) / len(fractions))
            assert math.isclose(deviation, statistics.pstdev(fractions), abs_tol=1e-9)
        else:
            deviation = 0.0
        return int((1 - deviation) * 100)

    after = Amounts(before.cpu + pod.cpu, before.memory + pod.memory, before.gpus + pod.gpus)
    return 50 + (50 + evenness(after) - evenness(before)) // 2


def node_preference(pod: core.Pod, candidates: Sequence[core.Node]) -> list[int]:
    """0 to 100: the weights of preferred node affinity, against the best candidate."""
    raw = [
        sum(
            preferred_node.weight
            for preferred_node in rules.preferred_nodes(pod)
            if rules.node_term(preferred_node.preference, node)
        )
        for node in candidates
    ]
    return [100 * score // max(raw) if max(raw) else 0 for score in raw]


def taint_preference(pod: core.Pod, candidates: Sequence[core.Node]) -> list[int]:
    """0 to 100: the fewer PreferNoSchedule taints that the pod does not tolerate, the better."""
    raw = [
        sum(1 for taint in node.spec.taints if taint.effect == "PreferNoSchedule" and not rules.tolerated(pod, taint))
        for node in candidates
    ]
    return [100 - 100 * score // max(raw) if max(raw) else 100 for score in raw]


def pod_preference(pod: core.Pod, candidates: Sequence[core.Node], world: World) -> list[int]:
    """0 to 100: how strongly the pods in the topology domains of each candidate attract the pod."""
    raw = []
    for node in candidates:
        score = 0
        for weight, term in rules.preferred_pods(pod):
            matching = [
                other
                for other in world.domain(node, term.topology_key)
                if rules.term_matches(term, pod, other, world.namespaces)
            ]
            score += weight * len(matching)
        for other in world.placed:
            for weight, term in rules.preferred_pods(other.pod):
                if rules.term_matches(term, other.pod, pod, world.namespaces) and _shares_domain(
                    world.node(other.node), node, term.topology_key
                ):
                    score += weight
        raw.append(score)
    least, most = min(raw), max(raw)
    return [int(100.0 * ((item - least) / (most - least))) if most > least else 0 for item in raw]


def spread_preference(pod: core.Pod, candidates: Sequence[core.Node], world: World) -> list[int]:
    """0 to 100: how few matching pods are in the topology domains of each candidate; 0 where a label is missing."""
    constraints = [
        topology_spread_constraint
        for topology_spread_constraint in pod.spec.topology_spread_constraints
        if topology_spread_constraint.when_unsatisfiable != "DoNotSchedule"
    ]
    if not constraints:
        return [0] * len(candidates)
    labelled = [
        node
        for node in candidates
        if all(constraint.topology_key in node.metadata.labels for constraint in constraints)
    ]
    raw = {node.metadata.name: _spread_score(constraints, pod, node, labelled, world) for node in labelled}
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)

    def normal(name: str) -> int:
        if name not in raw:
            return 0
        return 100 * (most + least - raw[name]) // most if most else 100

    return [normal(node.metadata.name) for node in candidates]


def _spread_score(
    constraints: Sequence[core.TopologySpreadConstraint],
    pod: core.Pod,
    node: core.Node,
    labelled: Sequence[core.Node],
    world: World,
) -> int:
    total = 0.0
    for constraint in constraints:
        value = node.metadata.labels[constraint.topology_key]
        if constraint.topology_key == "kubernetes.io/hostname":
            size = len(labelled)
            count = rules.count_spread(constraint, pod, world.staying_on(node.metadata.name))
        else:
            size = len({other.metadata.labels[constraint.topology_key] for other in labelled})
            count = _counted(constraint, constraints, pod, world).get(value, 0)
        total += count * math.log(size + 2) + (constraint.max_skew - 1)
    whole = math.floor(total)
    return whole + (1 if total - whole >= 0.5 else 0)


def image_locality(pod: core.Pod, node: core.Node, world: World) -> int:
    """0 to 100: how many bytes of the pod's images are on the node, rare images counting less."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    summed = 0
    for container in containers:
        name = container.image if ":" in container.image.split("/")[-1] else container.image + ":latest"
        having = [item for item in world.nodes if rules.image_size(name, item) is not None]
        size = rules.image_size(name, node)
        if size is not None:
            summed += int(size * (len(having) / len(world.nodes)))
    least, most = 23 * 1024 * 1024, 1000 * 1024 * 1024 * len(containers)
    return 100 * (min(max(summed, least), most) - least) // (most - least)


def score(
    pod: core.Pod,
    candidates: Sequence[core.Node],
    world: World,
    weights: Mapping[str, int],
    fullness: Callable[[core.Node], tuple[Amounts, Amounts, Amounts, Amounts]],
) -> list[int]:
    """The weighted sum of all scores for each candidate.

    ``weights`` are by the names of the functions of this module; ``fullness`` gives for a node its room, what is in
    use, the pod's request, and what would be requested with the pod counting defaults.
    """
    relative = {
        "node_preference": node_preference(pod, candidates),
        "taint_preference": taint_preference(pod, candidates),
        "pod_preference": pod_preference(pod, candidates, world),
        "spread_preference": spread_preference(pod, candidates, world),
    }
    totals = []
    for place, node in enumerate(candidates):
        room, used, request, nonzero = fullness(node)
        balanced = balanced_allocation(used, request, room)
        total = sum(weights[name] * scores[place] for name, scores in relative.items())
        total += weights["least_allocated"] * least_allocated(nonzero, room)
        total += weights["most_allocated"] * most_allocated(nonzero, room)
        total += weights["balanced_allocation"] * balanced if balanced is not None else 0
        total += weights["image_locality"] * image_locality(pod, node, world)
        totals.append(total)
    return totals
