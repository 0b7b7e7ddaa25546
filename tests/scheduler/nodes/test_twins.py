"""The vectorised filters and scores say what their slow twin says, node by node, also after placements and evictions."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.nodes.worlds import Scene, scenes
from tests.scheduler.reference import node_filters as twin
from volcanopy.scheduler.cache.shapes import NONZERO, request_of
from volcanopy.scheduler.framework.plugin import Scope
from volcanopy.scheduler.ledger.cluster import NodesView, TasksView
from volcanopy.scheduler.ledger.statement import Statement
from volcanopy.scheduler.model.resources import Rows
from volcanopy.scheduler.model.task_status import EVICTABLE, Status
from volcanopy.scheduler.plugins.nodeorder import NodeOrder, NodeOrderArguments
from volcanopy.scheduler.plugins.predicates import Predicates, PredicatesArguments

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


def order_of(scene: Scene, chosen: dict[str, int]) -> NodeOrder:
    arguments = {WEIGHTS[name][0]: weight for name, weight in chosen.items()}
    return NodeOrder(NodeOrderArguments.model_validate(arguments), scene.cluster)


def reasons(scene: Scene, plugin: Predicates, task: int) -> list[str]:
    view = scene.cluster.nodes()
    found = [""] * len(view)
    for refusal in plugin.predicate(scene.cluster.task(task), view):
        for row in np.flatnonzero(refusal.nodes):
            assert not found[row], "a node is refused once"
            found[row] = refusal.reason
    return found


def stir(data: st.DataObject, scene: Scene, statement: Statement) -> None:
    """Place a pending task, evict a running one, or take everything back."""
    ledger = scene.ledger
    running = [
        row
        for row in scene.ledger.snapshot.task_rows.values()
        if EVICTABLE[ledger.status[row]] and ledger.node[row] >= 0
    ]
    waiting = [row for row in scene.pending if ledger.status[row] == Status.PENDING and row != scene.asking]
    deeds = ["undo", *["place", "pipeline"] * bool(waiting), *["evict"] * bool(running)]
    node = data.draw(st.integers(0, len(ledger.snapshot.nodes) - 1))
    match data.draw(st.sampled_from(deeds)):
        case "place":
            statement.allocate(data.draw(st.sampled_from(waiting)), node)
        case "pipeline":
            statement.pipeline(data.draw(st.sampled_from(waiting)), node)
        case "evict":
            statement.evict(data.draw(st.sampled_from(running)), "for the test")
        case _:
            statement.rollback()


def fullness(scene: Scene, task: int) -> Any:
    ledger = scene.ledger
    snapshot = ledger.snapshot
    spec = snapshot.tasks.pods[task].spec
    request, padded = request_of(spec), request_of(spec, NONZERO)

    def of(node: Any) -> tuple[twin.Amounts, ...]:
        row = snapshot.nodes.index[node.metadata.name]
        room, used = snapshot.nodes.allocatable.row(row), ledger.columns(ledger.used).row(row)
        nonzero = ledger.nonzero[:, row]
        return (
            twin.Amounts(room["cpu"], room["memory"], room["nvidia.com/gpu"]),
            twin.Amounts(used["cpu"], used["memory"], used["nvidia.com/gpu"]),
            twin.Amounts(request.get("cpu", 0), request.get("memory", 0), request.get("nvidia.com/gpu", 0)),
            twin.Amounts(int(nonzero[0]) + padded.get("cpu", 0), int(nonzero[1]) + padded.get("memory", 0)),
        )

    return of


@given(scenes(), st.data())
@settings(max_examples=120, deadline=None)
def test_each_node_is_refused_for_the_reason_that_the_slow_twin_gives(scene: Scene, data: st.DataObject) -> None:
    plugin = Predicates(PredicatesArguments(), scene.cluster)
    with Statement(scene.ledger) as statement:
        for _ in range(data.draw(st.integers(1, 4))):
            world = scene.seen()
            for task in scene.pending:
                if scene.ledger.status[task] == Status.PENDING:
                    pod = scene.cluster.task(task).pod
                    expected = [twin.refusal(pod, node, world) for node in world.nodes]
                    assert reasons(scene, plugin, task) == expected
            stir(data, scene, statement)


@given(scenes(), weights, st.data())
@settings(max_examples=120, deadline=None)
def test_each_node_scores_what_the_slow_twin_gives_it(
    scene: Scene, chosen: dict[str, int], data: st.DataObject
) -> None:
    plugin = order_of(scene, chosen)
    count = len(scene.ledger.snapshot.nodes)
    with Statement(scene.ledger) as statement:
        for _ in range(data.draw(st.integers(1, 4))):
            world = scene.seen()
            rows = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1))), dtype=np.intp)
            for task in scene.pending:
                if scene.ledger.status[task] == Status.PENDING:
                    pod = scene.cluster.task(task).pod
                    candidates = [world.nodes[row] for row in rows]
                    expected = twin.score(pod, candidates, world, chosen, fullness(scene, task))
                    scores = plugin.node_order(TasksView([scene.cluster.task(task)]), NodesView(scene.ledger, rows))[0]
                    assert scores.tolist() == expected
            stir(data, scene, statement)


def answers(scene: Scene, plugins: tuple[Predicates, NodeOrder], rows: Rows) -> dict[int, tuple[str, float]]:
    predicates, order = plugins
    task, view = scene.cluster.task(scene.asking), NodesView(scene.ledger, rows)
    scores = order.node_order(TasksView([task]), view)[0].tolist()
    refused = [""] * len(rows)
    for refusal in predicates.predicate(task, view):
        for place in np.flatnonzero(refusal.nodes):
            refused[place] = refusal.reason
    return {int(row): (refused[place], scores[place]) for place, row in enumerate(rows)}


@given(scenes(), st.data())
@settings(max_examples=120, deadline=None)
def test_a_narrow_scope_is_true(scene: Scene, data: st.DataObject) -> None:
    """What is claimed to follow from a node alone does not change by what happens elsewhere or who else is asked about."""
    plugins = Predicates(PredicatesArguments(), scene.cluster), NodeOrder(NodeOrderArguments(), scene.cluster)
    task = scene.cluster.task(scene.asking)
    scope = max(plugin.scope(task) for plugin in plugins)
    if scope is Scope.CLUSTER:
        return
    every = np.arange(len(scene.ledger.snapshot.nodes))
    before = answers(scene, plugins, every)
    alone = data.draw(st.sampled_from(every.tolist()))
    assert answers(scene, plugins, np.array([alone])) == {alone: before[alone]}
    with Statement(scene.ledger) as statement:
        seen = scene.ledger.touched[:]
        stir(data, scene, statement)
        touched = set(scene.ledger.touched[len(seen) :])
        after = answers(scene, plugins, every)
        assert {row: after[row] for row in after if row not in touched} == {
            row: before[row] for row in before if row not in touched
        }


@given(scenes(), st.data())
@settings(max_examples=120, deadline=None)
def test_a_run_of_equal_tasks_is_answered_as_one_by_one(scene: Scene, data: st.DataObject) -> None:
    """Rows with n of the run taken as placed say what the node says once n equal tasks are there."""
    plugins = Predicates(PredicatesArguments(), scene.cluster), NodeOrder(NodeOrderArguments(), scene.cluster)
    task = scene.cluster.task(scene.asking)
    if any(plugin.scope(task) > Scope.COLUMNS for plugin in plugins):
        return
    ledger = scene.ledger
    alike = [row for row in scene.pending if ledger.snapshot.tasks.shape[row] == task.shape and row != task.row]
    node = data.draw(st.integers(0, len(ledger.snapshot.nodes) - 1))
    rows, extra = np.full(len(alike) + 1, node), np.arange(len(alike) + 1)
    view = NodesView(ledger, rows, task, extra)
    refused = np.zeros(len(rows), dtype=np.bool_)
    for refusal in plugins[0].predicate(task, view):
        refused |= refusal.nodes
    scores = plugins[1].node_order(TasksView([task]), view)[0]
    for level, other in enumerate([*alike, None]):
        reason, score = answers(scene, plugins, np.array([node]))[node]
        assert (bool(reason), score) == (bool(refused[level]), scores[level])
        if other is not None:
            ledger.move(other, Status.ALLOCATED, node)
