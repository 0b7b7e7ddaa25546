"""predicates: the filters of kube-scheduler and their messages."""

from typing import Any

import msgspec
import numpy as np
import pytest
from pydantic import ValidationError

from tests.scheduler.nodes.random_clusters import HOSTNAME
from tests.scheduler.nodes.sessions import Stage, away, near, node, pod, scope_of, spread, term
from volcanopy.api import core
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.model.task_status import Status
from volcanopy.scheduler.policies.nodes.predicates import Predicates, PredicatesArguments

GPU_ONLY = core.Taint(key="dedicated", value="gpu", effect="NoSchedule")
ZONES = tuple(node(name, labels={"zone": zone}) for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")))


def plugin(stage: Stage, **arguments: Any) -> Predicates:
    return Predicates(PredicatesArguments.model_validate(arguments), stage.cluster)


def rejected(predicates: Predicates, stage: Stage, name: str = "new") -> dict[str, list[str]]:
    """Return the names of the rejected nodes by reason."""
    view = stage.cluster.nodes()
    return {
        refusal.reason: [stage.snapshot.nodes.names[row] for row in np.flatnonzero(refusal.nodes)]
        for refusal in predicates.reject(stage.task(name), view)
    }


def wants(operator: str, *values: str, key: str = "zone") -> core.Affinity:
    requirement = core.Requirement(key=key, operator=operator, values=values)
    selector = core.NodeSelector(node_selector_terms=(core.NodeSelectorTerm(match_expressions=(requirement,)),))
    return core.Affinity(node_affinity=core.NodeAffinity(required=selector))


@pytest.mark.parametrize(
    ("operator", "bound", "rejecting"),
    [
        ("Gt", "900", ["n2", "n3"]),
        ("Lt", "900", ["n1", "n3"]),
        ("Gt", "many", ["n1", "n2", "n3"]),
        ("Lt", "", ["n1", "n2", "n3"]),
    ],
)
def test_a_toleration_compares_numbers_of_taints(operator: str, bound: str, rejecting: list[str]) -> None:
    """Gt tolerates a taint with a greater number; a value that is no number is not tolerated."""
    nodes = [
        node(name, taints=(core.Taint(key="sla", value=value, effect="NoSchedule"),))
        for name, value in (("n1", "950"), ("n2", "700"), ("n3", "high"))
    ]
    toleration = core.Toleration(key="sla", operator=operator, value=bound, effect="NoSchedule")
    stage = Stage([*nodes, pod("new", tolerations=(toleration,))])
    assert sorted(name for names in rejected(plugin(stage), stage).values() for name in names) == rejecting


@pytest.mark.parametrize(
    ("things", "reason", "nodes", "final"),
    [
        ([node("n1"), node("n2", unschedulable=True), pod("new")], "node(s) were unschedulable", ["n2"], True),
        (
            [*ZONES, pod("new", node_selector={"zone": "b"})],
            "node(s) didn't match Pod's node affinity/selector",
            ["n1", "n2"],
            True,
        ),
        (
            [node("n1", taints=(GPU_ONLY,)), node("n2"), pod("new")],
            "node(s) had untolerated taint {dedicated: gpu}",
            ["n1"],
            True,
        ),
        (
            [node("n1"), node("n2"), pod("old", on="n2", ports=[80]), pod("new", ports=[80])],
            "node(s) didn't have free ports for the requested pod ports",
            ["n2"],
            False,
        ),
        (
            [*ZONES, pod("old", on="n1", app="db"), pod("new", affinity=near(term("db", "zone")))],
            "node(s) didn't match pod affinity rules",
            ["n3"],
            True,
        ),
        (
            [*ZONES, pod("old", on="n1", app="db"), pod("new", affinity=away(term("db", "zone")))],
            "node(s) didn't match pod anti-affinity rules",
            ["n1", "n2"],
            False,
        ),
        (
            [*ZONES, pod("old", on="n3", affinity=away(term("web"))), pod("new", app="web")],
            "node(s) didn't satisfy existing pods anti-affinity rules",
            ["n3"],
            False,
        ),
        (
            [*ZONES, pod("old", on="n1", app="web"), pod("new", app="web", spread=(spread("web"),))],
            "node(s) didn't match pod topology spread constraints",
            ["n1", "n2"],
            False,
        ),
        (
            [*ZONES, node("n4"), pod("new", app="web", spread=(spread("web"),))],
            "node(s) didn't match pod topology spread constraints (missing required label)",
            ["n4"],
            True,
        ),
    ],
)
def test_each_filter_rejects_with_the_message_of_kube_scheduler(
    things: list[core.Node | core.Pod], reason: str, nodes: list[str], final: bool
) -> None:
    stage = Stage(things)
    predicates = plugin(stage)
    assert rejected(predicates, stage) == {reason: nodes}
    assert [item.final for item in predicates.reject(stage.task("new"), stage.cluster.nodes())] == [final]


def test_only_the_first_filter_counts_for_a_rejected_node() -> None:
    tainted = node("n1", unschedulable=True, taints=(GPU_ONLY,))
    stage = Stage([tainted, node("n2", taints=(GPU_ONLY,)), node("n3"), pod("new", ports=[80])])
    assert rejected(plugin(stage), stage) == {
        "node(s) were unschedulable": ["n1"],
        "node(s) had untolerated taint {dedicated: gpu}": ["n2"],
    }


def test_unresolvable_reasons_come_before_resolvable_ones() -> None:
    """Eviction could free the port, but not provide the pod for affinity."""
    stage = Stage([node("n1"), pod("old", on="n1", ports=[80]), pod("new", ports=[80], affinity=near(term("db")))])
    (refusal,) = plugin(stage).reject(stage.task("new"), stage.cluster.nodes())
    assert (refusal.reason, refusal.final) == ("node(s) didn't match pod affinity rules", True)


@pytest.mark.parametrize(
    ("affinity", "nodes"),
    [
        (wants("In", "b", "c"), ["n1", "n2"]),
        (wants("NotIn", "b"), ["n3"]),
        (wants("Exists", key="gone"), ["n1", "n2", "n3"]),
        (wants("DoesNotExist"), ["n1", "n2", "n3"]),
        (wants("NotIn", "x", key="gone"), []),
        (wants("Gt", "not a number"), ["n1", "n2", "n3"]),
        (core.Affinity(node_affinity=core.NodeAffinity(required=core.NodeSelector())), ["n1", "n2", "n3"]),
    ],
)
def test_required_node_affinity(affinity: core.Affinity, nodes: list[str]) -> None:
    stage = Stage([*ZONES, pod("new", affinity=affinity)])
    assert [name for names in rejected(plugin(stage), stage).values() for name in names] == nodes


@pytest.mark.parametrize(
    ("operator", "bound", "fitting"), [("Gt", "2", ["n3", "n10"]), ("Lt", "3", ["n2", "n-1"]), ("Gt", "x", [])]
)
def test_numbers_in_labels_are_compared_as_numbers(operator: str, bound: str, fitting: list[str]) -> None:
    """Missing values and values that are no numbers match neither Gt nor Lt."""
    nodes = [node(f"n{size}", labels={"size": size}) for size in ("2", "3", "10", "-1", "big", "1_0", "9" * 19)]
    stage = Stage([*nodes, node("n"), pod("new", affinity=wants(operator, bound, key="size"))])
    refusals = rejected(plugin(stage), stage).values()
    assert set(stage.snapshot.nodes.names) - {name for names in refusals for name in names} == set(fitting)


@pytest.mark.parametrize(
    ("held", "wanted", "conflict"),
    [
        (("", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("", "TCP", 80), ("", "UDP", 80), False),
        (("", "TCP", 80), ("", "TCP", 81), False),
    ],
)
def test_host_ports_conflict_on_one_address_or_all(
    held: tuple[str, str, int], wanted: tuple[str, str, int], conflict: bool
) -> None:
    def with_port(name: str, port: tuple[str, str, int], on: str = "") -> core.Pod:
        ip, protocol, number = port
        container = core.Container(ports=(core.ContainerPort(host_port=number, host_ip=ip, protocol=protocol),))
        bare = pod(name, on=on)
        return msgspec.structs.replace(bare, spec=msgspec.structs.replace(bare.spec, containers=(container,)))

    stage = Stage([node("n1"), with_port("old", held, on="n1"), with_port("new", wanted)])
    assert bool(rejected(plugin(stage), stage)) is conflict


@pytest.mark.parametrize(("restart_policy", "conflict"), [("", False), ("Always", True)])
def test_ports_of_init_containers_conflict_only_if_these_keep_running(restart_policy: str, conflict: bool) -> None:
    ports = (core.ContainerPort(host_port=80),)
    first = core.Container(ports=ports, restart_policy=restart_policy)

    def with_port(name: str, on: str = "") -> core.Pod:
        bare = pod(name, on=on)
        return msgspec.structs.replace(bare, spec=msgspec.structs.replace(bare.spec, init_containers=(first,)))

    stage = Stage([node("n1"), with_port("old", "n1"), with_port("new")])
    assert bool(rejected(plugin(stage), stage)) is conflict


def test_the_first_pod_with_affinity_to_itself_fits_anywhere() -> None:
    mates = near(term("web", "zone"))
    stage = Stage([*ZONES, *(pod(name, app="web", affinity=mates) for name in ("first", "new"))])
    predicates = plugin(stage)
    assert rejected(predicates, stage, "first") == {}
    with Statement(stage.ledger) as statement:
        statement.allocate(stage.task("first").row, 2)
        assert rejected(predicates, stage) == {"node(s) didn't match pod affinity rules": ["n1", "n2"]}
    assert rejected(predicates, stage) == {}, "taken back, nobody is there"


def test_terminating_pods_keep_ports_and_anti_affinity_but_do_not_count_for_spreading() -> None:
    old = pod("old", on="n1", app="web", ports=[80], leaving=True)
    stage = Stage(
        [
            *ZONES,
            old,
            pod("port", ports=[80]),
            pod("anti", affinity=away(term("web"))),
            pod("new", app="web", spread=(spread("web"),)),
        ]
    )
    predicates = plugin(stage)
    assert list(rejected(predicates, stage, "port").values()) == [["n1"]]
    assert list(rejected(predicates, stage, "anti").values()) == [["n1"]]
    assert rejected(predicates, stage) == {}


def test_victims_of_the_session_no_longer_conflict() -> None:
    stage = Stage([node("n1"), pod("old", on="n1", ports=[80]), pod("new", ports=[80])])
    predicates = plugin(stage)
    assert rejected(predicates, stage)
    with Statement(stage.ledger) as statement:
        statement.evict(stage.task("old").row, "for the test")
        assert rejected(predicates, stage) == {}
    assert rejected(predicates, stage)


def test_spreading_counts_the_nodes_that_the_pod_could_use() -> None:
    """Zone c has no pod of the app, but the node selector excludes it, so it does not count."""
    nodes = [*ZONES, node("n4", labels={"zone": "c", "arch": "arm"})]
    old = [pod("old-1", on="n1", app="web"), pod("old-2", on="n3", app="web")]
    for policy, blocked in (("Honor", []), ("Ignore", ["n1", "n2", "n3"])):
        rule = spread("web", node_affinity_policy=policy)
        stage = Stage([*nodes, *old, pod("new", app="web", spread=(rule,), affinity=wants("DoesNotExist", key="arch"))])
        skewed = rejected(plugin(stage), stage).get("node(s) didn't match pod topology spread constraints", [])
        assert skewed == blocked


def test_too_few_domains_count_as_an_empty_one() -> None:
    rule = spread("web", min_domains=3)
    old = [pod("old-1", on="n1", app="web"), pod("old-2", on="n3", app="web")]
    stage = Stage([*ZONES, *old, pod("new", app="web", spread=(rule,))])
    assert list(rejected(plugin(stage), stage).values()) == [["n1", "n2", "n3"]]


@pytest.mark.parametrize(
    ("things", "scope"),
    [
        ([pod("new", node_selector={"zone": "a"})], Scope.STATIC),
        ([pod("new", ports=[80])], Scope.NODE),
        ([pod("new", affinity=near(term("x")))], Scope.CLUSTER),
        ([pod("new", affinity=away(term("x")))], Scope.CLUSTER),
        ([pod("new", spread=(spread("x"),))], Scope.CLUSTER),
        ([pod("new", spread=(spread("x", when_unsatisfiable="ScheduleAnyway"),))], Scope.STATIC),
        ([pod("other", affinity=away(term("web"))), pod("new", app="web")], Scope.CLUSTER),
        ([pod("other", affinity=near(term("web"))), pod("new", app="web")], Scope.STATIC),
    ],
)
def test_the_scope_of_a_placement(things: list[core.Pod], scope: Scope) -> None:
    stage = Stage([*ZONES, *things])
    assert scope_of(plugin(stage), stage.task("new")) is scope


@pytest.mark.parametrize(
    ("argument", "asking"),
    [
        ("predicate.NodeAffinityEnable", {"node_selector": {"zone": "nowhere"}}),
        ("predicate.TaintTolerationEnable", {}),
        ("predicate.NodePortsEnable", {"ports": [80]}),
        ("predicate.PodAffinityEnable", {"affinity": near(term("nobody"))}),
        ("predicate.PodTopologySpreadEnable", {"spread": (spread("web", "nothing"),)}),
    ],
)
def test_each_filter_can_be_turned_off(argument: str, asking: dict[str, Any]) -> None:
    taints = (GPU_ONLY,) if argument == "predicate.TaintTolerationEnable" else ()
    stage = Stage([node("n1", taints=taints), pod("old", on="n1", ports=[80]), pod("new", **asking)])
    assert rejected(plugin(stage), stage)
    assert rejected(plugin(stage, **{argument: False}), stage) == {}


def test_arguments_of_volcano_are_read_and_others_rejected() -> None:
    assert not PredicatesArguments.model_validate({"predicate.NodePortsEnable": "false"}).node_ports
    with pytest.raises(ValidationError, match="Extra inputs"):
        PredicatesArguments.model_validate({"predicate.NodeAffinity": True})


def test_anti_affinity_of_running_pods_counts_and_of_ended_pods_does_not() -> None:
    over = core.Pod(
        metadata=pod("over").metadata,
        spec=pod("over", on="n1", affinity=away(term("web", HOSTNAME))).spec,
        status=core.PodStatus(phase="Succeeded"),
    )
    stage = Stage([*ZONES, over, pod("new", app="web")])
    predicates = plugin(stage)
    assert rejected(predicates, stage) == {}
    assert scope_of(predicates, stage.task("new")) is Scope.STATIC
    assert stage.task("over").status is Status.SUCCEEDED
