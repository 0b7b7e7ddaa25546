"""nodegroup: node groups of queues."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from volcanopy.api import core
from volcanopy.scheduler.cache.cluster_cache import State
from volcanopy.scheduler.core import schedule
from volcanopy.scheduler.ledger.cluster import Cluster, TasksView
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.model.plan import Bind, Explain, Plan
from volcanopy.scheduler.model.snapshot import Snapshot
from volcanopy.scheduler.policies.nodes.nodegroup import LABEL, LIMITS, NodeGroup, NodeGroupArguments
from volcanopy_testing.notation import NOW, config, world

NODES = f"node n1 cpu=4 {LABEL}=g1\nnode n2 cpu=4 {LABEL}=g2\nnode n3 cpu=4 {LABEL}=g3\nnode n4 cpu=4\n"


def affinity(
    required: tuple[str, ...] = (),
    preferred: tuple[str, ...] = (),
    never: tuple[str, ...] = (),
    rather_not: tuple[str, ...] = (),
) -> dict[str, Any]:
    def terms(must: tuple[str, ...], may: tuple[str, ...]) -> dict[str, Any]:
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": list(must),
            "preferredDuringSchedulingIgnoredDuringExecution": list(may),
        }

    return {"nodeGroupAffinity": terms(required, preferred), "nodeGroupAntiAffinity": terms(never, rather_not)}


def snapshot(text: str, rules: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> Snapshot:
    """Return a snapshot in which queues have node group rules."""
    state = State()
    for obj in world(NODES + text):
        if isinstance(obj, core.Queue):
            meta = replace(obj.metadata, annotations=dict(notes or {}))
            state.upsert(replace(obj, metadata=meta, spec=replace(obj.spec, affinity=rules.get(meta.name))))
        else:
            state.upsert(obj)
    return state.snapshot(NOW, "test")


def asked(seen: Snapshot, hierarchy: bool = False, **arguments: bool) -> tuple[list[str], list[float]]:
    """Return the feasible nodes of the pending pod, and the score of each node."""
    plugin = NodeGroup(NodeGroupArguments.model_validate(arguments), Cluster(Ledger(seen)), hierarchy)
    task, nodes = plugin.cluster.task(seen.task_rows["default/a-0"]), plugin.cluster.nodes()
    rejected = [bool(any(item.nodes[row] for item in plugin.reject(task, nodes))) for row in range(len(nodes))]
    allowed = [name for name, no in zip(seen.nodes.names, rejected, strict=True) if not no]
    return allowed, plugin.score(TasksView([task]), nodes)[0].tolist()


@pytest.mark.parametrize(
    ("rules", "allowed", "scores"),
    [
        (affinity(required=("g1",)), ["n1"], [100, 0, 0, 0]),
        (affinity(required=("g1", "g2"), preferred=("g2", "g3")), ["n1", "n2", "n3"], [100, 150, 50, 0]),
        (affinity(preferred=("g1", "g2"), never=("g2",)), ["n1"], [50, 50, 0, 0]),
        (affinity(required=("g1",), rather_not=("g2",)), ["n1", "n2"], [100, -1, 0, 0]),
        (affinity(never=("g1",)), [], [0, 0, 0, 0]),
        (None, [], [0, 0, 0, 0]),
    ],
)
def test_a_queue_runs_in_its_node_groups(rules: dict[str, Any] | None, allowed: list[str], scores: list[float]) -> None:
    assert asked(snapshot("job a: 1 x cpu=1", {"default": rules})) == (allowed, scores)


def test_a_queue_without_rules_uses_unlabelled_nodes_unless_strict() -> None:
    assert asked(snapshot("job a: 1 x cpu=1", {}), strict=False)[0] == ["n4"]


def test_of_ordered_preferences_the_first_counts_most() -> None:
    seen = snapshot("job a: 1 x cpu=1", {"default": affinity(preferred=("g2", "g1"))})
    assert asked(seen, enablePreferredOrder=True)[1] == [25, 50, 0, 0]


def test_in_a_tree_the_nearest_rules_apply() -> None:
    text = "queue root\nqueue team parent=root\nqueue lab parent=team\njob a queue=lab: 1 x cpu=1"
    seen = snapshot(text, {"team": affinity(required=("g2",)), "root": affinity(required=("g1",))})
    assert asked(seen, hierarchy=True)[0] == ["n2"]
    assert asked(seen, hierarchy=False)[0] == []


def decide(text: str, limits: str) -> Plan:
    seen = snapshot(text, {"default": affinity(required=("g1", "g2"))}, {LIMITS: limits})
    return schedule(seen, config("gang, nodegroup, predicates"))


def test_the_use_of_a_node_group_is_limited() -> None:
    made = decide("job r: 1 x cpu=1 on=n1\njob a min=1: 6 x cpu=1", '{"g1": {"cpu": "2"}}')
    nodes = [effect.node for effect in made.of(Bind)]
    assert (nodes.count("n1"), nodes.count("n2")) == (1, 4)


def test_unreadable_limits_are_reported() -> None:
    made = decide("job a: 1 x cpu=1", "lots")
    assert made.of(Bind) == []
    assert LIMITS in made.of(Explain)[0].message
