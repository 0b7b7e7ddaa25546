"""nodeorder: the scores of kube-scheduler."""

from typing import Any

import numpy as np
import pytest

from tests.scheduler.nodes.sessions import Stage, node, pod, scope_of, spread, term
from volcanopy.api import core, quantity
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.policies.nodes.nodeorder import NodeOrder, NodeOrderArguments

NAMES = [field.alias or "" for field in NodeOrderArguments.model_fields.values()]
MIB = 1024 * 1024


def plugin(stage: Stage, only: str = "", weight: int = 1) -> NodeOrder:
    """Return nodeorder with default weights, or with one score only."""
    weights: dict[str, Any] = {name: weight if name == f"{only}.weight" else 0 for name in NAMES} if only else {}
    return NodeOrder(NodeOrderArguments.model_validate(weights), stage.cluster)


def scores(order: NodeOrder, stage: Stage, *names: str) -> list[float]:
    rows = [stage.snapshot.nodes.index[name] for name in names or stage.snapshot.nodes.names]
    return list(order.score(TasksView([stage.task("new")]), NodesView(stage.ledger, np.array(rows)))[0])


def test_the_default_weights_are_those_of_volcano() -> None:
    assert NodeOrderArguments().model_dump(by_alias=True) == {
        "leastrequested.weight": 1,
        "mostrequested.weight": 0,
        "nodeaffinity.weight": 2,
        "podaffinity.weight": 2,
        "balancedresource.weight": 1,
        "tainttoleration.weight": 3,
        "imagelocality.weight": 1,
        "podtopologyspread.weight": 2,
    }


def test_a_balanced_request_scores_by_the_definition() -> None:
    """Half of both resources is free (50), balance is unchanged (75), and there is no untolerated taint (3 times 100)."""
    stage = Stage([node("n1"), pod("old", on="n1", cpu="1", memory="2Gi"), pod("new", cpu="1", memory="2Gi")])
    assert scores(plugin(stage), stage) == [50 + 75 + 300]


@pytest.mark.parametrize(
    ("only", "expected"),
    [("leastrequested", [87, 0, 50]), ("mostrequested", [12, 100, 50])],
)
def test_free_and_used_resources_in_whole_percent(only: str, expected: list[float]) -> None:
    """The request exceeds n2; n3 has no memory, so only cpu counts there."""
    nodes = [node("n1"), node("n2", cpu="100m", memory="100Mi"), node("n3", cpu="1", memory="0")]
    stage = Stage([*nodes, pod("new", cpu="500m", memory="1Gi")])
    assert scores(plugin(stage, only), stage) == expected


def test_balanced_allocation_prefers_the_node_that_becomes_even() -> None:
    """n1 has used memory, n2 used cpu; the task requests cpu."""
    old = [pod("m", on="n1", memory="4Gi"), pod("c", on="n2", cpu="2")]
    stage = Stage([node("n1"), node("n2"), *old, pod("new", cpu="2")])
    assert scores(plugin(stage, "balancedresource"), stage) == [87, 62]


def test_best_effort_tasks_are_not_balanced() -> None:
    stage = Stage([node("n1"), pod("new")])
    assert scores(plugin(stage, "balancedresource"), stage) == [0]


def test_gpus_are_balanced_if_requested() -> None:
    """One gpu of two beside an eighth of the cpu and nothing of the memory is rather uneven."""
    stage = Stage([node("n1", more={"nvidia.com/gpu": "2"}), pod("new", cpu="500m", more={"nvidia.com/gpu": "1"})])
    deviation = float(np.std([0.125, 0.0, 0.5]))
    assert scores(plugin(stage, "balancedresource"), stage) == [50 + (50 + int((1 - deviation) * 100) - 100) // 2]


def test_preferred_labels_are_relative_to_the_best_candidate() -> None:
    def likes(zone: str, weight: int) -> core.PreferredNodeTerm:
        requirement = core.Requirement(key="zone", operator="In", values=(zone,))
        return core.PreferredNodeTerm(weight=weight, preference=core.NodeSelectorTerm(match_expressions=(requirement,)))

    affinity = core.Affinity(node_affinity=core.NodeAffinity(preferred=(likes("a", 3), likes("b", 2))))
    zones = [node(f"n{number}", labels={"zone": zone}) for number, zone in enumerate("abc")]
    stage = Stage([*zones, pod("new", affinity=affinity)])
    order = plugin(stage, "nodeaffinity")
    assert scores(order, stage) == [100, 66, 0]
    assert scores(order, stage, "n1", "n2") == [100, 0]
    assert scope_of(order, stage.task("new")) is Scope.CLUSTER


def test_untolerated_taints_are_relative_to_the_worst_candidate() -> None:
    taints = tuple(core.Taint(key=key, effect="PreferNoSchedule") for key in "ab")
    stage = Stage([node("n1"), node("n2", taints=taints[:1]), node("n3", taints=taints), pod("new")])
    order = plugin(stage, "tainttoleration")
    assert scores(order, stage) == [100, 50, 0]
    assert scores(order, stage, "n1", "n2") == [100, 0]
    assert scope_of(order, stage.task("new")) is Scope.CLUSTER


def test_pod_affinity_and_anti_affinity_count_in_both_directions() -> None:
    """The task prefers db; the pod on n3 prefers to avoid the app of the task."""

    def liking(app: str, weight: int) -> core.PodAffinity:
        return core.PodAffinity(preferred=(core.WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term(app)),))

    old = [
        pod("db", on="n1", app="db"),
        pod("shy", on="n3", affinity=core.Affinity(pod_anti_affinity=liking("web", 50))),
    ]
    new = pod("new", app="web", affinity=core.Affinity(pod_affinity=liking("db", 50)))
    stage = Stage([node("n1"), node("n2"), node("n3"), *old, new])
    assert scores(plugin(stage, "podaffinity"), stage) == [100, 50, 0]


def test_all_preferences_of_an_existing_pod_count() -> None:
    def liking(*weights: int) -> core.Affinity:
        terms = [core.WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term("web")) for weight in weights]
        return core.Affinity(pod_affinity=core.PodAffinity(preferred=tuple(terms)))

    old = [pod("two", on="n1", affinity=liking(10, 20)), pod("one", on="n2", affinity=liking(15))]
    stage = Stage([node("n1"), node("n2"), node("n3"), *old, pod("new", app="web")])
    assert scores(plugin(stage, "podaffinity"), stage) == [100, 50, 0]


def test_preferred_spreading_selects_the_emptier_domain_and_skips_unlabelled_nodes() -> None:
    zones = [node(f"n{number}", labels={"zone": zone}) for number, zone in enumerate("aab")]
    old = [pod("old-1", on="n0", app="web"), pod("old-2", on="n1", app="web"), pod("old-3", on="n2", app="web")]
    constraint = spread("web", when_unsatisfiable="ScheduleAnyway")
    stage = Stage([*zones, node("n9"), *old, pod("new", app="web", spread=(constraint,))])
    # Two domains: log(4) a pod, rounded 3 for zone a and 1 for zone b.
    assert scores(plugin(stage, "podtopologyspread"), stage) == [33, 33, 100, 0]


def test_images_count_by_size_and_by_how_many_nodes_have_them() -> None:
    image = core.Image(names=("tool:v1",), size_bytes=1023 * MIB)
    stage = Stage([node("n1", images=(image,)), node("n2"), pod("new", image="tool:v1")])
    order = plugin(stage, "imagelocality")
    spread_out = int(1023 * MIB * 0.5)
    assert scores(order, stage) == [100 * (spread_out - 23 * MIB) // (977 * MIB), 0]
    assert scope_of(order, stage.task("new")) is Scope.STATIC


def test_a_task_without_terms_does_not_affect_others() -> None:
    stage = Stage([node("n1"), node("n2"), pod("new", cpu="1", spread=(spread("x"),))])
    assert scope_of(plugin(stage), stage.task("new")) is Scope.COLUMNS


def test_preferences_of_others_affect_only_matching_pods() -> None:
    liking = core.WeightedPodAffinityTerm(weight=1, pod_affinity_term=term("web"))
    other = pod("other", affinity=core.Affinity(pod_affinity=core.PodAffinity(preferred=(liking,))))
    for app, scope in (("web", Scope.CLUSTER), ("db", Scope.COLUMNS)):
        stage = Stage([node("n1"), node("n2"), other, pod("new", app=app)])
        assert scope_of(plugin(stage), stage.task("new")) is scope


def test_a_weight_multiplies_and_zero_disables() -> None:
    stage = Stage([node("n1"), pod("new", cpu="1", memory="2Gi")])
    assert scores(plugin(stage, "leastrequested", 7), stage) == [7 * 75]
    assert scores(plugin(stage, "leastrequested", 0), stage) == [0]


@pytest.mark.parametrize("memory", [2**45 - 1, 2**45, quantity.LIMIT - 1])
def test_large_amounts_are_divided_exactly(memory: int) -> None:
    """One byte less than all is 99 percent, however large all is."""
    for request, percent in ((memory - 1, 99), (memory, 100)):
        stage = Stage([node("n1", cpu="1", memory=str(memory)), pod("new", cpu="1", memory=str(request))])
        assert scores(plugin(stage, "mostrequested"), stage) == [percent]


def test_an_empty_selector_counts_no_pods() -> None:
    """kube-scheduler counts no pods for a constraint whose selector is empty."""
    constraint = spread("web", when_unsatisfiable="ScheduleAnyway", label_selector=core.LabelSelector())
    zones = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
    stage = Stage([*zones, pod("old", on="n1", app="web"), pod("new", app="web", spread=(constraint,))])
    assert scores(plugin(stage, "podtopologyspread"), stage) == [100, 100]
