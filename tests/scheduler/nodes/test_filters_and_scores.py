"""Filters and scores equal the reference implementation, node by node, also after placements and evictions."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.nightly import examples
from tests.scheduler.nodes.random_clusters import RandomCluster, random_clusters
from tests.scheduler.nodes.sessions import scope_of
from tests.scheduler.reference import node_filters as twin
from volcanopy.scheduler.cache.shapes import NONZERO, request_of
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.reads import Scope
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.model.resources import Columns, Rows
from volcanopy.scheduler.model.task_status import EVICTABLE, Status
from volcanopy.scheduler.nodes.pods import pod_counts
from volcanopy.scheduler.policies.nodes.nodeorder import NodeOrder, NodeOrderArguments
from volcanopy.scheduler.policies.nodes.predicates import Predicates, PredicatesArguments

WEIGHTS = {
    "least_allocated": ("leastrequested.weight", 1),
    "most_allocated": ("mostrequested.weight", 0),
    "node_preference": ("nodeaffinity.weight", 2),
    "pod_preference": ("podaffinity.weight", 2),
    "balanced_allocation": ("balancedresource.weight", 1),
    "taint_preference": ("tainttoleration.weight", 3),
    "image_locality": ("imagelocality.weight", 1),
    "spread_preference": ("podtopologyspread.weight", 2),
}
weights = st.fixed_dictionaries({name: st.sampled_from([usual, 0, 7]) for name, (_, usual) in WEIGHTS.items()})


def order_of(cluster_state: RandomCluster, chosen: dict[str, int]) -> NodeOrder:
    arguments = {WEIGHTS[name][0]: weight for name, weight in chosen.items()}
    return NodeOrder(NodeOrderArguments.model_validate(arguments), cluster_state.cluster)


def reasons(cluster_state: RandomCluster, plugin: Predicates, task: int) -> list[str]:
    view = cluster_state.cluster.nodes()
    result = [""] * len(view)
    for rejection in plugin.reject(cluster_state.cluster.task(task), view):
        for row in np.flatnonzero(rejection.nodes):
            assert not result[row], "a node is rejected once"
            result[row] = rejection.reason
    return result


def change_placements(data: st.DataObject, cluster_state: RandomCluster, statement: Statement) -> None:
    """Place a pending task, evict a running one, or roll back."""
    ledger = cluster_state.ledger
    running = [
        row
        for row in cluster_state.ledger.snapshot.task_rows.values()
        if EVICTABLE[ledger.status[row]] and ledger.node[row] >= 0
    ]
    waiting = [
        row for row in cluster_state.pending if ledger.status[row] == Status.PENDING and row != cluster_state.task_row
    ]
    actions = ["undo", *["place", "pipeline"] * bool(waiting), *["evict"] * bool(running)]
    node = data.draw(st.integers(0, len(ledger.snapshot.nodes) - 1))
    match data.draw(st.sampled_from(actions)):
        case "place":
            statement.allocate(data.draw(st.sampled_from(waiting)), node)
        case "pipeline":
            statement.pipeline(data.draw(st.sampled_from(waiting)), node)
        case "evict":
            statement.evict(data.draw(st.sampled_from(running)), "for the test")
        case _:
            statement.rollback()


def resources_of(cluster_state: RandomCluster, task: int) -> Any:
    ledger = cluster_state.ledger
    snapshot = ledger.snapshot
    spec = snapshot.tasks.pods[task].spec
    request, padded = request_of(spec), request_of(spec, NONZERO)

    def of(node: Any) -> tuple[twin.Amounts, ...]:
        row = snapshot.nodes.index[node.metadata.name]
        room, used = snapshot.nodes.allocatable.row(row), Columns(snapshot.axis, ledger.used).row(row)
        nonzero = ledger.nonzero[:, row]
        return (
            twin.Amounts(room["cpu"], room["memory"], room["nvidia.com/gpu"]),
            twin.Amounts(used["cpu"], used["memory"], used["nvidia.com/gpu"]),
            twin.Amounts(request.get("cpu", 0), request.get("memory", 0), request.get("nvidia.com/gpu", 0)),
            twin.Amounts(int(nonzero[0]) + padded.get("cpu", 0), int(nonzero[1]) + padded.get("memory", 0)),
        )

    return of


def current_tallies(data: st.DataObject) -> AbstractContextManager[object]:
    """Limit how many numbers of pods are current at the same time: answers do not depend on it."""
    return patch.object(pod_counts, "MAX_CURRENT", data.draw(st.sampled_from([1, pod_counts.MAX_CURRENT])))


@given(random_clusters(), st.data())
@examples(80)
def test_rejection_reason_ofequal_the_reference(cluster_state: RandomCluster, data: st.DataObject) -> None:
    plugin = Predicates(PredicatesArguments(), cluster_state.cluster)
    with Statement(cluster_state.ledger) as statement, current_tallies(data):
        for _ in range(data.draw(st.integers(1, 4))):
            world = cluster_state.reference_world()
            for task in cluster_state.pending:
                if cluster_state.ledger.status[task] == Status.PENDING:
                    pod = cluster_state.cluster.task(task).pod
                    expected = [twin.refusal(pod, node, world) for node in world.nodes]
                    assert reasons(cluster_state, plugin, task) == expected
            change_placements(data, cluster_state, statement)


@given(random_clusters(), weights, st.data())
@examples(80)
def test_scores_equal_the_reference(cluster_state: RandomCluster, chosen: dict[str, int], data: st.DataObject) -> None:
    plugin = order_of(cluster_state, chosen)
    count = len(cluster_state.ledger.snapshot.nodes)
    with Statement(cluster_state.ledger) as statement, current_tallies(data):
        for _ in range(data.draw(st.integers(1, 4))):
            world = cluster_state.reference_world()
            rows = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1))), dtype=np.intp)
            for task in cluster_state.pending:
                if cluster_state.ledger.status[task] == Status.PENDING:
                    pod = cluster_state.cluster.task(task).pod
                    candidates = [world.nodes[row] for row in rows]
                    expected = twin.score(pod, candidates, world, chosen, resources_of(cluster_state, task))
                    scores = plugin.score(
                        TasksView([cluster_state.cluster.task(task)]), NodesView(cluster_state.ledger, rows)
                    )[0]
                    assert scores.tolist() == expected
            change_placements(data, cluster_state, statement)


def answers(
    cluster_state: RandomCluster, plugins: tuple[Predicates, NodeOrder], rows: Rows
) -> dict[int, tuple[str, float]]:
    predicates, order = plugins
    task, view = cluster_state.cluster.task(cluster_state.task_row), NodesView(cluster_state.ledger, rows)
    scores = order.score(TasksView([task]), view)[0].tolist()
    reason_of = [""] * len(rows)
    for rejection in predicates.reject(task, view):
        for place in np.flatnonzero(rejection.nodes):
            reason_of[place] = rejection.reason
    return {int(row): (reason_of[place], scores[place]) for place, row in enumerate(rows)}


@given(random_clusters(), st.data())
@examples(80)
def test_placements_change_answers_only_within_the_scope(cluster_state: RandomCluster, data: st.DataObject) -> None:
    """Answers with a node scope do not depend on other nodes, nor on the other nodes of a query."""
    plugins = (
        Predicates(PredicatesArguments(), cluster_state.cluster),
        NodeOrder(NodeOrderArguments(), cluster_state.cluster),
    )
    task = cluster_state.cluster.task(cluster_state.task_row)
    scope = max(scope_of(plugin, task) for plugin in plugins)
    if scope is Scope.CLUSTER:
        return
    every = np.arange(len(cluster_state.ledger.snapshot.nodes))
    before = answers(cluster_state, plugins, every)
    alone = data.draw(st.sampled_from(every.tolist()))
    assert answers(cluster_state, plugins, np.array([alone])) == {alone: before[alone]}
    with Statement(cluster_state.ledger) as statement:
        touched_before = cluster_state.ledger.touched[:]
        change_placements(data, cluster_state, statement)
        touched = set(cluster_state.ledger.touched[len(touched_before) :])
        after = answers(cluster_state, plugins, every)
        assert {row: after[row] for row in after if row not in touched} == {
            row: before[row] for row in before if row not in touched
        }


@given(random_clusters(), st.data())
@examples(80)
def test_a_run_of_equal_tasks_is_evaluated_as_each_alone(cluster_state: RandomCluster, data: st.DataObject) -> None:
    """Rows with n tasks of the run assumed as placed have the answers of the node with n equal tasks."""
    plugins = (
        Predicates(PredicatesArguments(), cluster_state.cluster),
        NodeOrder(NodeOrderArguments(), cluster_state.cluster),
    )
    task = cluster_state.cluster.task(cluster_state.task_row)
    if any(scope_of(plugin, task) > Scope.COLUMNS for plugin in plugins):
        return
    ledger = cluster_state.ledger
    equal = [row for row in cluster_state.pending if ledger.snapshot.tasks.shape[row] == task.shape and row != task.row]
    node = data.draw(st.integers(0, len(ledger.snapshot.nodes) - 1))
    rows, extra = np.full(len(equal) + 1, node), np.arange(len(equal) + 1)
    view = NodesView(ledger, rows, task, extra)
    rejected = np.zeros(len(rows), dtype=np.bool_)
    for rejection in plugins[0].reject(task, view):
        rejected |= rejection.nodes
    scores = plugins[1].score(TasksView([task]), view)[0]
    for level, other in enumerate([*equal, None]):
        reason, score = answers(cluster_state, plugins, np.array([node]))[node]
        assert (bool(reason), score) == (bool(rejected[level]), scores[level])
        if other is not None:
            ledger.move(other, Status.ALLOCATED, node)
