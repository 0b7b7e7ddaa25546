"""Examples computed by hand from the definitions."""

import json

import numpy as np
import pytest

from volcanopy.scheduler.engine.session import Session
from volcanopy.scheduler.engine.shares.share_rules import ShareRules
from volcanopy.scheduler.ledger.cluster import Cluster, TasksView
from volcanopy.scheduler.ledger.ledger import Ledger
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.policies.nodes.binpack import Binpack, BinpackArguments
from volcanopy.scheduler.policies.nodes.nodeorder import NodeOrder, NodeOrderArguments
from volcanopy.scheduler.policies.order.drf import Drf
from volcanopy.scheduler.policies.quota.proportion import Proportion
from volcanopy.scheduler.policy.plugin import NoArguments
from volcanopy.scheduler.policy.roles import Purpose
from volcanopy_testing.notation import config, snapshot


def cluster(text: str) -> Cluster:
    return Cluster(Ledger(snapshot(text)))


@pytest.mark.parametrize(
    ("total", "queues", "deserved"),
    [
        (8, {"a": (1, 8, ""), "b": (3, 2, "")}, {"a": 6000, "b": 2000}),
        (10, {"a": (1, 10, "guarantee.cpu=4"), "b": (1, 10, ""), "c": (2, 1, "")}, {"a": 4500, "b": 4500, "c": 1000}),
        (10, {"a": (1, 10, ""), "b": (1, 10, "")}, {"a": 5000, "b": 5000}),
        (10, {"a": (1, 3, ""), "b": (1, 3, "")}, {"a": 3000, "b": 3000}),
        (10, {"a": (1, 10, "capability.cpu=2"), "b": (1, 10, "")}, {"a": 2000, "b": 8000}),
    ],
    ids=["what one does not want goes to the other", "a guarantee", "equals", "all that is wanted", "a capability"],
)
def test_proportion_divides_by_water_filling(
    total: int, queues: dict[str, tuple[int, int, str]], deserved: dict[str, int]
) -> None:
    """Weight, request and further keys of each queue; its fair share in milli-cpus."""
    lines = [f"node n1 cpu={total} memory=64Gi"]
    for name, (weight, request, words) in queues.items():
        lines += [f"queue {name} weight={weight} {words}", f"job {name} queue={name}: {request} x cpu=1"]
    made = cluster("\n".join(lines))
    plugin = Proportion(NoArguments(), made)
    index = made.snapshot.queues.index
    assert {name: int(plugin.fair_share[0, index[name]]) for name in queues} == deserved


def test_a_satisfied_queue_is_not_scheduled_again() -> None:
    made = cluster("node n1 cpu=10\nqueue a\njob a queue=a: 3 x cpu=1 on=n1")
    rules = ShareRules(Proportion(NoArguments(), made), made)
    assert rules.queue_verdict(made.queue(made.snapshot.queues.index["a"])) is not None


def score_on_a_partly_used_node(plugin: type[Binpack] | type[NodeOrder], arguments: dict[str, int], task: str) -> float:
    made = cluster(f"node n1 cpu=4 memory=8Gi\njob r: 1 x cpu=1 memory=2Gi on=n1\njob a: 1 x {task}")
    instance = plugin(plugin.arguments.model_validate(arguments), made)  # type: ignore[arg-type]
    return float(instance.score(TasksView([made.task(made.snapshot.task_rows["default/a-0"])]), made.nodes())[0, 0])


def test_binpack_is_the_weighted_fullness() -> None:
    weights = {"binpack.weight": 10, "binpack.cpu": 5, "binpack.memory": 1}
    assert score_on_a_partly_used_node(Binpack, weights, "cpu=1 memory=4Gi") == pytest.approx(541.67, abs=0.01)
    assert score_on_a_partly_used_node(Binpack, weights, "cpu=4 memory=4Gi") == 0
    assert BinpackArguments.model_validate(weights).cpu == 5


OFF = dict.fromkeys(
    (
        "leastrequested.weight",
        "mostrequested.weight",
        "balancedresource.weight",
        "nodeaffinity.weight",
        "podaffinity.weight",
        "tainttoleration.weight",
        "imagelocality.weight",
        "podtopologyspread.weight",
    ),
    0,
)


@pytest.mark.parametrize(("which", "score"), [("leastrequested.weight", 50), ("balancedresource.weight", 75)])
def test_nodeorder_scores_as_kube_scheduler_does(which: str, score: int) -> None:
    """The node is a quarter full in both resources, and half full with the pod on it."""
    assert score_on_a_partly_used_node(NodeOrder, {**OFF, which: 1}, "cpu=1 memory=2Gi") == score
    assert NodeOrderArguments.model_validate(OFF).least_requested == 0


def test_gang_counts_running_placed_and_nominated_members() -> None:
    """One member runs, one is placed, one is nominated, one waits; three are required."""
    ledger = Ledger(snapshot("node n1 cpu=9\njob a min=3: 1 x cpu=1 on=n1, 3 x cpu=1"))
    rows = ledger.snapshot.task_rows
    statement = Statement(ledger)
    statement.allocate(rows["default/a-1"], 0)
    statement.pipeline(rows["default/a-2"], 0)
    job = Cluster(ledger).job(ledger.snapshot.tasks.job[rows["default/a-0"]])
    assert (job.is_ready, job.is_pipelined) == (False, True)


def test_a_pod_that_requests_nothing_counts_when_it_has_a_node() -> None:
    made = cluster("node n1 cpu=9\njob a min=2: 1 x cpu=1 on=n1 bound, 1 x cpu=0")
    job = made.job(0)
    assert (job.is_ready, job.is_pipelined) == (False, False)


@pytest.mark.parametrize(("minimum", "ready"), [(4, False), (3, True)])
def test_minimums_of_roles_apply_only_up_to_the_minimum_of_the_job(minimum: int, ready: bool) -> None:
    text = f"node n1 cpu=9\njob a min={minimum}: 4 x cpu=1 on=n1 role=worker min=3, 1 x cpu=1 role=ps min=1"
    session = Session(snapshot(text), config("gang"))
    assert session.gangs.is_ready(session.cluster.job(0)) is ready


def test_drf_allows_preemption_until_shares_cross() -> None:
    """Of ten cpus one job has two allocated and requests a third; the other has five: two of its tasks are victims, a third is not."""
    made = cluster("node n1 cpu=10\njob a: 2 x cpu=1 on=n1, 1 x cpu=1\njob b: 5 x cpu=1 on=n1")
    rows = made.snapshot.task_rows
    candidates = [made.task(rows[f"default/b-{number}"]) for number in range(5)]
    victims = Drf(NoArguments(), made).allows(made.task(rows["default/a-2"]), candidates, Purpose.PREEMPT)
    assert [victim.key for victim in victims or ()] == ["default/b-0", "default/b-1"]


def test_amounts_are_whole_base_units() -> None:
    made = cluster("node n1 cpu=2500m\njob a: 1 x cpu=0.1")
    assert json.loads(json.dumps(made.total["cpu"])) == 2500
    assert np.issubdtype(made.snapshot.nodes.allocatable.values.dtype, np.integer)
